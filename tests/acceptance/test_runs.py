"""Runs on Spark, end to end: modes and kinds, all sorts of failures, and their effects."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from tests.acceptance.conftest import Open

import tidemill as tm
from tidemill.algebra.reference import is_same_bag
from tidemill.app.project import Project
from tidemill.app.settings import Settings
from tidemill.app.wiring import Tidemill
from tidemill.errors import (
    BadInput,
    BlockDamaged,
    ConfigError,
    ResourceLimitExceeded,
    RunFailed,
    RunKilled,
    TimeLimitExceeded,
)
from tidemill.model.block import BlockKind, BlockState
from tidemill.model.change import Rows
from tidemill.model.run import RunState
from tidemill.runtime.inspect.block_trace import trace_block


def insert_words(mill: Tidemill, *words: str) -> None:
    mill.insert("words", [{"word": word} for word in words])


def workflow() -> tm.Workflow:
    wf = tm.Workflow("w")
    wf.input("words", "word string")
    return wf


def read_column(mill: Tidemill, channel: str, column: str = "word") -> list[Any]:
    return sorted(r[column] for r in mill.rows(channel))


def test_the_four_task_patterns(open_mill: Open) -> None:
    wf = workflow()
    wf.table("seen", "word string")

    @wf.task
    def longest(words: tm.All) -> tm.Base:
        return words.agg(F.max(F.length("word")).alias("n"))

    flow = tm.Flow("flow")

    @flow.task
    def upper(words: tm.New) -> tm.Delta:
        return words.select(F.upper("word").alias("word"))

    @flow.task
    def pad(upper: tm.New, longest: tm.All) -> tm.Delta:
        return upper.crossJoin(longest).select(F.expr("rpad(word, n, '.')").alias("word"))

    @flow.task(writes={"fresh": tm.Delta, "seen": tm.Delta})
    def dedupe(pad: tm.New, seen: tm.All) -> dict[str, tm.Delta]:
        new = pad.distinct().join(seen, "word", "left_anti")
        return {"fresh": new, "seen": new}

    wf.bind(flow)
    mill = open_mill(wf)
    insert_words(mill, "a", "bbb")
    mill.run("longest")
    mill.run("flow")
    assert read_column(mill, "fresh") == ["A..", "BBB"]
    insert_words(mill, "a", "cc", "dddd")
    mill.run("flow")
    assert read_column(mill, "pad") == ["A..", "A..", "BBB", "CC.", "DDD"]
    assert read_column(mill, "fresh") == ["A..", "BBB", "CC.", "DDD"]
    mill.run("longest")
    mill.run("flow")  # an empty delta is passed
    assert read_column(mill, "longest", "n") == [4]
    assert mill.catalog.blocks.list("upper")[0].rows == 0
    reached = mill.catalog.channels.read("pad").head.provenance
    assert len(reached[("words", "longest")]) == 2
    assert len(reached[("words", "upper")]) == 1


def test_incremental_join_with_old_and_new(open_mill: Open) -> None:
    wf = tm.Workflow("w")
    wf.input("left", "k int, a string")
    wf.input("right", "k int, b string")

    @wf.task(channels={"left_old": "left", "right_old": "right"})
    def join(left: tm.New, left_old: tm.Old, right: tm.New, right_old: tm.Old) -> tm.Delta:
        parts = [left.join(right, "k"), left.join(right_old, "k"), left_old.join(right, "k")]
        return parts[0].union(parts[1]).union(parts[2])

    mill = open_mill(wf)
    spark = mill.engine.spark
    for i in range(3):
        mill.insert("left", spark.createDataFrame([(i, f"l{i}"), (0, f"m{i}")], "k int, a string"))
        mill.insert("right", spark.createDataFrame([(i, f"r{i}"), (1, f"s{i}")], "k int, b string"))
        mill.run("join")
    expected = mill.read("left").join(mill.read("right"), "k").toArrow().to_pylist()
    assert is_same_bag(mill.rows("join"), expected)


def test_a_delta_across_a_replaced_base_is_a_difference(open_mill: Open, spark: SparkSession) -> None:
    wf = tm.Workflow("w")
    wf.input("prices", "item string, price int", key="item")

    @wf.task
    def changes(prices: tm.New) -> tm.Delta:
        return prices.select("item", "price", F.coalesce("_deleted", F.lit(False)).alias("deleted"))

    mill = open_mill(wf)
    schema = "item string, price int"
    mill.insert("prices", spark.createDataFrame([("a", 1), ("b", 2), ("c", 3)], schema), kind=BlockKind.BASE)
    mill.run("changes")
    mill.insert("prices", spark.createDataFrame([("a", 1), ("b", 20)], schema), kind=BlockKind.BASE)
    mill.insert("prices", spark.createDataFrame([("d", 4)], schema))
    before = mill.catalog.channels.read("changes").head.seq
    mill.run("changes")
    new = [r for r in mill.rows("changes") if r not in mill.rows("changes", as_of=str(before))]
    assert is_same_bag(
        new,
        [
            {"item": "b", "price": 20, "deleted": False},
            {"item": "c", "price": None, "deleted": True},
            {"item": "d", "price": 4, "deleted": False},
        ],
    )
    assert read_column(mill, "prices", "item") == ["a", "b", "d"]


def test_sql_tasks_read_their_tables(open_mill: Open) -> None:
    wf = workflow()
    wf.sql(
        "counts",
        "WITH w AS (SELECT word FROM words WHERE word <> 'it''s') SELECT w.word, count(*) AS n FROM w GROUP BY w.word",
    )
    wf.sql("upper_words", "SELECT upper(words.word) AS word FROM words", modes={"words": tm.New}, writes=tm.Delta)
    mill = open_mill(wf)
    insert_words(mill, "a", "b", "a")
    mill.run("counts")
    mill.run("upper_words")
    insert_words(mill, "c")
    mill.run("upper_words")
    assert is_same_bag(mill.rows("counts"), [{"word": "a", "n": 2}, {"word": "b", "n": 1}])
    assert read_column(mill, "upper_words") == ["A", "A", "B", "C"]
    assert mill.engine.spark.catalog.listTables() == []


PROGRAM = """
import os, sys, pyarrow.parquet as pq, pyarrow as pa
table = pq.read_table(sys.argv[1])
print("rows", table.num_rows, "secret" in "".join(os.environ.values()))
pq.write_table(pa.table({"word": [w + "!" for w in table.column("word").to_pylist()]}), sys.argv[2] + "/out.parquet")
"""


def test_a_command_reads_and_writes_files(open_mill: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_TOKEN", "secret")
    wf = workflow()
    wf.command(
        "shout",
        [sys.executable, "-c", PROGRAM, "{words}", "{loud}"],
        reads={"words": tm.New},
        writes={"loud": tm.Delta},
        limits=tm.Limits(memory="4 GB", cpu="1 minute", processes=50),
    )
    wf.command(
        "greedy",
        [sys.executable, "-c", "bytearray(10**9)"],
        reads={"words": tm.New},
        writes={"nowhere": tm.Delta},
        memory="500 MB",
    )
    wf.command("fail", ["sh", "-c", "echo sorry >&2; exit 3"], reads={"words": tm.New}, writes={"no": tm.Delta})
    wf.command(
        "hang",
        ["sh", "-c", "echo begun; sleep 60"],
        reads={"words": tm.New},
        writes={"never": tm.Delta},
        time_limit=0.5,
    )
    wf.command("absent", ["no-such-program"], reads={"words": tm.New}, writes={"nothing": tm.Delta})
    mill = open_mill(wf)
    insert_words(mill, "a", "b")
    run, _ = mill.run("shout")
    assert read_column(mill, "loud") == ["a!", "b!"]
    assert "rows 2 False" in mill.catalog.runs.read_log(run.id)
    with pytest.raises(RunFailed, match="ended with 3; its output is in the run's log"):
        mill.run("fail")
    assert "sorry" in mill.catalog.runs.read_log(mill.catalog.runs.list(subject="fail")[0].id)
    with pytest.raises(ResourceLimitExceeded, match=r"exceeded its memory limit of 500\.0 MB"):
        mill.run("greedy")
    with pytest.raises(TimeLimitExceeded, match="time limit of 0.5 s"):
        mill.run("hang")
    assert "begun" in mill.catalog.runs.read_log(mill.catalog.runs.list(subject="hang")[0].id)
    with pytest.raises(RunFailed, match="cannot be started"):
        mill.run("absent")


def check_failure(mill: Tidemill, flow: str, match: str, kind: type[Exception] = RunFailed) -> str:
    """Run a flow that fails and check that nothing of it is visible. Returns the recorded error."""
    before = {c.channel.name: c.head for c in mill.catalog.channels.list()}
    with pytest.raises(kind, match=match):
        mill.run(flow)
    assert {c.channel.name: c.head for c in mill.catalog.channels.list()} == before
    assert not [b for b in mill.catalog.blocks.list() if b.state is BlockState.RESERVED]
    mill.collect(grace="0s")
    assert set(mill.store.list_all_files()) == mill.catalog.files.list_referenced()
    run = mill.catalog.runs.list(subject=flow)[0]
    assert run.state in (RunState.FAILED, RunState.KILLED)
    return run.error or ""


def test_every_mistake_of_a_task_is_reported(open_mill: Open) -> None:
    wf = workflow()
    wf.table("strict", "word string not null, n int")
    wf.table("keyed", "word string", key="word")

    def declare(name: str, body: Any, output: str | None = None) -> None:
        def task(words: tm.New) -> tm.Delta:
            return body(words)

        wf.task(name=name, output=output or name)(task)

    declare("raises", lambda words: 1 / 0)
    declare("in_a_worker", lambda words: words.select(F.udf(lambda w: str(1 // 0))("word").alias("x")))
    declare("no_frame", lambda words: 42)
    declare("bad_column", lambda words: words.select("nope"))
    declare("missing", lambda words: words, "strict")
    declare("wrong_type", lambda words: words.select("word", F.lit("x").alias("n")), "strict")
    declare("extra", lambda words: words.select("word", F.lit(1).alias("n"), F.lit(2).alias("m")), "strict")
    declare("null", lambda words: words.select(F.lit(None).cast("string").alias("word"), F.lit(1).alias("n")), "strict")
    declare("twice", lambda words: words.union(words), "keyed")

    @wf.task(writes={"one": tm.Delta, "two": tm.Delta})
    def half(words: tm.New) -> dict[str, tm.Delta]:
        print("about to return half")
        return {"one": words}

    mill = open_mill(wf)
    insert_words(mill, "a")
    assert __file__ in check_failure(mill, "raises", "ZeroDivisionError")
    check_failure(mill, "in_a_worker", "ZeroDivisionError|PYTHON_EXCEPTION|exception was thrown")
    check_failure(mill, "no_frame", "expected a DataFrame, the task returned int")
    check_failure(mill, "bad_column", "nope")
    check_failure(mill, "missing", "column n is missing", BadInput)
    check_failure(mill, "wrong_type", "column n of the result is STRING, not INT", BadInput)
    check_failure(mill, "extra", "column m is not in it", BadInput)
    check_failure(mill, "null", "is NOT NULL")
    check_failure(mill, "twice", "2 rows that agree on it", BadInput)
    check_failure(mill, "half", "expected the outputs .'one', 'two'., the task returned .'one'.")
    assert "about to return half" in mill.catalog.runs.read_log(mill.catalog.runs.list(subject="half")[0].id)


def test_a_failed_run_is_retried(open_mill: Open) -> None:
    wf = workflow()
    tries: list[int] = []

    @wf.task(attempts=3, backoff=0.01)
    def fail_twice(words: tm.New) -> tm.Delta:
        tries.append(len(tries))
        if len(tries) < 3:
            raise ConnectionError("not yet")
        return words

    mill = open_mill(wf)
    insert_words(mill, "a")
    run, _ = mill.run("fail_twice")
    assert (run.state, run.attempt, len(tries)) == (RunState.FINISHED, 3, 3)
    assert read_column(mill, "fail_twice") == ["a"]


def test_a_run_fails_after_its_last_attempt(open_mill: Open) -> None:
    wf = workflow()

    @wf.task(attempts=2, backoff=0.01)
    def always_fail(words: tm.New) -> tm.Delta:
        raise ConnectionError("never")

    mill = open_mill(wf)
    with pytest.raises(RunFailed, match="never"):
        mill.run("always_fail")
    assert mill.catalog.runs.list(subject="always_fail")[0].attempt == 2


def test_time_limits_and_kill_stop_spark(open_mill: Open) -> None:
    wf = workflow()
    started = threading.Event()

    @wf.task(time_limit=1)
    def endless_query(words: tm.New) -> tm.Delta:
        return words.sparkSession.range(10**13).agg(F.sum(F.hash("id")).alias("n"))

    @wf.task
    def killed_query(words: tm.New) -> tm.Delta:
        started.set()
        return words.sparkSession.range(10**13).agg(F.sum(F.hash("id")).alias("n"))

    mill = open_mill(wf)
    mill.executor = type(mill.executor)(mill.catalog, mill.store, mill.engine, "test", lease=0.6)
    insert_words(mill, "a")
    check_failure(mill, "endless_query", "time limit of 1 s", TimeLimitExceeded)

    def kill() -> None:
        started.wait(60)
        mill.catalog.runs.kill(mill.catalog.runs.list(subject="killed_query")[0].id)

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(RunKilled):
        mill.run("killed_query")
    killer.join()
    assert mill.catalog.runs.list(subject="killed_query")[0].state is RunState.KILLED
    assert mill.engine.spark.range(3).count() == 3, "the session must survive"


def test_a_damaged_block_is_reported(open_mill: Open) -> None:
    wf = workflow()

    @wf.task
    def copies(words: tm.New) -> tm.Delta:
        return words

    mill = open_mill(wf)
    insert_words(mill, *(f"word{i}" for i in range(500)))
    (file,) = mill.catalog.blocks.list("words")[0].files[:1]
    path = Path(mill.store.locate_file(file.path).removeprefix("file://"))
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 0xFF
    path.write_bytes(bytes(data))
    with pytest.raises(BlockDamaged, match=f"block {mill.catalog.blocks.list('words')[0].id} of channel words"):
        mill.run("copies")
    path.unlink()
    with pytest.raises(BlockDamaged, match="missing|not there"):
        mill.run("copies")
    assert mill.catalog.channels.read("copies").head.seq == 0


def test_changed_code_must_be_applied_first(open_mill: Open, tmp_path: Path) -> None:
    wf = workflow()
    wf.sql("t", "SELECT word FROM words")
    open_mill(wf)
    changed = workflow()
    changed.sql("t", "SELECT upper(word) AS word FROM words")
    with Tidemill(tmp_path, Settings(), Project((changed.build_spec(),))) as mill:
        assert [(s.action, s.noun, s.name) for s in mill.plan()] == [("change", "flow", "t")]
        with pytest.raises(ConfigError, match="changed since it was registered"):
            mill.run("t")
        mill.apply()
        assert mill.plan() == ()
        insert_words(mill, "a")
        mill.run("t")
        assert read_column(mill, "t") == ["A"]


def test_custom_merges_call_the_users_functions(open_mill: Open, spark: SparkSession) -> None:
    def pick_longest(first: Rows, second: Rows) -> Rows:
        return sorted(first + second, key=lambda r: (-len(r["text"]), r["text"]))[:1]

    def diff(before: Rows, after: Rows) -> Rows:
        return [] if before == after else after

    wf = tm.Workflow("w")
    wf.input("notes", "id int, text string", updates=tm.Custom(("id",), pick_longest, pick_longest, diff))

    @wf.task
    def changes(notes: tm.New) -> tm.Delta:
        return notes

    mill = open_mill(wf)
    for batch in ([(1, "a"), (2, "bb")], [(1, "aaa"), (2, "b")], [(3, "c")]):
        mill.insert("notes", spark.createDataFrame(batch, "id int, text string"))
    mill.run("changes")
    expected = [{"id": 1, "text": "aaa"}, {"id": 2, "text": "bb"}, {"id": 3, "text": "c"}]
    assert is_same_bag(mill.rows("notes"), expected)
    assert is_same_bag(mill.rows("changes"), expected)


def test_compaction_garbage_collection_and_time_travel(open_mill: Open) -> None:
    wf = workflow()

    @wf.task
    def copies(words: tm.New) -> tm.Delta:
        return words

    mill = open_mill(wf)
    for i in range(4):
        insert_words(mill, f"w{i}")
        if i == 1:
            mill.run("copies")
    assert mill.compact("words") is not None
    assert mill.compact("words") is None
    assert read_column(mill, "words") == ["w0", "w1", "w2", "w3"]
    assert [r["word"] for r in mill.rows("words", as_of="1")] == ["w0"]
    assert mill.collect().blocks == 0  # the cursor retains the content at its position and everything after it
    mill.run("copies")
    assert read_column(mill, "copies") == ["w0", "w1", "w2", "w3"]
    mill.collect()
    assert [b.seq for b in mill.catalog.blocks.list_filled("words")] == [0, 4]  # the empty initial block and the base
    assert read_column(mill, "words") == ["w0", "w1", "w2", "w3"]


def test_trace_lists_the_sources_and_derived_blocks_of_a_block(open_mill: Open) -> None:
    wf = workflow()
    wf.sql("upper", "SELECT upper(word) AS word FROM words", modes={"words": tm.New}, writes=tm.Delta)
    wf.sql("counts", "SELECT count(*) AS n FROM upper")
    mill = open_mill(wf)
    insert_words(mill, "a")
    insert_words(mill, "b")
    mill.run("upper")
    mill.run("counts")
    (upper,) = [b for b in mill.catalog.blocks.list("upper") if b.seq]
    trace = trace_block(mill.catalog, upper.id)
    assert [(s.channel, len(s.blocks)) for s in trace.sources] == [("words", 2)]
    assert [b.channel for b in trace.derived] == ["counts.state1", "counts"]
