from __future__ import annotations

import pytest

from kvtools.diagnosis.deployment import (
    InstanceCounts,
    NamespaceUse,
    cross_instance,
    injected_clock,
    namespace_uses,
    salt_kind,
    skipped_reads,
)


@pytest.mark.parametrize(
    ("salts", "kind"),
    [
        (["a", "b", "c"], "salt_per_request"),
        (["a", "a", "b", "b"], "salt_per_tenant"),
        (["a", "a", None], "salt_per_tenant"),  # without a salt is a namespace too
        (["a", "b", None], "salt_per_tenant"),
        (["a", "a"], None),
        (["a"], None),  # one request tells nothing
    ],
)
def test_salts_of_one_group(salts: list[str | None], kind: str | None) -> None:
    (use,) = namespace_uses(salts, ["g"] * len(salts))
    assert salt_kind(use) == kind


def test_groups_are_counted_apart_and_an_empty_name_is_none() -> None:
    uses = namespace_uses(["x", "y", "", None, "x"], ["a", "b", "c", "c", "a"])
    assert uses == [NamespaceUse("a", 2, 2, 1, 0), NamespaceUse("b", 1, 1, 1, 1)]


def test_an_adapter_splits_a_group() -> None:
    (use,) = namespace_uses(["sql", None, "sql", "chat"], ["g"] * 4)
    assert (use.splits, use.per_request, use.distinct, use.named) == (True, False, 2, 3)


def test_requests_without_lookup_leave_the_denominator() -> None:
    found = skipped_reads([False, True, True, False], [10, 20, 30, 40])
    assert (found.skipping_share, found.queried_tokens) == (0.5, 50)
    assert skipped_reads([], []).skipping_share is None


def _row(local: int | None, external: int | None, own: int, shared: int) -> InstanceCounts:
    return InstanceCounts("i", local, external, own, shared)


@pytest.mark.parametrize(
    ("rows", "verdict", "lost"),
    [
        ([_row(0, 0, 0, 96), _row(96, 0, 96, 96)], "deployment_hash_seed", 96),
        ([_row(0, 80, 0, 96), _row(96, 0, 96, 96)], "instances_share", 0),
        ([_row(0, 0, 0, 96), _row(0, 0, 96, 96)], "no_local_hits", 96),
        ([_row(0, 0, 0, 0), _row(96, 0, 96, 96)], "unknown", 0),
        ([_row(0, None, 0, 96), _row(96, None, 96, 96)], "unknown", 0),
    ],
)
def test_cross_instance(rows: list[InstanceCounts], verdict: str, lost: int) -> None:
    found = cross_instance(rows)
    assert (found.verdict, found.lost_tokens) == (verdict, lost)


def test_a_date_that_a_client_sent_is_not_the_servers() -> None:
    one, other = "Date: 2026-11-28\nHi", "Date: 2026-11-29\nHi"
    found = injected_clock(one, other, ["Hi"])
    assert found is not None
    assert (found.position, found.earlier, found.later) == (15, "2026-11-28", "2026-11-29")
    assert injected_clock(one, other, ["Date: 2026-11-28"]) is None
    assert injected_clock("order 5 of 2026-11-28", "order 6 of 2026-11-28", []) is None
    assert injected_clock(one, one, []) is None
