"""Windows in real runs equal those of the reference, with any batching and after any restart."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from tests.acceptance.conftest import Open
from tests.stream.reference import Event, history
from tests.stream.test_windows import Drawn, events_of, streams

import tidemill as tm
from tidemill.app.project import Project
from tidemill.app.settings import Settings
from tidemill.app.wiring import Tidemill
from tidemill.errors import WorkflowError
from tidemill.model.window import Window

MICROSECOND = timedelta(microseconds=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TICK = 1_000_000
"""One time unit of the drawn streams, in microseconds."""

FORMS: dict[str, tuple[Any, str | None]] = {
    "time_time": ("5s", "3s"),
    "time_tokens": ("2 tokens", "3s"),
    "time_waves": ("2 waves", "3s"),
    "tokens_tokens": ("3 tokens", "2 tokens"),
    "tokens_time": ("5s", "2 tokens"),
    "tokens_waves": ("2 waves", "2 tokens"),
    "waves_tokens": ("3 tokens", "1 wave"),
    "waves_time": ("5s", "1 wave"),
    "waves_waves": ("2 waves", "1 wave"),
    "between": (tm.Between(opens="opens", closes="closes"), None),
}


def workflow() -> tm.Workflow:
    """All windows in one run: the cost of separate runs is not tested here."""
    flow = tm.Flow("forming")
    for name, (size, step) in FORMS.items():
        flow.window(name, "events", size, step, by=["grp"], time="at", delete_used=name == "waves_waves")
    flow.window("totals", "events", "3 tokens", "2 tokens", by=["grp"], sums=["number"])
    wf = tm.Workflow("windows")
    wf.input("events", "number bigint, grp int, at timestamp, wave string, opens boolean, closes boolean")
    wf.bind(flow)
    return wf


def build_rows(events: list[tuple[int, Event]]) -> list[dict[str, Any]]:
    """Events as rows of a channel; waves as tags, the last of each marked."""
    serials: dict[tuple[int, int], int] = defaultdict(int)
    rows = []
    for group, event in events:
        serials[group, event.wave] += 1
        tag = f"{group * 1000 + event.wave}.{serials[group, event.wave]}{'!' if event.closes else ''}"
        at = (EPOCH + event.time * TICK * MICROSECOND).isoformat()
        row = {"number": event.event, "grp": group, "at": at, "wave": tag}
        rows.append(row | {"opens": event.opens, "closes": event.closes})
    return rows


def group_by_window(rows: list[dict[str, Any]]) -> dict[str, list[tuple[int, ...]]]:
    """By group, the event numbers of its windows in order."""
    windows: dict[str, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        windows[row["_group"]][row["_window"]].append(row["number"])
    return {group: [tuple(sorted(w[n])) for n in range(len(w))] for group, w in windows.items()}


def compute_expected(
    window: Window, events: list[tuple[int, Event]]
) -> Iterator[tuple[str, list[tuple[int, ...]], set[int], set[int]]]:
    for group in sorted({g for g, _ in events}):
        group_events = [
            Event(e.event, e.time * TICK, e.arrived * TICK, e.wave, e.closes, e.opens) for g, e in events if g == group
        ]
        h = history(window, group_events, group_events[-1].arrived)
        formed = [tuple(sorted(members)) for _, members in h.formed]
        yield f"({group},)", formed, {e.event for e in h.came if e.late}, {e.event for e in h.came if e.expired}


@settings(max_examples=1)
@given(stream=streams.filter(lambda s: len(s) > 12), cuts=st.lists(st.integers(0, 40), min_size=1, max_size=2))
def test_windows_equal_those_of_the_reference(spark: SparkSession, stream: list[Drawn], cuts: list[int]) -> None:
    """A new process starts for each batch; the state is in the channels."""
    events = events_of(stream)
    bounds = [0, *sorted({min(c, len(events)) for c in cuts} - {0, len(events)}), len(events)]
    wf = workflow().build_spec()
    with TemporaryDirectory() as directory:
        for begin, end in pairwise(bounds):
            with Tidemill(Path(directory), Settings(), Project((wf,))) as mill:
                mill.apply()
                mill.insert("events", write_events(Path(directory), build_rows(events)[begin:end]))
                for binding in wf.bindings:
                    mill.run(binding.name)
                if end == len(events):
                    check(mill, events)


def check(mill: Tidemill, events: list[tuple[int, Event]]) -> None:
    for name, (size, step) in FORMS.items():
        window = Window.from_text(size, step, by=["grp"], time="at", delete_used=name == "waves_waves")
        formed = group_by_window(mill.rows(name))
        late, expired = ({r["number"] for r in mill.rows(f"{name}_{side}")} for side in ("late", "expired"))
        expected = list(compute_expected(window, events))
        assert {g: w for g, w in formed.items() if w} == {g: w for g, w, _, _ in expected if w}, name
        assert late == set().union(*(of for _, _, of, _ in expected)), name
        assert expired == set().union(*(of for *_, of in expected)), name
    summed = {(r["_group"], r["_window"]): (r["_events"], r["number"]) for r in mill.rows("totals")}
    members = group_by_window(mill.rows("tokens_tokens"))
    assert summed == {(g, n): (len(w), sum(w)) for g, ws in members.items() for n, w in enumerate(ws)}


def write_events(directory: Path, rows: list[dict[str, Any]]) -> Path:
    path = directory / "events.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_window_can_be_declared_on_a_parameter(open_mill: Open, tmp_path: Path) -> None:
    """Several windowed inputs of one task; the windows are computed in its run."""
    wf = tm.Workflow("shop")
    wf.input("orders", "user string, amount bigint")
    wf.input("refunds", "user string, amount bigint")

    @wf.task
    def biggest(
        orders: Annotated[tm.New, tm.window("2 tokens", "2 tokens", by=["user"])],
        refunds: Annotated[tm.New, tm.window("1 token", "1 token", by=["user"])],
    ) -> tm.Delta:
        of_orders = orders.groupBy("_group", "_window").agg({"amount": "max"})
        of_refunds = refunds.groupBy("_group", "_window").agg({"amount": "min"})
        return of_orders.union(of_refunds).toDF("who", "n", "amount")

    mill = open_mill(wf)
    mill.insert("orders", write_events(tmp_path, [{"user": u, "amount": n} for n, u in enumerate("aabab")]))
    mill.insert("refunds", write_events(tmp_path, [{"user": "b", "amount": 9}]))
    run, _ = mill.run("biggest")
    assert sorted((r["who"], r["n"], r["amount"]) for r in mill.rows("biggest")) == [
        ("('a',)", 0, 1), ("('b',)", 0, 4), ("('b',)", 0, 9),
    ]  # fmt: skip
    assert {b.channel for b in mill.catalog.blocks.list_written(run.id)} >= {
        "biggest",
        "biggest_orders",
        "biggest_orders.queue",
    }
    assert [r["amount"] for r in mill.rows("biggest_refunds_expired")] == [9]


def test_a_timeout_forms_windows_without_new_events(open_mill: Open, tmp_path: Path) -> None:
    wf = tm.Workflow("silence")
    wf.input("beats", "n bigint")
    wf.window("lost", "beats", "1s", "1s", timeout=1, sums=["n"])
    mill = open_mill(wf)
    mill.insert("beats", write_events(tmp_path, [{"n": 1}, {"n": 2}]))
    times = iter([mill.catalog.read_time(), mill.catalog.read_time() + 60])
    for now in times:
        mill.catalog.database.clock = lambda now=now: now
        mill.run("lost")
    assert [(r["_events"], r["n"]) for r in mill.rows("lost")] == [(2, 3)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"size": "5s", "by": ["who"]}, "no column 'who'"),
        ({"size": "5s", "step": "1s", "sums": ["name"]}, "only whole numbers"),
        ({"size": "2 waves", "step": "1 wave"}, "need the tag of each event in the column 'wave'"),
        ({"size": "5s", "timeout": 2}, "only a window whose step is in time can have a timeout"),
    ],
)
def test_invalid_windows_are_rejected(arguments: dict[str, Any], message: str) -> None:
    wf = tm.Workflow("wrong")
    wf.input("events", "name string")
    wf.window("w", "events", **arguments)
    with pytest.raises(WorkflowError, match=message):
        wf.build_spec()


def windows_over_a_task(task: Callable[[Any], Any], *, is_windowed: bool = True) -> tm.Workflow:
    """Windows over the undeclared result of a task, or only a query."""
    wf = tm.Workflow("copied")
    wf.input("events", "name string, n bigint")

    @wf.task
    def copies(events: tm.New) -> tm.Delta:
        return task(events)

    if is_windowed:
        wf.window("totals", "copies", "2 tokens", "2 tokens", by=["name"], sums=["n"])
        wf.sql("largest", "SELECT max(n) AS n FROM totals")
    wf.sql("number", "SELECT count(*) AS n FROM copies")
    return wf


def copy_rows(events: Any) -> Any:
    if events.isEmpty():
        raise ValueError("no rows")
    return events


def test_windows_over_a_task_have_the_columns_that_spark_infers(open_mill: Open, tmp_path: Path) -> None:
    mill = open_mill(windows_over_a_task(lambda events: events.where("n > 0")))
    mill.insert("events", write_events(tmp_path, [{"name": "a", "n": n} for n in range(5)]))
    for flow in ("copies", "totals", "largest"):
        mill.run(flow)
    assert sorted(r["n"] for r in mill.rows("totals")) == [3, 7]
    assert mill.rows("largest") == [{"n": 7}]


def test_windows_over_a_task_have_the_columns_of_its_first_block(open_mill: Open, tmp_path: Path) -> None:
    with pytest.raises(WorkflowError, match=r"columns are not known; declare them with table\('copies'"):
        open_mill(windows_over_a_task(copy_rows))
    mill = open_mill(windows_over_a_task(copy_rows, is_windowed=False))
    mill.insert("events", write_events(tmp_path, [{"name": "a", "n": n} for n in range(2)]))
    mill.run("copies")
    mill = open_mill(windows_over_a_task(copy_rows))
    mill.run("totals")
    assert [r["n"] for r in mill.rows("totals")] == [1]
