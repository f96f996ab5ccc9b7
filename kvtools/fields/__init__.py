"""What varies in the prompts: sections grouped by the text they share, and templates with a gap for each value."""

from kvtools.fields.grouping import Group, grouped
from kvtools.fields.learning import Learned, learn_group
from kvtools.fields.sample import SectionSample, SectionText, sections_of
from kvtools.fields.template import Gap, SectionTemplate

__all__ = [
    "Gap",
    "Group",
    "Learned",
    "SectionSample",
    "SectionTemplate",
    "SectionText",
    "grouped",
    "learn_group",
    "sections_of",
]
