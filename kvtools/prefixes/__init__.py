"""Where prompts part: all prompts of a log sorted as sequences, the tree that they form, and who shared most before."""

from kvtools.prefixes.sorting import SortedPrompts, sort_prompts
from kvtools.prefixes.tree import BranchPoints, Part, PrefixTree, prefix_tree

__all__ = ["BranchPoints", "Part", "PrefixTree", "SortedPrompts", "prefix_tree", "sort_prompts"]
