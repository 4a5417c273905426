"""One-shot workflows from submission to storage: what runs, what it costs, and what is left."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.runtime.oneshots import SCHEMA, Bench, Json, action, bench, chain, verdicts, workflow

from tidemill.api.documents import SourceResolver, build_task, parse_workflow
from tidemill.errors import LeaseLost, RunFailed
from tidemill.model.run import ClaimRequest, RunState
from tidemill.model.states import DatasetState as D
from tidemill.model.submission import ActionResult
from tidemill.model.task import Command
from tidemill.model.usage import UsagePeriod
from tidemill.ports.records import Server
from tidemill.retention.usage_history import TimeResolution, UsageSplit
from tidemill.runtime.oneshot.actions import ActionRunner
from tidemill.runtime.oneshot.storage_report import StorageBudget, StorageBudgets
from tidemill.runtime.runs.server import ServerIntervals, ServerLoop


@pytest.fixture
def url(tmp_path: Path, sqlite_template: Path) -> str:
    return f"sqlite:///{shutil.copy(sqlite_template, tmp_path)}"


@pytest.fixture
def mill(url: str, tmp_path: Path) -> Iterator[Bench]:
    with bench(url, tmp_path) as opened:
        yield opened


def wide(actions: int) -> Json:
    """Each is made from the one before and the one ten before."""
    made = [action(n, f"SELECT {n} AS x", *sorted({max(n - 10, 1), n - 1} - {0, n})) for n in range(1, actions + 1)]
    return workflow(*made)


def test_two_hundred_actions_submitted_again_call_no_engine_and_take_no_time(mill: Bench) -> None:
    document = wide(200)
    mill.submit(document)
    while (
        ready := mill.catalog.list_runnable_runs()
    ):  # committed by hand: it is the second submission that is looked at
        for run in ready:
            claim = mill.catalog.claim_run(run.id, ClaimRequest(), owner="me", lease=60.0)
            mill.shop.dataset_catalog.commit_dataset(claim, ActionResult(SCHEMA, (), 1.0))
    began = time.monotonic()
    again = mill.run(document)
    took = time.monotonic() - began
    assert mill.engine.calls == []
    assert sum(a.saved_seconds for a in again.actions) == 200.0
    assert set(verdicts(again).values()) == {"reused"}
    assert took < 2.0


# -- random histories --------------------------------------------------------------------------------------------


@st.composite
def graphs(draw: st.DrawFn) -> Json:
    """A small graph over few queries, so that parts of it have often been made before."""
    made: list[Json] = []
    for n in range(1, draw(st.integers(1, 6)) + 1):
        parents = draw(st.lists(st.integers(1, n - 1), unique=True, max_size=2)) if n > 1 else []
        made.append(action(n, draw(st.sampled_from(["a", "b", "c"])), *parents))
    return workflow(*made)


@settings(max_examples=15, phases=[Phase.generate])  # making one smaller would take minutes
@given(data=st.data())
def test_results_never_differ_from_those_without_reuse_and_only_what_must_run_runs(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory, sqlite_template: Path
) -> None:
    root = tmp_path_factory.mktemp("history")
    with bench(f"sqlite:///{shutil.copy(sqlite_template, root)}", root) as mill:
        for _ in range(data.draw(st.integers(1, 4), label="submissions")):
            document = data.draw(graphs())
            there = {
                d.identity
                for d in mill.shop.dataset_catalog.list_datasets()
                if d.is_readable or d.state is D.PROCESSING
            }
            made, calls = mill.submit(document), len(mill.engine.calls)
            must = must_run(document, {a.key: a.identity for a in made.actions}, there)
            mill.shop.complete_submission(made.id)
            assert len(mill.engine.calls) - calls == len(must)
            mill.check(document, made)
            stored = sorted(d.identity for d in mill.shop.dataset_catalog.list_datasets() if d.state is D.STORED)
            mill.shop.dataset_catalog.evict_datasets(i for i in stored if data.draw(st.booleans(), label="evict"))
            if data.draw(st.booleans(), label="delete"):
                mill.shop.build_evictor().delete_evicted()
        assert all(d.claims == 0 for d in mill.shop.dataset_catalog.list_datasets())


def must_run(document: Json, identities: dict[str, str], there: set[str]) -> set[str]:
    """The reference: what is wanted and not there must run, and then so must what it is made from."""
    parents = {
        identities[str(a["id"])]: [identities[str(p["id"])] for p in a["parentActions"]] for a in document["actions"]
    }
    inner = {str(p["id"]) for a in document["actions"] for p in a["parentActions"]}
    ends = [key for key in identities if key not in inner or key == str(document["endActionId"])]
    made: set[str] = set()
    ahead = [identities[key] for key in ends]
    while ahead:
        wanted = ahead.pop()
        if wanted not in there and wanted not in made:
            made.add(wanted)
            ahead += parents[wanted]
    return made


# -- servers -----------------------------------------------------------------------------------------------------


def test_servers_share_the_work_of_a_submission(url: str, tmp_path: Path, mill: Bench) -> None:
    with bench(url, tmp_path, owner="other") as other:
        loops = [
            ServerLoop(
                each.catalog,
                Server(name, "work", 2),
                lambda run, _, each=each: each.shop.attempt_run(run),
                [],
                ServerIntervals(0.01),
            )
            for name, each in (("one", mill), ("two", other))
        ]
        threads = [threading.Thread(target=loop.run) for loop in loops]
        for thread in threads:
            thread.start()
        made = mill.submit(wide(30))
        done = mill.shop.complete_submission(made.id)
        for loop, thread in zip(loops, threads, strict=True):
            loop.drain()
            thread.join()
        assert done.state is RunState.FINISHED
        assert len(mill.engine.calls) + len(other.engine.calls) == 30


def test_a_dead_servers_action_is_taken_up_by_another(url: str, tmp_path: Path, mill: Bench) -> None:
    made = mill.submit(chain("a", "b"))
    first = made.actions[0].run
    assert first is not None
    claim = mill.catalog.claim_run(first.id, ClaimRequest(), owner="dead", lease=30.0)
    with bench(url, tmp_path, later=60.0) as other:
        other.shop.complete_submission(made.id)
        other.check(chain("a", "b"), made)
        assert other.catalog.read_run(first.id).fencing_token > claim.run.fencing_token
    with pytest.raises(LeaseLost):
        mill.shop.dataset_catalog.commit_dataset(claim, ActionResult(SCHEMA, (), 0.0))


# -- what is run is what was submitted ---------------------------------------------------------------------------

SCRIPT = {"id": 1, "name": "a", "type": "pyspark-script", "script": "words.py", "arguments": ["words.py", "{output}"]}
PROGRAM = {"id": 1, "name": "a", "type": "command-line", "command": ["./fetch", "x"], "files": ["./fetch"]}


def test_code_that_changed_after_it_was_submitted_is_not_run(mill: Bench) -> None:
    files = {"words.py": b"print(1)"}
    shop = replace(mill.shop, sources=SourceResolver(files.__getitem__, mill.shop.sources.find_function))
    made = shop.submit_workflow(json.dumps(workflow(SCRIPT)), "ada")
    files["words.py"] = b"print(2)"
    with pytest.raises(RunFailed, match=r"(?s)changed since it was submitted: code of words.py; submit it again"):
        shop.complete_submission(made.id)
    assert mill.engine.calls == []


def test_programs_are_found_in_the_project_and_given_the_variables_they_depend_on(mill: Bench) -> None:
    sources = SourceResolver({"./fetch": b"#!/bin/sh", "words.py": b""}.__getitem__, mill.shop.sources.find_function)
    here = {"REGION": "north", "SECRET": "hush"}
    actor = ActionRunner(mill.shop.executor, mill.shop.dataset_catalog, sources, here, lambda name: f"/project/{name}")

    def command(data: Json) -> Command:
        only = parse_workflow(json.dumps(workflow(data))).actions[0]
        code = actor._resolve_command(only, build_task(only, sources)).variant.code
        assert isinstance(code, Command)
        return code

    assert command(PROGRAM).argv == ("/project/./fetch", "x")
    assert command(PROGRAM | {"environment": ["REGION", "UNSET"]}).env == {"REGION": "north"}
    assert command(SCRIPT).argv == ("/project/spark-submit", "/project/words.py", "/project/words.py", "{output}")


# -- storage -----------------------------------------------------------------------------------------------------


def test_what_passes_the_threshold_is_evicted_and_no_more(url: str, tmp_path: Path, mill: Bench) -> None:
    mill.run(wide(20))
    each = mill.shop.report_storage().retained[0].dataset.bytes
    assert mill.shop.build_evictor().enforce_budgets() is None  # without a budget everything stays
    with bench(url, tmp_path, budgets=StorageBudgets(StorageBudget(20 * each, 0.5))) as tight:
        outlook = tight.shop.report_storage()
        done = tight.shop.build_evictor().enforce_budgets()
        assert done is not None
        assert [g.dataset.identity for g in done.evictions] == [g.dataset.identity for g in outlook.evictions]
        assert done.freed_bytes == 10 * each
        assert tight.shop.report_storage().shares.store.used_bytes == 10 * each
        assert outlook.seconds > 0
        assert tight.shop.build_evictor().enforce_budgets() is None
    assert mill.leftovers() == set()


def test_a_budget_that_leaves_alone_exceed_takes_all_else_and_no_leaf(url: str, tmp_path: Path) -> None:
    with bench(url, tmp_path, budgets=StorageBudgets(StorageBudget(1, 1.0))) as mill:
        made = mill.run(chain("a", "b"))
        done = mill.shop.build_evictor().enforce_budgets()
        assert done is not None
        assert "the store: " in done.problems[0]
        assert [g.dataset.name for g in done.evictions] == ["a1"]
        assert (mill.state(made, 1), mill.state(made, 2)) == (D.DELETED, D.LEAF)
        assert f"{mill.dataset(made, 2).bytes - 1} bytes are missing" in mill.shop.report_storage().problems[0]


def test_an_evictor_learns_as_submissions_come(mill: Bench) -> None:
    evictor = mill.shop.build_evictor()
    mill.run(chain("a", "b"))
    first = evictor.report_storage(1)
    mill.run(chain("a", "b", "c", name="longer"))
    later = evictor.report_storage(1)
    assert [g.dataset.name for g in first.evictions] == ["a1"]
    assert later == mill.shop.build_evictor().report_storage(1)


def test_bringing_back_counts_what_is_missing_on_the_way(mill: Bench) -> None:
    made = mill.run(chain("a", "b", "c"))
    seconds = [mill.dataset(made, k).seconds for k in (1, 2)]
    found = mill.shop.report_storage(sum(mill.dataset(made, k).bytes for k in (1, 2)))
    back = {g.dataset.name: g.seconds for g in found.evictions}
    assert back == pytest.approx({"a1": seconds[0], "a2": sum(seconds)})
    assert found.seconds == pytest.approx(sum(seconds))


# -- copies and history ------------------------------------------------------------------------------------------


def test_a_copy_is_put_where_it_is_wanted_computed_or_reused(mill: Bench, tmp_path: Path) -> None:
    mill.run(chain("a", "b"))
    placed = workflow(action(1, "a", isManaged=False, path="out/a"), action(2, "b", 1))
    made = mill.submit(placed)
    assert verdicts(made) == {"1": "reused", "2": "reused"}
    assert made.state is RunState.FINISHED
    assert len(list((tmp_path / "out" / "a").iterdir())) == 2
    assert mill.state(made, 1) is D.LEAF
    for path in (tmp_path / "out" / "a").iterdir():
        path.unlink()
    mill.submit(placed)
    assert len(list((tmp_path / "out" / "a").iterdir())) == 2
    assert mill.engine.calls == ["a", "b"]


def test_figures_of_the_past(mill: Bench) -> None:
    mill.run(chain("a", "b"))
    mill.submit(chain("a", "b"), "bob")
    mill.engine.failing["c"] = 1
    with pytest.raises(RunFailed):
        mill.run(chain("c", name="other"))
    ever = UsagePeriod(0.0, time.time() + 1)
    (day,) = mill.shop.compute_usage(ever, TimeResolution.DAY)
    assert (day.submissions, day.actions, day.computed, day.failed, day.hits) == (3, 5, 2, 1, 2)
    assert day.saved_seconds == pytest.approx(sum(d.seconds for d in mill.shop.dataset_catalog.list_datasets()))
    assert day.hit_rate == 0.4
    (bobs,) = mill.shop.compute_usage(replace(ever, user="bob"), TimeResolution.MINUTE)
    assert (bobs.submissions, bobs.computed, bobs.hits) == (1, 0, 2)
    tasks = {f.group: (f.actions, f.hits) for f in mill.shop.compute_usage(ever, TimeResolution.MONTH, UsageSplit.TASK)}
    assert tasks == {"words/a1": (2, 1), "words/a2": (2, 1), "other/a1": (1, 0)}
    assert [f.group for f in mill.shop.compute_usage(ever, TimeResolution.WEEK, UsageSplit.USER)] == ["ada", "bob"]
    (only,) = mill.shop.compute_usage(replace(ever, workflow="words", task="a2"), TimeResolution.DAY)
    assert (only.actions, only.computed, only.hits) == (2, 1, 1)
    assert mill.shop.compute_usage(replace(ever, workflow="nope"), TimeResolution.DAY) == []
    assert mill.shop.compute_usage(replace(ever, since=ever.until), TimeResolution.DAY) == []


# -- what a dataset costs --------------------------------------------------------------------------------------


def test_a_dataset_is_not_charged_for_the_start_of_the_engine(mill: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine starts when it is first needed. What came of it is evicted by what it takes to make it again."""
    now = 0.0

    def work(query: str) -> None:
        nonlocal now
        if not mill.engine.start_seconds:
            mill.engine.start_seconds = 46.0
            now += 46.0
        now += 7.0

    monkeypatch.setattr("tidemill.runtime.runs.supervision.monotonic", lambda: now)
    mill.engine.before = work
    made = mill.run(chain("a", "b"))
    assert [mill.dataset(made, key).seconds for key in (1, 2)] == [7.0, 7.0]
