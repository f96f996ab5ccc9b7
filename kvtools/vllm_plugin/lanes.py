"""The waiting requests in two lanes of vLLM's own queue by priority; a lane without a free seat looks empty."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vllm.v1.core.sched.request_queue import PriorityRequestQueue, RequestQueue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from vllm.v1.request import Request


class HotColdQueue(RequestQueue):  # type: ignore[misc]
    """Hot requests first, then cold ones, each by priority and arrival; in place of a scheduler's ``waiting``.

    ``has_seat(cold)`` tells whether one more request of a class may run. vLLM's loop admits while the queue is true,
    so a queue is false while nothing in it may run, and peeking and popping pass over the lane that has no seat.
    ``len`` and iteration go over all that wait.
    """

    def __init__(self, hot_below: int, has_seat: Callable[[bool], bool]) -> None:
        """Take the first priority that is cold, and the question for a seat."""
        self.hot, self.cold = PriorityRequestQueue(), PriorityRequestQueue()
        self._hot_below = hot_below
        self._has_seat = has_seat

    def _lane(self, request: Request) -> PriorityRequestQueue:
        return self.hot if request.priority < self._hot_below else self.cold

    def _open(self) -> PriorityRequestQueue | None:
        if self.hot and self._has_seat(False):  # noqa: FBT003 - asked of the hot ones
            return self.hot
        if self.cold and self._has_seat(True):  # noqa: FBT003 - asked of the cold ones
            return self.cold
        return None

    def add_request(self, request: Request) -> None:
        """Let a request wait."""
        self._lane(request).add_request(request)

    def pop_request(self) -> Request:
        """Take out the first request that has a seat."""
        return self._first().pop_request()

    def peek_request(self) -> Request:
        """Return the first request that has a seat."""
        return self._first().peek_request()

    def _first(self) -> PriorityRequestQueue:
        lane = self._open()
        if lane is None:
            raise IndexError("no waiting request has a seat")
        return lane

    def prepend_request(self, request: Request) -> None:
        """Let a request wait again; its priority and arrival say where."""
        self.add_request(request)

    def prepend_requests(self, requests: Iterable[Request]) -> None:
        """Let requests wait again."""
        for request in requests:
            self.add_request(request)

    def remove_request(self, request: Request) -> None:
        """Take out one request."""
        self._lane(request).remove_request(request)

    def remove_requests(self, requests: Iterable[Request]) -> None:
        """Take out several requests, those that do not wait here among them."""
        gone = set(requests)
        for lane in (self.hot, self.cold):
            lane.remove_requests(gone)

    def __bool__(self) -> bool:
        return self._open() is not None

    def __len__(self) -> int:
        return len(self.hot) + len(self.cold)

    def __iter__(self) -> Iterator[Request]:
        yield from self.hot
        yield from self.cold
