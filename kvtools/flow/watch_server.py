"""``watch URL``: a server's ``/metrics``, polled, and what its counters grew by."""

from __future__ import annotations

from dataclasses import dataclass, field

from kvtools.errors import EngineError
from kvtools.model import share
from kvtools.monitor.counters import Increase, Scrape, began_anew, engine_labels, increase
from kvtools.monitor.exposition import Labels, Unit, pages
from kvtools.readers.urls import public
from kvtools.report.watch import ServerTick, Stretch

TIMEOUT_S = 5.0
_SHORT = 200


@dataclass(slots=True)
class ServerWatch:
    """A server that is polled. State: the last scrape of each engine, and sums."""

    url: str
    ended: bool = False
    _last: dict[Labels, Scrape] = field(default_factory=dict)
    _unit: Unit | None = None
    _now: list[int] = field(default_factory=lambda: [0, 0, 0, 0, 0])
    _total: list[int] = field(default_factory=lambda: [0, 0, 0, 0, 0])
    _counts_requests: bool = False
    _restarts: int = 0
    _since_hit: int = 0
    _polls: int = 0
    _failed: int = 0
    _trouble: str | None = None

    @property
    def name(self) -> str:
        """The URL without secrets."""
        return public(self.url)

    def start(self) -> None:
        """Take the first scrape.

        Raises:
            EngineError: the server does not answer, or its page has no prefix-cache counters.
        """
        self._poll()
        if self._trouble is not None:
            raise EngineError(f"{self.name}: {self._trouble}.")

    def look(self) -> None:
        """Nothing happens between intervals."""

    def close(self) -> None:
        """Nothing is open between polls."""

    def tick(self, at_s: float, *, findings: bool = True) -> ServerTick:  # noqa: ARG002 - as LogWatch has it
        """Poll, return what grew since the last time, and begin a new interval."""
        self._poll()
        now, self._now = self._now, [0, 0, 0, 0, 0]
        gauges = {
            name: [one.values[name] for one in self._last.values() if name in one.values]
            for name in ("running", "waiting", "kv_usage")
        }
        usage = gauges["kv_usage"]
        return ServerTick(
            source=self.name,
            at_s=at_s,
            engines=len(self._last),
            unit=self._unit,
            now=self._stretch(now),
            total=self._stretch(self._total),
            external_hit=now[2],
            total_external_hit=self._total[2],
            preemptions=self._total[3],
            restarts=self._restarts,
            running=round(sum(gauges["running"])) if gauges["running"] else None,
            waiting=round(sum(gauges["waiting"])) if gauges["waiting"] else None,
            kv_usage=sum(usage) / len(usage) if usage else None,
            queried_since_hit=self._since_hit,
            polls=self._polls,
            failed_polls=self._failed,
            trouble=self._trouble,
        )

    def _stretch(self, sums: list[int]) -> Stretch:
        queried, hit, external, _, finished = sums
        whole = queried if hit + external <= queried else 0  # a poll fell between the two counters
        return Stretch(
            requests=finished if self._counts_requests else None,
            queried=queried,
            hit=hit,
            hit_rate=share(hit + external, whole),
        )

    def _poll(self) -> None:
        self._polls += 1
        text = self._page()
        if text is None:
            self._failed += 1
            return
        found: dict[Labels, Scrape] = {}
        for page in pages(text):
            self._unit = next(iter(page.units.values()), self._unit)
            for sample in page.samples:
                if sample.field != "config":
                    found.setdefault(engine_labels(sample.labels), Scrape(0.0)).add(sample)
        usable = {labels: scrape for labels, scrape in found.items() if scrape.usable}
        if not usable:
            self._failed += 1
            self._trouble = (
                "no prefix-cache counters (vllm:prefix_cache_queries) on its page; is it a vLLM server"
            )
            return
        self._trouble = None
        for labels, scrape in usable.items():
            before = self._last.get(labels)
            if before is not None:
                anew = began_anew(before, scrape)
                self._restarts += anew
                self._add(increase(0, Scrape(0.0) if anew else before, scrape, anew=anew))
            self._counts_requests |= "finished" in scrape.values
            self._last[labels] = scrape

    def _add(self, one: Increase) -> None:
        grown = (one.queried, one.hit, one.external_hit, one.preemptions, one.finished or 0)
        for sums in (self._now, self._total):
            for place, value in enumerate(grown):
                sums[place] += value
        self._since_hit = 0 if one.hit + one.external_hit else self._since_hit + one.queried

    def _page(self) -> str | None:
        import httpx  # noqa: PLC0415 - no other verb of the API needs it

        url = self.url.rstrip("/")
        url = url if url.endswith("/metrics") else f"{url}/metrics"
        try:
            response = httpx.get(url, timeout=TIMEOUT_S)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            said = " ".join(str(error).split())[:_SHORT] or type(error).__name__
            self._trouble = f"no server answers ({said}); check the URL and that it runs"
            return None
        if response.status_code != httpx.codes.OK:
            self._trouble = f"HTTP {response.status_code} for its /metrics; name the address that vLLM serves"
            return None
        return response.text
