"""Every report as one HTML page that needs no server, no network and no other file."""

from kvtools.report.html.check_page import render_check_html
from kvtools.report.html.compare_page import render_comparison_html
from kvtools.report.html.page import render_html
from kvtools.report.html.replay_page import render_replay_html
from kvtools.report.html.warmup_page import render_warmup_html

__all__ = [
    "render_check_html",
    "render_comparison_html",
    "render_html",
    "render_replay_html",
    "render_warmup_html",
]
