"""Reports and verdicts come back from their JSON; whatever else is given is refused in one sentence."""

from __future__ import annotations

import pytest

from kvtools.errors import InputError
from kvtools.report.check import Verdict
from kvtools.report.model import Report


@pytest.mark.parametrize("form", [Report, Verdict])
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        "[]",
        "1",
        '{"schema_version": 1}',
        '{"schema_version": "1"}',
        '{"a": "\ud800"}',
        "[" * 100_000,
    ],
    ids=["nothing", "bytes", "list", "number", "version-alone", "version-as-text", "surrogate", "deep"],
)
def test_what_is_none_is_refused(form: type[Report | Verdict], data: bytes | str) -> None:
    with pytest.raises(InputError, match=f"^not a kvtools {form.__name__.lower()} ") as told:
        form.from_json(data)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("form", [Report, Verdict])
@pytest.mark.parametrize(("version", "shown"), [("2", "2"), ("null", "None")])
def test_another_version_is_named(form: type[Report | Verdict], version: str, shown: str) -> None:
    with pytest.raises(InputError, match=f"has schema version {shown}, this kvtools reads 1"):
        form.from_json(f'{{"schema_version": {version}}}')
    with pytest.raises(InputError, match="has schema version None"):
        form.from_json("{}")
