"""The verbs: each joins the rooms for one question. This is the Python API; the command line calls nothing else."""

from kvtools.flow.analyze import AnalyzeOptions, analyze
from kvtools.flow.intake import IntakeOptions, Watcher
from kvtools.flow.samples import write_sample

__all__ = ["AnalyzeOptions", "IntakeOptions", "Watcher", "analyze", "write_sample"]
