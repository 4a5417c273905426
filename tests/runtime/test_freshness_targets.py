"""For any arrivals, every freshness target is met after a plan, and a table is its query over its provenance."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.runtime.mill import Mill

import tidemill as tm
from tidemill.model.workflow import WorkflowSpec

HOUR = 3600.0
EXAMPLES = int(os.environ.get("TIDEMILL_EXAMPLES", "32")) // 32


def build_join(lag: object, consistency: object, refresh: str = "auto") -> WorkflowSpec:
    """Two inputs, one of them counted before they are joined."""
    wf = tm.Workflow("joined")
    wf.input("left", "id bigint, k bigint")
    wf.input("right", "id bigint, k bigint")
    wf.table("counts", "k bigint, n bigint")
    wf.table("out", "id bigint, n bigint")
    wf.sql("counts", "SELECT k, count(id) AS n FROM right GROUP BY k", refresh=refresh)
    query = "SELECT l.id, c.n FROM left l JOIN counts c ON l.k = c.k"
    wf.sql("out", query, target_lag=lag, consistency=consistency)  # type: ignore[arg-type]
    return wf.build_spec()


def build_recomputed_join(lag: object, consistency: object) -> WorkflowSpec:
    """The same, but the counts are always recomputed: the join reads the difference of two contents."""
    return build_join(lag, consistency, "batch")


def build_diamond(lag: object, consistency: object) -> WorkflowSpec:
    """One input by two pathways, and another input."""
    wf = tm.Workflow("diamond")
    wf.input("left", "id bigint, k bigint")
    wf.input("right", "id bigint, k bigint")
    for name in ("small", "large"):
        wf.table(name, "id bigint, k bigint")
    wf.table("out", "id bigint, n bigint")
    wf.sql("small", "SELECT id, k FROM left WHERE k < 2")
    wf.sql("large", "SELECT id, k FROM left WHERE k > 0", target_lag="3 hours")
    query = "SELECT s.id, l.id + r.id AS n FROM small s JOIN large l ON s.k = l.k JOIN right r ON r.k = s.k"
    wf.sql("out", query, target_lag=lag, consistency=consistency)  # type: ignore[arg-type]
    return wf.build_spec()


TARGETS = [
    ("0s", None),
    ("2 hours", "strict"),
    ({"left": "0s"}, "5 hours"),
    ({"left": "1 hour", "right": "10 hours"}, "4 hours"),
]

events = st.lists(st.sampled_from(["left", "right", "hour", "hours"]), min_size=1, max_size=14)


@pytest.mark.parametrize("shape", [build_join, build_recomputed_join, build_diamond])
@pytest.mark.parametrize(("lag", "consistency"), TARGETS)
@settings(max_examples=EXAMPLES, deadline=None)
@given(history=events)
def test_every_freshness_target_is_met(
    shape: Callable[[object, object], WorkflowSpec], lag: object, consistency: object, history: list[str]
) -> None:
    with TemporaryDirectory() as directory:
        mill = Mill(shape(lag, consistency), Path(directory))
        try:
            for number, event in enumerate(history):
                apply_event(mill, event, number)
                for _ in range(3):  # one plan may make another table due
                    for run in mill.fire_due_triggers():
                        mill.attempt(run)
                check(mill)
        finally:
            mill.close()


def apply_event(mill: Mill, event: str, number: int) -> None:
    mill.now += {"hour": HOUR, "hours": 7 * HOUR}.get(event, 1.0)
    if event in ("left", "right"):
        mill.insert(event, f"{number},{number % 3}", f"{100 + number},{number % 2}")


def check(mill: Mill) -> None:
    for channel in mill.workflow.channels:
        if channel.freshness_target and mill.read_pathways(channel.name):
            status = mill.read_target_status(channel.name)
            assert not status.is_late, f"{channel.name} is late: {status}"
            assert not status.is_inconsistent, f"{channel.name} is inconsistent: {status}"
    check_content(mill)


def check_content(mill: Mill) -> None:
    """The output equals its query over the versions in its provenance."""
    pathways = mill.read_pathways("out")
    if not pathways:
        return
    rows = {path: read_as_of(mill, path[0], versions) for path, versions in pathways.items()}
    expected = evaluate_join(rows) if mill.workflow.name == "joined" else evaluate_diamond(rows)
    assert sorted((r["id"], r["n"]) for r in mill.content("out")) == sorted(expected)


Pairs = list[tuple[int, int]]


def read_as_of(mill: Mill, channel: str, versions: Iterable[int]) -> Pairs:
    (version,) = versions
    position = mill.catalog.channels.read_position(channel, version=version)
    return [(row["id"], row["k"]) for row in mill.content(channel, position.seq)]


def evaluate_join(rows: dict[tuple[str, ...], Pairs]) -> Pairs:
    right = [k for _, k in rows.get(("right", "counts"), [])]
    return [(i, right.count(k)) for i, k in rows.get(("left",), []) if k in right]


def evaluate_diamond(rows: dict[tuple[str, ...], Pairs]) -> Pairs:
    small = [(i, k) for i, k in rows.get(("left", "small"), []) if k < 2]
    large = [(i, k) for i, k in rows.get(("left", "large"), []) if k > 0]
    right = rows.get(("right",), [])
    return [(i, j + m) for i, k in small for j, x in large if x == k for m, y in right if y == k]


def test_a_target_that_was_already_met_is_due_again_in_time(tmp_path: Path) -> None:
    """Another plan reflected the first arrival; the target must still be due for the second."""
    mill = Mill(build_diamond("2 hours", "strict"), tmp_path)
    for number, event in enumerate(["left", "hour", "right", "hour", "right", "hour", "hour", "hour"]):
        apply_event(mill, event, number)
        for run in mill.fire_due_triggers():
            mill.attempt(run)
        check(mill)
    mill.close()
