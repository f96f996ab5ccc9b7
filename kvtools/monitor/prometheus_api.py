"""The counters that a Prometheus keeps, over its HTTP API: the samples as they were scraped, with their own times.

A range of raw samples (``metric[6h]``) is asked for, not ``query_range``: that one takes values at the steps of a
grid, where the last value before a restart is lost and a missing scrape looks like a standstill.
API: https://prometheus.io/docs/prometheus/latest/querying/api/
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from kvtools.errors import InputError, UsageError
from kvtools.monitor.exposition import FAMILIES, Page, Sample, field_of, spellings
from kvtools.readers.urls import public

if TYPE_CHECKING:
    from collections.abc import Mapping

    import httpx

TIMEOUT_S = 60.0
_LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_SHORT = 200


class _Series(msgspec.Struct):
    metric: dict[str, str]
    values: list[tuple[float, str]]


class _Matrix(msgspec.Struct, rename={"kind": "resultType"}):
    kind: str
    result: list[_Series]


class _Answer(msgspec.Struct):
    status: str
    data: _Matrix | None = None
    error: str = ""


def query(range_s: float, matchers: Mapping[str, str]) -> str:
    """Return the PromQL that selects all samples of the last ``range_s``.

    Raises:
        UsageError: a label's name is none.
    """
    parts = [f'__name__=~"{spellings(tuple(FAMILIES))}"']
    for name, value in matchers.items():
        if not _LABEL_NAME.fullmatch(name):
            raise UsageError(f"--query-label {name}={value}: {name!r} is no label's name.")
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        parts.append(f'{name}="{escaped}"')
    # A backslash in the regular expression is one of the string too.
    return f"{{{','.join(parts)}}}[{max(round(range_s * 1000), 1)}ms]"


def fetch(url: str, range_s: float, matchers: Mapping[str, str]) -> Page:
    """Return the samples of the last ``range_s`` seconds that a Prometheus holds of our metrics.

    Raises:
        InputError: nobody answers, or what answers is no Prometheus.
        UsageError: the URL or a label's name is none.
    """
    if not re.match(r"https?://[^/\s]", url, re.IGNORECASE):
        raise UsageError(f"--prometheus {public(url)}: give a URL such as http://prometheus:9090.")
    import httpx  # noqa: PLC0415 - few runs ask a Prometheus

    asked = query(range_s, matchers)
    with httpx.Client(timeout=TIMEOUT_S) as client:
        matrix = _ask(client, url, asked)
        page = _page(matrix)
        _learn_units(client, url, page)
    return page


def _ask(client: httpx.Client, url: str, asked: str) -> _Matrix:
    import httpx  # noqa: PLC0415 - as above

    where = public(url)
    try:
        response = client.post(f"{url.rstrip('/')}/api/v1/query", data={"query": asked})
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        said = str(error) or type(error).__name__
        raise InputError(
            f"{where}: no Prometheus answers ({' '.join(said.split())[:_SHORT]}); check the URL and that it runs."
        ) from None
    try:
        answer = msgspec.json.decode(response.content, type=_Answer)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise InputError(
            f"{where}: not a Prometheus (HTTP {response.status_code}, and no answer of its API); "
            "give the address that its web page has."
        ) from None
    if answer.status != "success" or answer.data is None:
        raise InputError(
            f"{where}: Prometheus refuses the query ({' '.join(answer.error.split())[:_SHORT]}); "
            "ask for a shorter --range or name one service with --query-label."
        )
    return answer.data


def _page(matrix: _Matrix) -> Page:
    page = Page(1)
    for series in matrix.result:
        known = field_of(series.metric.pop("__name__", ""))
        if known is None:
            continue
        labels = tuple(sorted(series.metric.items()))
        for time, text in series.values:
            value = float(text)
            if value >= 0 and value != float("inf"):
                page.samples.append(Sample(*known, labels, value, time))
            else:
                page.unreadable += 1  # NaN too
    return page


def _learn_units(client: httpx.Client, url: str, page: Page) -> None:
    """Learn from the help texts what the queries count; a Prometheus that keeps none leaves it unknown."""
    for place in {sample.name_place for sample in page.samples if sample.field == "queries"}:
        name = FAMILIES["queries"][place]
        for spelling in (name, name.removesuffix("_total")):
            for text in _help(client, url, spelling):
                if "token" in text or "block" in text:
                    page.units[place] = "tokens" if "token" in text else "blocks"


def _help(client: httpx.Client, url: str, name: str) -> list[str]:
    import httpx  # noqa: PLC0415 - as above

    try:
        found: Any = client.get(f"{url.rstrip('/')}/api/v1/metadata", params={"metric": name}).json()
        return [str(one["help"]).lower() for one in found["data"].get(name, ())]
    except (httpx.HTTPError, ValueError, KeyError, TypeError, AttributeError):
        return []
