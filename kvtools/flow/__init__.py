"""The verbs: each joins the rooms for one question. This is the Python API; the command line calls nothing else."""

from kvtools.flow.about import doctor, formats
from kvtools.flow.analyze import AnalyzeOptions, analyze
from kvtools.flow.convert import ConvertOptions, convert
from kvtools.flow.diff import diff_logs, diff_requests
from kvtools.flow.explain import ExplainOptions, explain
from kvtools.flow.intake import IntakeOptions, Watcher
from kvtools.flow.label import LabelOptions, label
from kvtools.flow.lint import LintOptions, lint_templates
from kvtools.flow.normalize import normalize, restore
from kvtools.flow.normalize_stage import NormalizeOptions
from kvtools.flow.replay import ReplayOptions, replay
from kvtools.flow.rules import RulesOptions, rules
from kvtools.flow.samples import write_sample
from kvtools.flow.sizing import CacheMemory, cache_memory
from kvtools.model import SchedulerSpec
from kvtools.replay.server import ServerEngine

__all__ = [
    "AnalyzeOptions",
    "CacheMemory",
    "ConvertOptions",
    "ExplainOptions",
    "IntakeOptions",
    "LabelOptions",
    "LintOptions",
    "NormalizeOptions",
    "ReplayOptions",
    "RulesOptions",
    "SchedulerSpec",
    "ServerEngine",
    "Watcher",
    "analyze",
    "cache_memory",
    "convert",
    "diff_logs",
    "diff_requests",
    "doctor",
    "explain",
    "formats",
    "label",
    "lint_templates",
    "normalize",
    "replay",
    "restore",
    "rules",
    "write_sample",
]
