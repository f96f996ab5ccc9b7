"""Rewrite prompts so that their stable text stands in front: nothing is lost, and nothing else is touched."""

from kvtools.normalize.forms import FORMS, OneForm, one_form
from kvtools.normalize.hoist import Moves, hoisted
from kvtools.normalize.rewriting import Rewriting

__all__ = ["FORMS", "Moves", "OneForm", "Rewriting", "hoisted", "one_form"]
