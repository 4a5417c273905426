"""What can be wrong with a workflow, and that each message names the user's file and line."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pytest

import tidemill as tm
from tidemill.errors import WorkflowError
from tidemill.model.block import BlockKind
from tidemill.model.task import ReadMode


def here() -> int:
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno


def refused(declare: Callable[[tm.Workflow], object]) -> str:
    """Why a workflow with one input and the given declarations is refused."""
    wf = tm.Workflow("w")
    wf.input("a", "x int, y string")
    with pytest.raises(WorkflowError) as caught:
        declare(wf)
        wf.declared()
    assert __file__ in str(caught.value), "the message must name the user's file"
    return str(caught.value)


def test_a_good_workflow_is_taken_as_it_is() -> None:
    wf = tm.Workflow("w")
    wf.input("a", "x int, y string", key="x")

    @wf.task
    def copied(a: tm.New) -> tm.Delta:
        return a

    wf.sql("counted", "SELECT y, count(*) AS n FROM copied GROUP BY y")
    model = wf.declared()
    assert [b.name for b in model.bindings] == ["copied", "counted"]
    assert [(r.port, r.mode) for r in model.bindings[1].tasks[0].reads] == [("copied", ReadMode.ALL)]
    assert model.bindings[1].tasks[0].writes[0].kind is BlockKind.BASE


def test_the_line_is_the_declaration() -> None:
    line = here() + 2
    message = refused(
        lambda wf: wf.table("t", "x int", key="z"),
    )
    assert f"{__file__}:{line}: channel 't': key column 'z' is not a column of it" in message


@pytest.mark.parametrize(
    ("query", "complaint"),
    [
        ("SELECT * FROM aa", "reads unknown channel 'aa'; did you mean 'a'?"),
        ("SELECT * FROM nowhere", "reads unknown channel 'nowhere'; the channels are a, q"),
        ("DELETE FROM a", "a query begins with SELECT, WITH, FROM, VALUES or TABLE, not with DELETE"),
        ("", "a query begins with SELECT, WITH, FROM, VALUES or TABLE, not with nothing"),
    ],
)
def test_bad_queries(query: str, complaint: str) -> None:
    assert complaint in refused(lambda wf: wf.sql("q", query))


@pytest.mark.parametrize(
    ("schema", "key", "complaint"),
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
def test_bad_channels(schema: str, key: str | list[str] | None, complaint: str) -> None:
    assert complaint in refused(lambda wf: wf.input("b", schema, key=key))


def test_bad_merge_kinds() -> None:
    increment = tm.Increment(("x",), ("y",))
    assert "only numbers can be added" in refused(lambda wf: wf.input("b", "x int, y string", updates=increment))
    stray = tm.Increment(("x",), ("n",))
    assert "either in the key or among" in refused(lambda wf: wf.input("b", "x int, n int, z int", updates=stray))
    assert "not both" in refused(lambda wf: wf.input("b", "x int", key="x", updates=tm.Append()))
    assert "signed rows must be comparable" in refused(lambda wf: wf.input("b", "m map<int, int>", updates=tm.Signed()))


def test_cycles_other_than_a_task_s_own_state() -> None:
    def declare(wf: tm.Workflow) -> None:
        wf.sql("p", "SELECT * FROM q")
        wf.sql("q", "SELECT * FROM p")

    assert "cycle of tasks" in refused(declare)


def test_a_task_may_read_its_own_state() -> None:
    wf = tm.Workflow("w")
    wf.input("a", "x int")

    @wf.task(writes={"out": tm.Delta, "seen": tm.Delta})
    def dedupe(a: tm.New, seen: tm.All) -> dict[str, tm.Delta]:
        return {"out": a, "seen": a}

    assert wf.declared().bindings[0].tasks[0].state_ports == {"seen"}


def test_conflicting_writers() -> None:
    def base_and_delta(wf: tm.Workflow) -> None:
        @wf.task(output="t")
        def one(a: tm.New) -> tm.Delta:
            return a

        @wf.task(output="t")
        def two(a: tm.All) -> tm.Base:
            return a

    assert "a base by one would undo the others" in refused(base_and_delta)

    def an_input(wf: tm.Workflow) -> None:
        @wf.task(output="a")
        def one(a: tm.All) -> tm.Base:
            return a

    assert "which is an input channel" in refused(an_input)


def test_two_tasks_may_append_to_one_channel() -> None:
    wf = tm.Workflow("w")
    wf.input("a", "x int")

    @wf.task(output="t")
    def one(a: tm.New) -> tm.Delta:
        return a

    @wf.task(output="t")
    def two(a: tm.New) -> tm.Delta:
        return a

    assert {b.name for b in wf.declared().bindings} == {"one", "two"}


def test_old_needs_new() -> None:
    def declare(wf: tm.Workflow) -> None:
        @wf.task
        def t(a: tm.Old) -> tm.Delta:
            return a

    assert "needs a NEW of the same channel" in refused(declare)


def test_signatures() -> None:
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

    assert "annotate the result of 't'" in refused(no_result)
    assert "annotate argument 'a' of 't'" in refused(no_mode)
    assert "expected tm.All, tm.New or tm.Old" in refused(wrong_mode)
    assert "names no input or output" in refused(
        lambda wf: wf.command("c", ["cp", "{b}", "{out}"], reads={"a": tm.New}, writes={"out": tm.Base})
    )
    assert "not a duration" in refused(lambda wf: wf.sql("q", "SELECT * FROM a", time_limit="soon"))
    assert "expected attempts to be at least 1" in refused(lambda wf: wf.sql("q", "SELECT * FROM a", attempts=0))


def flow_with_ports() -> tm.Flow:
    flow = tm.Flow("clean")

    @flow.task
    def cleaned(raw: tm.New) -> tm.Delta:
        return raw

    return flow


def test_flows_bind_to_channels_and_nest() -> None:
    outer = tm.Flow("outer")
    outer.use(flow_with_ports(), name="first", raw="source", cleaned="half")
    outer.use(flow_with_ports(), name="second", raw="half", cleaned="done")
    wf = tm.Workflow("w")
    wf.input("a", "x int")
    wf.bind(outer, name="both", source="a")
    (binding,) = wf.declared().bindings
    assert [(t.name, t.reads[0].port, t.writes[0].port) for t in binding.tasks] == [
        ("first.cleaned", "a", "half"),
        ("second.cleaned", "half", "done"),
    ]
    assert binding.intermediate_channels == {"half"}


def test_unknown_ports() -> None:
    assert "flow 'clean' has no port 'rau'; its ports are cleaned, raw" in refused(
        lambda wf: wf.bind(flow_with_ports(), rau="a")
    )


def test_tasks_run_after_those_whose_outputs_they_read() -> None:
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
    assert [t.name for t in wf.declared().bindings[0].tasks] == ["first", "middle", "last"]


def test_every_problem_is_reported_at_once() -> None:
    message = refused(lambda wf: [wf.sql("q", "SELECT * FROM nowhere"), wf.table("lonely", "x int")])
    assert message.startswith("2 problems in the workflow:")
    assert "no task writes channel 'lonely'" in message


def test_a_query_must_fit_the_channel_it_writes() -> None:
    def declare(wf: tm.Workflow) -> None:
        wf.table("q", "y string, n bigint")
        wf.sql("q", "SELECT y, count(*) AS m FROM a GROUP BY y")

    assert "query 'q' returns the columns y, m, but channel 'q'" in refused(declare)
    wf = tm.Workflow("w")
    wf.input("a", "x int, y string")
    wf.table("q", "y string, n bigint")
    wf.sql("q", "SELECT count(*) AS n, y FROM a GROUP BY y")
    wf.table("all_of_it", "x int, y string")
    wf.sql("all_of_it", "SELECT * FROM a")
    assert len(wf.declared().bindings) == 2


def test_a_strict_query_must_be_incremental() -> None:
    line = here() + 2
    message = refused(
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
def test_only_strictness_refuses_batch(query: str, refresh: str) -> None:
    wf = tm.Workflow("w")
    wf.input("a", "x int, y string")
    wf.sql("q", query, refresh=refresh)
    (task,) = wf.declared().list_tasks()
    assert task.refresh == refresh


@pytest.mark.parametrize(
    ("updates", "name"), [(tm.Upsert(("y",)), "upsert"), (tm.Increment(("y",), ("n",)), "increment")]
)
def test_a_declared_table_gives_its_changes_as_signed_rows(updates: tm.Upsert | tm.Increment, name: str) -> None:
    def declare(wf: tm.Workflow) -> None:
        wf.table("q", "y string, n bigint", updates=updates)
        wf.sql("q", "SELECT y, count(*) AS n FROM a GROUP BY y")

    message = refused(declare)
    assert f"channel 'q' is declared with {name} updates, but query 'q'" in message
    assert "gives its changes as signed rows" in message


@pytest.mark.parametrize("updates", [None, tm.Signed()])
def test_a_declared_table_may_have_its_schema_declared(updates: tm.Signed | None) -> None:
    wf = tm.Workflow("w")
    wf.input("a", "x int, y string")
    wf.table("q", "y string, n bigint", updates=updates)
    wf.sql("q", "SELECT y, count(*) AS n FROM a GROUP BY y")
    assert len(wf.declared().bindings) == 1


def test_what_only_writes_whole_contents_may_have_a_key() -> None:
    wf = tm.Workflow("w")
    wf.input("a", "x int, y string")
    wf.table("q", "x int, r double", key="x")
    wf.sql("q", "SELECT x, rand() AS r FROM a")
    wf.table("p", "y string, n bigint", key="y")
    wf.sql("p", "SELECT y, count(*) AS n FROM a GROUP BY y", writes=tm.Base)
    assert len(wf.declared().bindings) == 2
