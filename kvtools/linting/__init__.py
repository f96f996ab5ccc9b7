"""What a prompt template does to the prefix, before a single request is sent.

Templates are read, not run: their syntax tree says where placeholders stand and what the template asks for. Only
chat templates are rendered, with small conversations, in a process of its own that is ended when it takes too long.
"""

from kvtools.linting.builders import BuilderFields, FieldPlace, fields_in_order
from kvtools.linting.check import TemplateLint, lint_template
from kvtools.linting.findings import Finding, Rule, Severity
from kvtools.linting.names import CHANGES, Changes
from kvtools.linting.probing import probe_chat_templates
from kvtools.linting.sources import Source, Sources, Unreadable, read_templates

__all__ = [
    "CHANGES",
    "BuilderFields",
    "Changes",
    "FieldPlace",
    "Finding",
    "Rule",
    "Severity",
    "Source",
    "Sources",
    "TemplateLint",
    "Unreadable",
    "fields_in_order",
    "lint_template",
    "probe_chat_templates",
    "read_templates",
]
