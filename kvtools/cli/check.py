"""``kvtools check PATH…``: fail a pull request that costs hit rate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kvtools.cli.gate_options import JUDGED, LIMITS, NEEDED, check_options, gate_output, verdict_kinds
from kvtools.cli.options import CACHE, FILE, INTAKE, with_options
from kvtools.cli.output import keep_apart, result_to
from kvtools.cli.report_files import FORMS, LANG, KindAndFile, made_by

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from kvtools.report.check import Verdict

RUN = (
    click.option(
        "--baseline", type=FILE, metavar="FILE", help="What kvtools baseline wrote; for --max-drop."
    ),
    click.option(
        "--history",
        type=FILE,
        multiple=True,
        metavar="FILE|DIR",
        help="Judge the newest of stored reports or baselines against those before it; repeatable.",
    ),
    click.option("--explain", is_flag=True, help="Print where each limit was set, and judge nothing."),
    click.option(
        "--self-test", "testing", is_flag=True, help="Plant a fault in the input and see that the gate fails."
    ),
    click.option(
        "--report",
        "reports",
        type=KindAndFile(verdict_kinds),
        multiple=True,
        metavar="KIND=FILE",
        help="Write the verdict also as KIND (github, gitlab, html, json, junit, md, sarif, text); repeatable.",
    ),
)


@click.command("check")
@click.argument("paths", nargs=-1, metavar="[PATH…]")
@with_options(LIMITS, RUN, NEEDED, JUDGED, CACHE, INTAKE, FORMS, (LANG,))
def command(
    paths: tuple[str, ...],
    output_format: str,
    output: Path | None,
    lang: str,
    reports: tuple[tuple[str, Path], ...],
    history: tuple[Path, ...],
    *,
    explain: bool,
    testing: bool,
    **given: Any,
) -> int:
    """Hold a log, or templates with recorded values, against limits: exit 0 passed, 1 failed.

    Limits come from options, else from [check] in kvtools.toml or [tool.kvtools.check] in pyproject.toml. Too little
    data and unlike baselines are no pass: exit 3.
    """
    from kvtools.cli.progress import watched  # noqa: PLC0415 - heavy
    from kvtools.flow.check import check, self_test  # noqa: PLC0415 - heavy
    from kvtools.flow.history import check_history  # noqa: PLC0415 - heavy
    from kvtools.report.gate_formats import written  # noqa: PLC0415 - used only here

    inputs = (*paths, *(str(given[name]) for name in ("baseline", "values") if given[name] is not None))
    inputs += _history_alone(history, paths, given, other=explain or testing)
    further = {f"--report {kind} {number}": path for number, (kind, path) in enumerate(reports, 1)}
    keep_apart(inputs, {"-o": output, "--rejects": given["rejects"], **further})
    options, file = check_options(given)
    if explain:
        from kvtools.flow.explain_limits import limit_lines  # noqa: PLC0415 - used only here

        with result_to(output) as write:
            write(limit_lines(options, file))
        return 0
    with gate_output(), result_to(output, utf8=output_format != "text") as write:
        with watched("checking") as watcher:
            if testing:
                sentence = self_test(paths, options, watcher)
                write(f"{sentence}\n")
                return 0
            verdict = check_history(history) if history else check(paths, options, watcher)
        again = made_by(paths)
        _write_reports(verdict, reports, lang, again)
        write(written(verdict, output_format, lang=lang, command=again))
    return verdict.exit_code


def _history_alone(
    history: tuple[Path, ...], paths: tuple[str, ...], given: Mapping[str, Any], *, other: bool
) -> tuple[str, ...]:
    if history and (paths or other or any(value is not None for value in given.values())):
        raise click.UsageError(
            "--history judges what is stored by itself: give no log, limit or setting with it."
        )
    return tuple(map(str, history))


def _write_reports(
    verdict: Verdict, reports: Sequence[tuple[str, Path]], lang: str, command: str | None
) -> None:
    from kvtools.report.files import replacing  # noqa: PLC0415 - heavy
    from kvtools.report.gate_formats import written  # noqa: PLC0415 - used only here

    for kind, path in reports:
        with replacing(path) as file:
            file.write(written(verdict, kind, lang=lang, command=command))
