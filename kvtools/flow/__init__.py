"""The verbs: each joins the rooms for one question. This is the Python API; the command line calls nothing else."""

from kvtools.executors import Work
from kvtools.flow.about import doctor, formats
from kvtools.flow.analyze import AnalyzeOptions, analyze
from kvtools.flow.check import CheckOptions, baseline, check, self_test
from kvtools.flow.convert import ConvertOptions, convert
from kvtools.flow.diff import diff_logs, diff_requests
from kvtools.flow.explain import ExplainOptions, explain
from kvtools.flow.export import ExportOptions, export
from kvtools.flow.history import check_history
from kvtools.flow.intake import IntakeOptions, Watcher
from kvtools.flow.label import LabelOptions, label
from kvtools.flow.lint import LintOptions, lint_templates
from kvtools.flow.lint_queries import lint_queries
from kvtools.flow.metrics import MetricsOptions, analyze_metrics
from kvtools.flow.normalize import normalize, restore
from kvtools.flow.normalize_stage import NormalizeOptions
from kvtools.flow.plan_routing import RoutingOptions, plan_routing
from kvtools.flow.plan_schedule import plan_schedule
from kvtools.flow.plan_schedule_options import ScheduleOptions
from kvtools.flow.plan_sizing import SizingOptions, plan_sizing
from kvtools.flow.replay import ReplayOptions, replay
from kvtools.flow.rules import RulesOptions, rules
from kvtools.flow.samples import write_sample
from kvtools.flow.sizing import CacheMemory, cache_memory
from kvtools.flow.warmup import WarmupOptions, warmup
from kvtools.flow.warmup_send import SendOptions, send_warmup
from kvtools.flow.watch import LogWatch, WatchOptions, watch
from kvtools.flow.watch_server import ServerWatch
from kvtools.model import SchedulerSpec
from kvtools.monitor.deployment import Deployment, Scenario, scenario
from kvtools.replay.server import ServerEngine

__all__ = [
    "AnalyzeOptions",
    "CacheMemory",
    "CheckOptions",
    "ConvertOptions",
    "Deployment",
    "ExplainOptions",
    "ExportOptions",
    "IntakeOptions",
    "LabelOptions",
    "LintOptions",
    "LogWatch",
    "MetricsOptions",
    "NormalizeOptions",
    "ReplayOptions",
    "RoutingOptions",
    "RulesOptions",
    "Scenario",
    "ScheduleOptions",
    "SchedulerSpec",
    "SendOptions",
    "ServerEngine",
    "ServerWatch",
    "SizingOptions",
    "WarmupOptions",
    "WatchOptions",
    "Watcher",
    "Work",
    "analyze",
    "analyze_metrics",
    "baseline",
    "cache_memory",
    "check",
    "check_history",
    "convert",
    "diff_logs",
    "diff_requests",
    "doctor",
    "explain",
    "export",
    "formats",
    "label",
    "lint_queries",
    "lint_templates",
    "normalize",
    "plan_routing",
    "plan_schedule",
    "plan_sizing",
    "replay",
    "restore",
    "rules",
    "scenario",
    "self_test",
    "send_warmup",
    "warmup",
    "watch",
    "write_sample",
]
