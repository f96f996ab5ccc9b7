"""The order of sections: replay against a plain one, search against trying everything, the published week."""

from __future__ import annotations

import random
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kvtools.diagnosis import section_order
from kvtools.diagnosis.chat_orders import OrderableChats, is_orderable, reordered
from kvtools.diagnosis.chat_sections import chat_sections, expressible
from kvtools.diagnosis.section_order import MIN_GAIN_SHARE, best_section_order, moved_places
from kvtools.diagnosis.sectioned import SectionedLog, sectioned
from kvtools.errors import InputError, UsageError
from kvtools.readers.ragpulse_components import ragpulse_sections
from kvtools.table import Ragged

Request = list[list[int]]

TOOL: dict[str, Any] = {"type": "function", "function": {"name": "f"}}


def plain_hits(requests: list[Request], lengths: dict[int, int], order: tuple[int, ...]) -> list[int]:
    """The counting rule, word for word: a hit is a sequence of components that an earlier request began with."""
    seen: set[tuple[int, ...]] = set()
    hits = []
    for request in requests:
        whole = [one for section in order for one in request[section]]
        begun = [tuple(whole[: place + 1]) for place in range(len(whole))]
        hits.append(sum(lengths[start[-1]] for start in begun if start in seen))
        seen.update(begun)
    return hits


def drawn(
    seed: int, sections: int, requests: int = 40, *, shared_ids: bool = False
) -> tuple[list[Request], dict[int, int]]:
    """Requests at random; with ``shared_ids`` the same content can stand in any section."""
    rng = random.Random(seed)
    apart = 0 if shared_ids else 10
    lengths = {one: rng.randrange(1, 9) for one in range(10 * sections)}
    rows = [
        [
            [apart * section + rng.randrange(1 + section) for _ in range(rng.randrange(3))]
            for section in range(sections)
        ]
        for _ in range(requests)
    ]
    return rows, lengths


def fewest_moves(order: tuple[int, ...]) -> int:
    """The fewest sections to take out so that the rest still stands in its order, by trying all sets."""
    kept = [[place for place in order if mask >> place & 1] for mask in range(1 << len(order))]
    return len(order) - max(len(rest) for rest in kept if rest == sorted(rest))


class TestReplay:
    def test_by_hand(self) -> None:
        # a: 10, b: 5, c: 1. "ab", "ac", "ab", "b": the second hits a, the third a and b, the fourth nothing.
        log = sectioned(
            ["front", "back"], [[[1], [2]], [[1], [3]], [[1], [2]], [[], [2]]], {1: 10, 2: 5, 3: 1}
        )
        assert log.hits((0, 1)).tolist() == [0, 10, 15, 0]
        # "ba", "ca", "ba", "b".
        assert log.hits((1, 0)).tolist() == [0, 0, 15, 5]
        assert log.total_length == 10 * 3 + 5 * 3 + 1
        assert log.hit_rate((0, 1)) == 25 / 46

    def test_namespaces_share_nothing(self) -> None:
        log = sectioned(["all"], [[[1]], [[1]], [[1]]], {1: 4}, namespaces=[0, 1, 0])
        assert log.hits((0,)).tolist() == [0, 0, 4]
        assert best_section_order(log).hit_rate_best == 4 / 12

    @pytest.mark.parametrize("shared_ids", [False, True])
    @pytest.mark.parametrize("seed", range(4))
    def test_against_a_plain_replay(self, seed: int, *, shared_ids: bool) -> None:
        rows, lengths = drawn(seed, 4, shared_ids=shared_ids)
        log = sectioned(list("abcd"), rows, lengths)
        for order in permutations(range(4)):
            assert log.hits(order).tolist() == plain_hits(rows, lengths, order)

    def test_an_empty_log(self) -> None:
        found = best_section_order(sectioned(["a", "b"], [], {}))
        assert (found.hit_rate_current, found.hit_rate_best) == (None, None)
        assert found.best == found.current == ("a", "b")

    def test_components_out_of_order_are_a_mistake(self) -> None:
        values, one = np.array([1, 2], dtype=np.int64), np.ones(2, dtype=np.int64)
        held = Ragged(values, np.array([0, 2], dtype=np.int64))
        with pytest.raises(ValueError, match="in the order of the sections"):
            SectionedLog(("a", "b"), held, np.array([1, 0]), one, np.zeros(1, dtype=np.int64))
        with pytest.raises(ValueError, match="same label"):
            sectioned(["a", "a"], [], {})


class TestSearch:
    @pytest.mark.parametrize("shared_ids", [False, True])
    @pytest.mark.parametrize("seed", range(6))
    def test_all_orders_of_five(self, seed: int, *, shared_ids: bool) -> None:
        rows, lengths = drawn(seed, 5, shared_ids=shared_ids)
        by_order = {order: sum(plain_hits(rows, lengths, order)) for order in permutations(range(5))}
        found = best_section_order(sectioned(list("abcde"), rows, lengths))
        total = sum(lengths[one] for row in rows for section in row for one in section)
        best = max(by_order.values())
        fewest = min(fewest_moves(order) for order, hits in by_order.items() if hits == best)
        order = tuple("abcde".index(label) for label in found.best)
        assert found.hit_rate_best == best / total
        assert by_order[order] == best
        assert len(found.steps[-1].moves) == fewest_moves(order) == fewest
        assert (found.tried, found.exhaustive) == (120, True)
        for step in found.steps:
            within = [hits for order, hits in by_order.items() if fewest_moves(order) <= len(step.moves)]
            assert step.hit_rate == max(within) / total

    def test_a_tie_stays_where_it_is(self) -> None:
        found = best_section_order(sectioned(["a", "b"], [[[1], [2]], [[1], [2]]], {1: 1, 2: 1}))
        assert found.best == ("a", "b")
        assert found.steps[-1].moves == ()

    def test_what_varies_goes_behind(self) -> None:
        rows = [[[9], [10 + n], [8], [7], [20 + n]] for n in range(4)]
        lengths = {9: 50, 8: 30, 7: 20} | dict.fromkeys(range(10, 30), 10)
        log = sectioned(["rules", "clock", "tools", "passages", "question"], rows, lengths)
        found = best_section_order(log)
        # Behind the passages, before or after the question, is the same: three of four requests hit 100 of 120.
        assert found.best == ("rules", "tools", "passages", "clock", "question")
        assert (found.hit_rate_current, found.hit_rate_best) == (150 / 480, 300 / 480)
        assert [move.sentence for move in found.steps[-1].moves] == ["move clock behind tools and passages"]
        assert found.advised == found.steps[-1]

    def test_the_order_of_requests_does_not_matter(self) -> None:
        rows, lengths = drawn(7, 5)
        log, mixed = (sectioned(list("abcde"), listed, lengths) for listed in (rows, sorted(rows)))
        assert best_section_order(log) == best_section_order(mixed)

    def test_kept_order(self) -> None:
        rows, lengths = drawn(3, 4)
        groups = [["d", "a"], ["a", "c"]]
        found = best_section_order(sectioned(list("abcd"), rows, lengths), groups)
        allowed = [o for o in permutations(range(4)) if o.index(0) < min(o.index(3), o.index(2))]
        assert found.tried == len(allowed) == 8
        best = max(sum(plain_hits(rows, lengths, order)) for order in allowed)
        total = sum(lengths[one] for row in rows for section in row for one in section)
        assert found.hit_rate_best == best / total
        assert found.keep_order == (("d", "a"), ("a", "c"))

    def test_an_unknown_section_to_keep(self) -> None:
        with pytest.raises(UsageError, match="no section 'z' to keep in order: name some of a, b"):
            best_section_order(sectioned(["a", "b"], [], {}), [["a", "z"]])

    def test_many_sections_are_searched_from_the_current_order(self) -> None:
        # The second and the fifth of nine vary; both have to go behind the last.
        labels = [f"s{place}" for place in range(9)]
        rows = [[[100 * n + place if place in (1, 4) else place] for place in range(9)] for n in range(1, 6)]
        lengths = {one: 1 for row in rows for section in row for one in section}
        found = best_section_order(sectioned(labels, rows, lengths))
        assert not found.exhaustive
        # Ties go to the fewest moves; which of the two comes first gains nothing.
        assert found.best == ("s0", "s2", "s3", "s5", "s6", "s7", "s8", "s1", "s4")
        # Four of five requests hit seven of nine.
        assert found.hit_rate_best == 4 * 7 / 45
        assert [move.section for move in found.steps[-1].moves] == ["s1", "s4"]
        kept = best_section_order(sectioned(labels, rows, lengths), [["s4", "s8"]])
        assert kept.best.index("s4") < kept.best.index("s8")

    @pytest.mark.parametrize("seed", range(4))
    def test_the_local_search_never_loses(self, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
        rows, lengths = drawn(seed, 5)
        log = sectioned(list("abcde"), rows, lengths)
        best = best_section_order(log).hit_rate_best
        monkeypatch.setattr(section_order, "MAX_EXHAUSTIVE_SECTIONS", 2)
        found = best_section_order(log)
        assert found.hit_rate_current is not None
        assert found.hit_rate_best is not None
        assert best is not None
        assert found.hit_rate_current <= found.hit_rate_best <= best


class TestMoves:
    @pytest.mark.parametrize("order", list(permutations(range(5))))
    def test_the_fewest(self, order: tuple[int, ...]) -> None:
        moved = moved_places(order)
        assert len(moved) == fewest_moves(order)
        rest = [place for place in order if place not in moved]
        assert rest == sorted(rest)

    def test_of_two_neighbours_the_first_one_moves(self) -> None:
        assert moved_places((1, 0, 2)) == (0,)
        assert moved_places((2, 0, 1)) == (2,)


@pytest.fixture(scope="module")
def week(shared: Path) -> SectionedLog:
    read = ragpulse_sections(shared / "data/ragpulse/0_trace.jsonl")
    assert (len(read.requests), read.rejects, len(read.length_of)) == (7_106, [], 26_924)
    return sectioned(read.sections, read.requests, read.length_of)


class TestRagPulse:
    def test_the_published_week(self, week: SectionedLog) -> None:
        found = best_section_order(week)
        parts = ("system part 1", "system part 2", "system part 3")
        rest = ("passages", "history", "web search", "user input")
        assert found.current == (*parts, *rest)
        assert round(found.hit_rate_current or 0, 4) == 0.3153
        assert round(found.hit_rate_best or 0, 4) == 0.3707
        assert found.best[:3] == ("system part 1", "system part 2", "passages")
        assert found.best.index("system part 3") > found.best.index("passages")
        assert (found.tried, found.exhaustive) == (5_040, True)
        # One move gains all but 0.1 point of that, and part 2 stays.
        assert found.advised.order == (*parts[:2], *rest, parts[2])
        assert round(found.advised.hit_rate or 0, 4) == 0.3699
        assert [move.sentence for move in found.advised.moves] == [
            "move system part 3 behind passages, history, web search and user input"
        ]
        assert (found.hit_rate_best or 0) - (found.advised.hit_rate or 0) < MIN_GAIN_SHARE

    def test_part_two_moved_as_well_loses(self, week: SectionedLog) -> None:
        assert round(week.hit_rate((0, 3, 4, 5, 6, 1, 2)) or 0, 4) == 0.2966
        assert round(week.hit_rate((0, 3, 4, 5, 6, 2, 1)) or 0, 4) == 0.2957

    def test_missing_lengths(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match=r"1_sys_prompt\.jsonl: cannot be read"):
            ragpulse_sections(tmp_path / "0_trace.jsonl")

    def test_rejects_and_bad_lengths(self, tmp_path: Path) -> None:
        names = {"1_sys_prompt": "sys_prompt", "2_passages": "passage", "3_history": "history"}
        names |= {"4_user_input": "user_input", "5_web_search": "web_search"}
        for place, (file, kind) in enumerate(names.items()):
            (tmp_path / f"{file}.jsonl").write_text(
                f'{{"{kind}_id": {place}, "token_length": {place + 1}}}\n'
            )
        trace = tmp_path / "0_trace.jsonl"
        lines = ('{"hash_ids":{"sys_prompt":[0],"user_input":[3]}}', '{"hash_ids":{"history":[99]}}', "{oops")
        trace.write_text("\n".join(lines))
        read = ragpulse_sections(trace)
        assert read.sections[0] == "system part 1"
        assert read.requests == [[[0], [], [], [], [3]]]
        assert read.length_of == {0: 1, 1: 2, 2: 3, 3: 4, 4: 5}
        assert [reason for _, reason, _ in read.rejects] == ["no_length", "bad_json"]
        (tmp_path / "2_passages.jsonl").write_text('\n{"passage_id": 1, "token_length": -1}\n')
        with pytest.raises(InputError, match=r"2_passages\.jsonl:2: no passage_id with a token_length"):
            ragpulse_sections(trace)


class TestChat:
    def messages(self, user: str, question: str) -> list[dict[str, Any]]:
        return [
            {"role": "system", "content": f"You serve {user}."},
            {"role": "developer", "content": "Rules."},
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": "Hello"},
            {"role": "user", "content": question},
        ]

    def test_sections_and_lengths(self) -> None:
        log = chat_sections(
            [(self.messages("é", "Why?"), [TOOL]), ([{"role": "user", "content": "Go"}], None)]
        )
        assert log.sections == ("tools", "system message 1", "system message 2", "earlier turns", "question")
        assert log.section_of.tolist() == [0, 1, 2, 3, 3, 4, 4]
        tool = len('[{"function":{"name":"f"},"type":"function"}]')
        assert log.lengths.tolist() == [tool, len("You serve é.") + 1, 6, 2, 5, 4, 2]
        assert log.unit == "bytes"

    def test_only_what_an_api_can_express_is_advised(self) -> None:
        log = chat_sections(
            [(self.messages(user, f"{user}?"), [TOOL]) for user in "abc"],
            measure=lambda texts: [1] * len(texts),
        )
        keep = expressible(log.sections)
        found = best_section_order(log, keep)
        assert found.tried == 2
        assert found.best == ("tools", "system message 2", "system message 1", "earlier turns", "question")
        # Without the constraint the earlier turns would go in front as well.
        assert (best_section_order(log).hit_rate_best or 0) > (found.hit_rate_best or 0)
        # Two of three requests hit tools, and then the rules: of six messages each.
        assert (found.hit_rate_current, found.hit_rate_best) == (2 / 18, 4 / 18)

    def test_a_sample_is_bounded_and_does_not_depend_on_the_order(self) -> None:
        chats = [(number, self.messages(f"u{number}", f"{number}?")) for number in range(200)]
        samples = [OrderableChats(max_components=120), OrderableChats(max_components=120)]
        for sample, listed in zip(samples, (chats, chats[::-1]), strict=True):
            for number, messages in listed:
                sample.add(number, messages, None)
        one, other = samples
        assert one.requests == other.requests == 200
        assert set(one.chats) == set(other.chats)
        # Five messages each: at most 24 chats, those whose digest ends in ``level`` zero bits.
        assert 0 < len(one.chats) <= 24
        assert all(parts.digest % 2**one.level == 0 for parts in one.chats.values())
        assert set(one.length_of) == {number for parts in one.chats.values() for number in parts.ids}

    def test_system_messages_in_another_order(self) -> None:
        first, second, *rest = self.messages("a", "b")
        assert reordered([first, second, *rest], (2, 1, 0)) == [second, first, *rest]
        assert reordered([first, second, *rest], (0, 2, 1)) is None
        assert is_orderable([first, second, *rest])
        assert not is_orderable([first, *rest])
        assert not is_orderable([first] * 7)

    def test_roles_and_calls_are_told_apart(self) -> None:
        user = [{"role": "user", "content": "x"}]
        named = [{"role": "user", "content": "x", "name": "n"}]
        log = chat_sections([(user, None), (named, None), (user, None)])
        assert (log.hits((0, 1, 2)) > 0).tolist() == [False, False, True]
