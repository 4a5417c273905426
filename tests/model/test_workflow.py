"""Invalid workflows: each message names the user's file and line."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pytest

import tidemill as tm
from tidemill.errors import WorkflowError
from tidemill.model.block import BlockKind
from tidemill.model.task import ReadMode


def get_line() -> int:
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno


def read_error(declare: Callable[[tm.Workflow], object]) -> str:
    """The error for a workflow with one input and the given declarations."""
    wf = tm.Workflow("w")
    wf.input("a", "x int, y string")
    with pytest.raises(WorkflowError) as error:
        declare(wf)
        wf.build_spec()
    assert __file__ in str(error.value), "the message must name the user's file"
    return str(error.value)


def test_a_valid_workflow_is_accepted() -> None:
    wf = tm.Workflow("w")
    wf.input("a", "x int, y string", key="x")

    @wf.task
    def copies(a: tm.New) -> tm.Delta:
        return a

    wf.sql("counted", "SELECT y, count(*) AS n FROM copies GROUP BY y")
    model = wf.build_spec()
    assert [b.name for b in model.bindings] == ["copies", "counted"]
    assert [(r.port, r.mode) for r in model.bindings[1].tasks[0].reads] == [("copies", ReadMode.ALL)]
    assert model.bindings[1].tasks[0].writes[0].kind is BlockKind.BASE


def test_the_message_names_the_line_of_the_declaration() -> None:
    line = get_line() + 2
    message = read_error(
        lambda wf: wf.table("t", "x int", key="z"),
    )
    assert f"{__file__}:{line}: channel 't': key column 'z' is not a column of it" in message


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT * FROM aa", "reads unknown channel 'aa'; did you mean 'a'?"),
        ("SELECT * FROM nowhere", "reads unknown channel 'nowhere'; the channels are a, q"),
        ("DELETE FROM a", "a query begins with SELECT, WITH, FROM, VALUES or TABLE, not with DELETE"),
        ("", "a query begins with SELECT, WITH, FROM, VALUES or TABLE, not with nothing"),
    ],
)
def test_invalid_queries_are_rejected(query: str, message: str) -> None:
    assert message in read_error(lambda wf: wf.sql("q", query))


@pytest.mark.parametrize(
    ("schema", "key", "message"),
    [
        ("x", None, "not a schema"),
        ("x strin", None, "not a schema"),
        ("x varchar(3)", None, "column 'x': unsupported type 'varchar(3)'"),
        ("x int, x int", None, "declared twice"),
        ("x int, _count int", None, "'_count' is reserved"),
        ("x map<string, int>", "x", "holds a map"),
        ("x int", ["x", "x"], "names a column twice"),
    ],
)
def test_invalid_channels_are_rejected(schema: str, key: str | list[str] | None, message: str) -> None:
    assert message in read_error(lambda wf: wf.input("b", schema, key=key))


def test_invalid_updates_are_rejected() -> None:
    increment = tm.Increment(("x",), ("y",))
    assert "only numbers can be added" in read_error(lambda wf: wf.input("b", "x int, y string", updates=increment))
    stray = tm.Increment(("x",), ("n",))
    assert "either in the key or among" in read_error(lambda wf: wf.input("b", "x int, n int, z int", updates=stray))
    assert "not both" in read_error(lambda wf: wf.input("b", "x int", key="x", updates=tm.Append()))
    assert "signed rows must be comparable" in read_error(
        lambda wf: wf.input("b", "m map<int, int>", updates=tm.Signed())
    )


def test_a_cycle_of_tasks_is_rejected() -> None:
    def declare(wf: tm.Workflow) -> None:
        wf.sql("p", "SELECT * FROM q")
        wf.sql("q", "SELECT * FROM p")

    assert "cycle of tasks" in read_error(declare)


def test_a_task_may_read_its_own_state() -> None:
    wf = tm.Workflow("w")
    wf.input("a", "x int")

    @wf.task(writes={"out": tm.Delta, "seen": tm.Delta})
    def dedupe(a: tm.New, seen: tm.All) -> dict[str, tm.Delta]:
        return {"out": a, "seen": a}

    assert wf.build_spec().bindings[0].tasks[0].state_ports == {"seen"}


def test_conflicting_writers_are_rejected() -> None:
    def base_and_delta(wf: tm.Workflow) -> None:
        @wf.task(output="t")
        def one(a: tm.New) -> tm.Delta:
            return a

        @wf.task(output="t")
        def two(a: tm.All) -> tm.Base:
            return a

    assert "a base by one would undo the others" in read_error(base_and_delta)

    def an_input(wf: tm.Workflow) -> None:
        @wf.task(output="a")
        def one(a: tm.All) -> tm.Base:
            return a

    assert "which is an input channel" in read_error(an_input)


def test_two_tasks_may_append_to_one_channel() -> None:
    wf = tm.Workflow("w")
    wf.input("a", "x int")

    @wf.task(output="t")
    def one(a: tm.New) -> tm.Delta:
        return a

    @wf.task(output="t")
    def two(a: tm.New) -> tm.Delta:
        return a

    assert {b.name for b in wf.build_spec().bindings} == {"one", "two"}


def test_old_requires_new() -> None:
    def declare(wf: tm.Workflow) -> None:
        @wf.task
        def t(a: tm.Old) -> tm.Delta:
            return a

    assert "needs a NEW of the same channel" in read_error(declare)


def test_invalid_signatures_are_rejected() -> None:
    def no_result(wf: tm.Workflow) -> None:
        @wf.task
        def t(a: tm.New):  # type: ignore[no-untyped-def]
            return a

    def no_mode(wf: tm.Workflow) -> None:
        @wf.task
        def t(a) -> tm.Base:  # type: ignore[no-untyped-def]
            return a

    def wrong_mode(wf: tm.Workflow) -> None:
        wf.sql("q", "SELECT * FROM a", modes={"a": tm.Base})

    assert "annotate the result of 't'" in read_error(no_result)
    assert "annotate argument 'a' of 't'" in read_error(no_mode)
    assert "expected tm.All, tm.New or tm.Old" in read_error(wrong_mode)
    assert "names no input or output" in read_error(
        lambda wf: wf.command("c", ["cp", "{b}", "{out}"], reads={"a": tm.New}, writes={"out": tm.Base})
    )
    assert "not a duration" in read_error(lambda wf: wf.sql("q", "SELECT * FROM a", time_limit="soon"))
    assert "expected attempts to be at least 1" in read_error(lambda wf: wf.sql("q", "SELECT * FROM a", attempts=0))


def build_flow() -> tm.Flow:
    flow = tm.Flow("clean")

    @flow.task
    def clean_rows(raw: tm.New) -> tm.Delta:
        return raw

    return flow


def test_flows_are_bound_to_channels_and_nested() -> None:
    outer = tm.Flow("outer")
    outer.use(build_flow(), name="first", raw="source", clean_rows="half")
    outer.use(build_flow(), name="second", raw="half", clean_rows="done")
    wf = tm.Workflow("w")
    wf.input("a", "x int")
    wf.bind(outer, name="both", source="a")
    (binding,) = wf.build_spec().bindings
    assert [(t.name, t.reads[0].port, t.writes[0].port) for t in binding.tasks] == [
        ("first.clean_rows", "a", "half"),
        ("second.clean_rows", "half", "done"),
    ]
    assert binding.intermediate_channels == {"half"}


def test_unknown_ports_are_rejected() -> None:
    assert "flow 'clean' has no port 'rau'; its ports are clean_rows, raw" in read_error(
        lambda wf: wf.bind(build_flow(), rau="a")
    )


def test_tasks_run_after_the_tasks_that_they_read_from() -> None:
    flow = tm.Flow("f")

    @flow.task
    def last(middle: tm.New, side: tm.All) -> tm.Delta:
        return middle

    @flow.task
    def middle(side: tm.New) -> tm.Delta:
        return side

    @flow.task(writes={"side": tm.Delta, "zz": tm.Delta})
    def first(a: tm.New) -> dict[str, tm.Delta]:
        return {"side": a, "zz": a}

    wf = tm.Workflow("w")
    wf.input("a", "x int")
    wf.bind(flow)
    assert [t.name for t in wf.build_spec().bindings[0].tasks] == ["first", "middle", "last"]


def test_every_problem_is_reported_at_once() -> None:
    message = read_error(lambda wf: [wf.sql("q", "SELECT * FROM nowhere"), wf.table("lonely", "x int")])
    assert message.startswith("2 problems in the workflow:")
    assert "no task writes channel 'lonely'" in message


def test_a_query_must_fit_the_channel_it_writes() -> None:
    def declare(wf: tm.Workflow) -> None:
        wf.table("q", "y string, n bigint")
        wf.sql("q", "SELECT y, count(*) AS m FROM a GROUP BY y")

    assert "query 'q' returns the columns y, m, but channel 'q'" in read_error(declare)
    wf = tm.Workflow("w")
    wf.input("a", "x int, y string")
    wf.table("q", "y string, n bigint")
    wf.sql("q", "SELECT count(*) AS n, y FROM a GROUP BY y")
    wf.table("all_of_it", "x int, y string")
    wf.sql("all_of_it", "SELECT * FROM a")
    assert len(wf.build_spec().bindings) == 2


def test_a_strict_query_must_be_incremental() -> None:
    line = get_line() + 2
    message = read_error(
        lambda wf: wf.sql("q", "SELECT x, rand() AS r FROM a", refresh="incremental_strict"),
    )
    assert f"{__file__}:{line}: query 'q' must be incremental (refresh is 'incremental_strict')" in message
    assert "can only be run in batch: rand() gives another value each time" in message


@pytest.mark.parametrize(
    ("query", "refresh"),
    [
        ("SELECT x, rand() AS r FROM a", "auto"),
        ("SELECT x, rand() AS r FROM a", "incremental"),
        ("SELECT y, count(*) AS n FROM a GROUP BY y", "incremental_strict"),
    ],
)
def test_only_a_strict_query_rejects_batch(query: str, refresh: str) -> None:
    wf = tm.Workflow("w")
    wf.input("a", "x int, y string")
    wf.sql("q", query, refresh=refresh)
    (task,) = wf.build_spec().list_tasks()
    assert task.refresh == refresh


@pytest.mark.parametrize(
    ("updates", "name"), [(tm.Upsert(("y",)), "upsert"), (tm.Increment(("y",), ("n",)), "increment")]
)
def test_a_declared_table_must_have_signed_updates(updates: tm.Upsert | tm.Increment, name: str) -> None:
    def declare(wf: tm.Workflow) -> None:
        wf.table("q", "y string, n bigint", updates=updates)
        wf.sql("q", "SELECT y, count(*) AS n FROM a GROUP BY y")

    message = read_error(declare)
    assert f"channel 'q' is declared with {name} updates, but query 'q'" in message
    assert "gives its changes as signed rows" in message


@pytest.mark.parametrize("updates", [None, tm.Signed()])
def test_a_declared_table_may_have_its_schema_declared(updates: tm.Signed | None) -> None:
    wf = tm.Workflow("w")
    wf.input("a", "x int, y string")
    wf.table("q", "y string, n bigint", updates=updates)
    wf.sql("q", "SELECT y, count(*) AS n FROM a GROUP BY y")
    assert len(wf.build_spec().bindings) == 1


def test_a_table_that_is_only_written_as_a_base_may_have_a_key() -> None:
    wf = tm.Workflow("w")
    wf.input("a", "x int, y string")
    wf.table("q", "x int, r double", key="x")
    wf.sql("q", "SELECT x, rand() AS r FROM a")
    wf.table("p", "y string, n bigint", key="y")
    wf.sql("p", "SELECT y, count(*) AS n FROM a GROUP BY y", writes=tm.Base)
    assert len(wf.build_spec().bindings) == 2
