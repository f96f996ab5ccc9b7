"""The report as one HTML page that needs no server, no network and no other file."""

from kvtools.report.html.page import render_html

__all__ = ["render_html"]
