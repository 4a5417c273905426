"""Whatever arrives, and whenever: after a plan each promise holds, and a table is its query over what it reflects."""

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
EXAMPLES = int(os.environ.get("TIDEMILL_EXAMPLES", "2"))


def joined(lag: object, consistency: object) -> WorkflowSpec:
    """Two inputs, one of them counted before they are joined."""
    wf = tm.Workflow("joined")
    wf.input("left", "id bigint, k bigint")
    wf.input("right", "id bigint, k bigint")
    wf.table("counts", "k bigint, n bigint")
    wf.table("out", "id bigint, n bigint")
    wf.sql("counts", "SELECT k, count(id) AS n FROM right GROUP BY k")
    query = "SELECT l.id, c.n FROM left l JOIN counts c ON l.k = c.k"
    wf.sql("out", query, target_lag=lag, consistency=consistency)  # type: ignore[arg-type]
    return wf.declared()


def diamond(lag: object, consistency: object) -> WorkflowSpec:
    """One input by two ways, and another."""
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
    return wf.declared()


PROMISES = [
    ("0s", None),
    ("2 hours", "strict"),
    ({"left": "0s"}, "5 hours"),
    ({"left": "1 hour", "right": "10 hours"}, "4 hours"),
]

events = st.lists(st.sampled_from(["left", "right", "hour", "hours"]), min_size=1, max_size=14)


@pytest.mark.parametrize("shape", [joined, diamond])
@pytest.mark.parametrize(("lag", "consistency"), PROMISES)
@settings(max_examples=EXAMPLES, deadline=None)
@given(history=events)
def test_every_promise_holds(
    shape: Callable[[object, object], WorkflowSpec], lag: object, consistency: object, history: list[str]
) -> None:
    with TemporaryDirectory() as directory:
        mill = Mill(shape(lag, consistency), Path(directory))
        try:
            for number, what in enumerate(history):
                happen(mill, what, number)
                for _ in range(3):  # one plan may make another table due
                    for run in mill.due():
                        mill.keep(run)
                check(mill)
        finally:
            mill.close()


def happen(mill: Mill, what: str, number: int) -> None:
    mill.now += {"hour": HOUR, "hours": 7 * HOUR}.get(what, 1.0)
    if what in ("left", "right"):
        mill.insert(what, f"{number},{number % 3}", f"{100 + number},{number % 2}")


def check(mill: Mill) -> None:
    for channel in mill.workflow.channels:
        if channel.freshness_target and mill.reflected(channel.name):
            kept = mill.kept(channel.name)
            assert not kept.is_late, f"{channel.name} is late: {kept}"
            assert not kept.is_inconsistent, f"{channel.name} is inconsistent: {kept}"
    check_content(mill)


def check_content(mill: Mill) -> None:
    """The output is what its query gives over what it says that it reflects."""
    reflected = mill.reflected("out")
    if not reflected:
        return
    rows = {path: as_of(mill, path[0], versions) for path, versions in reflected.items()}
    expected = over_joined(rows) if mill.workflow.name == "joined" else over_diamond(rows)
    assert sorted((r["id"], r["n"]) for r in mill.content("out")) == sorted(expected)


Pairs = list[tuple[int, int]]


def as_of(mill: Mill, channel: str, versions: Iterable[int]) -> Pairs:
    (version,) = versions
    at = mill.catalog.read_position(channel, version=version)
    return [(row["id"], row["k"]) for row in mill.content(channel, at.seq)]


def over_joined(rows: dict[tuple[str, ...], Pairs]) -> Pairs:
    right = [k for _, k in rows.get(("right", "counts"), [])]
    return [(i, right.count(k)) for i, k in rows.get(("left",), []) if k in right]


def over_diamond(rows: dict[tuple[str, ...], Pairs]) -> Pairs:
    small = [(i, k) for i, k in rows.get(("left", "small"), []) if k < 2]
    large = [(i, k) for i, k in rows.get(("left", "large"), []) if k > 0]
    right = rows.get(("right",), [])
    return [(i, j + m) for i, k in small for j, x in large if x == k for m, y in right if y == k]


def test_a_promise_that_fired_for_nothing_is_due_again_in_time(tmp_path: Path) -> None:
    """The first arrival was reflected by another plan; it must not make the promise forget the second."""
    mill = Mill(diamond("2 hours", "strict"), tmp_path)
    for number, what in enumerate(["left", "hour", "right", "hour", "right", "hour", "hour", "hour"]):
        happen(mill, what, number)
        for run in mill.due():
            mill.keep(run)
        check(mill)
    mill.close()
