"""Rewrite prompts so that their stable text stands in front: nothing is lost, and nothing else is touched."""

from kvtools.normalize.forms import FORMS, OneForm, one_form
from kvtools.normalize.hoist import Moved, Moves
from kvtools.normalize.rewriting import Rewriting, Rewritten

__all__ = ["FORMS", "Moved", "Moves", "OneForm", "Rewriting", "Rewritten", "one_form"]
