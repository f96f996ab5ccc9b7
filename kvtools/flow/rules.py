"""``rules``: the line between hot and cold in this traffic, for gateways and services."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvtools.errors import InputError
from kvtools.flow.arrivals import arrivals_of
from kvtools.flow.intake import IntakeOptions, Watcher, take_in
from kvtools.heat.nginx import Gateway, nginx_snippet
from kvtools.heat.priority import VLLM_GUIDE
from kvtools.heat.rules_file import rules_yaml
from kvtools.report.files import replacing
from kvtools.report.rules import Log, rules_report

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kvtools.flow.intake import Intake, PathLike
    from kvtools.heat.study import HeatStudy
    from kvtools.report.rules import RulesReport


@dataclass(frozen=True, slots=True, kw_only=True)
class RulesOptions(IntakeOptions):
    """What ``rules`` can be told besides how to read.

    ``target``: the folder that receives the files. ``class_rules``: ``article-b`` adds the rule that prompts over
    1,000 tokens are cold. ``route_header``, ``route_is_path``, ``tokens_header``: where nginx finds the route and the
    number of prompt tokens, if it can.
    """

    target: Path
    class_rules: tuple[str, ...] = ()
    route_header: str | None = None
    route_is_path: bool = False
    tokens_header: str | None = None

    def __post_init__(self) -> None:
        self.gateway()

    def gateway(self) -> Gateway:
        """Return where nginx finds what.

        Raises:
            UsageError: a header has a name that nginx cannot read.
        """
        return Gateway(
            route_header=self.route_header,
            route_is_path=self.route_is_path,
            tokens_header=self.tokens_header,
        )


def rules(
    paths: Sequence[PathLike] | PathLike, options: RulesOptions, watcher: Watcher | None = None
) -> RulesReport:
    """Write rules.yaml, nginx.conf and vllm-priority.md to ``options.target`` and return what they say.

    Raises:
        InputError: the log cannot be read, or no request in it can be used; the folder cannot be written.
        UsageError: an option is out of its range.
    """
    return take_in(paths, options, watcher or Watcher(), lambda intake: _rules(intake, options))


def _rules(intake: Intake, options: RulesOptions) -> RulesReport:
    from kvtools.heat.study import (  # noqa: PLC0415 - loads scikit-learn
        FORECAST_WINDOW_S,
        next_cold_burst,
        study_heat,
    )

    found = arrivals_of(intake)
    study = study_heat(found.columns, article_b="article-b" in options.class_rules)
    snippet = nginx_snippet(study.rules, options.gateway())
    texts = {
        "rules.yaml": rules_yaml(study.rules, _notes(study)),
        "nginx.conf": snippet.text,
        "vllm-priority.md": VLLM_GUIDE,
    }
    log = Log(
        inputs=intake.inputs(),
        rejected=found.counts.rejected.total(),
        left_out=found.left_out,
        utc_offset_min=found.utc_offset_min,
    )
    coming = (next_cold_burst(study, found.utc_offset_min), FORECAST_WINDOW_S)
    return rules_report(log, study, snippet, coming, _written(options.target, texts))


def _notes(study: HeatStudy) -> list[str]:
    """Return what a reader of the file should know of it."""
    notes = ["Hot or cold for a request that arrives: the first rule that fits decides, else the default."]
    told = study.thresholds
    if told is None:
        return [*notes, f"The log gave no rules of its own: {study.model.reason}."]
    later = "not judged" if told.fidelity_holdout is None else f"{told.fidelity_holdout:.3f}"
    notes.append(
        f"The rules named model-N follow the log's own classes; fidelity {told.fidelity:.3f} where they were learnt, "
        f"{later} on the last 30 % of the time."
    )
    return notes


def _written(target: Path, texts: dict[str, str]) -> list[str]:
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{target}: cannot be a folder ({error.strerror}); choose another place.") from None
    for name, text in texts.items():
        with replacing(target / name) as file:
            file.write(text)
    return [str(target / name) for name in texts]
