"""One-shot workflows from submission to storage: runs, costs and stored datasets."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.runtime.oneshots import SCHEMA, Bench, Json, action, bench, chain, verdicts, workflow

from tidemill.api.documents.parser import parse_workflow
from tidemill.api.documents.tasks import SourceResolver, build_task
from tidemill.errors import LeaseLost, RunFailed, StorageError, WorkflowError
from tidemill.model.block import DataFile
from tidemill.model.run import ClaimRequest, RunState
from tidemill.model.states import DatasetState as D
from tidemill.model.submission import ActionResult
from tidemill.model.task import Command
from tidemill.model.usage import UsagePeriod
from tidemill.ports.engine import get_start_wait
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
    with bench(url, tmp_path) as mill:
        yield mill


def build_wide_workflow(actions: int) -> Json:
    """Each action is derived from the previous one and from the one ten before."""
    actions = [action(n, f"{n} AS x", *sorted({max(n - 10, 1), n - 1} - {0, n})) for n in range(1, actions + 1)]
    return workflow(*actions)


@pytest.mark.long
def test_resubmitting_two_hundred_actions_calls_no_engine_and_is_fast(mill: Bench) -> None:
    document = build_wide_workflow(200)
    mill.submit(document)
    while (
        ready := mill.catalog.runs.list_runnable()
    ):  # committed without an engine: the test is about the second submission
        for run in ready:
            claim = mill.catalog.runs.claim(run.id, ClaimRequest(), owner="me", lease=60.0)
            mill.catalog.datasets.commit(claim, ActionResult(SCHEMA, (), 1.0))
    start = time.monotonic()
    again = mill.run(document)
    seconds = time.monotonic() - start
    assert mill.engine.calls == []
    assert sum(a.saved_seconds for a in again.actions) == 200.0
    assert set(verdicts(again).values()) == {"reused"}
    assert seconds < 2.0


# -- random histories --------------------------------------------------------------------------------------------


@st.composite
def graphs(draw: st.DrawFn) -> Json:
    """A small graph over few queries, so that parts of it have often been computed before."""
    actions: list[Json] = []
    for n in range(1, draw(st.integers(1, 6)) + 1):
        parents = draw(st.lists(st.integers(1, n - 1), unique=True, max_size=2)) if n > 1 else []
        actions.append(action(n, draw(st.sampled_from(["a", "b", "c"])), *parents))
    return workflow(*actions)


EXAMPLES = int(os.environ.get("TIDEMILL_EXAMPLES", "96")) // 16


@settings(max_examples=EXAMPLES, phases=[Phase.generate])  # shrinking an example would take minutes
@given(data=st.data())
def test_reuse_changes_no_result_and_only_required_actions_run(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory, sqlite_template: Path
) -> None:
    root = tmp_path_factory.mktemp("history")
    with bench(f"sqlite:///{shutil.copy(sqlite_template, root)}", root) as mill:
        for _ in range(data.draw(st.integers(1, 4), label="submissions")):
            document = data.draw(graphs())
            available = {d.identity for d in mill.catalog.datasets.list() if d.is_readable or d.state is D.PROCESSING}
            submission, calls = mill.submit(document), len(mill.engine.calls)
            required = find_required_actions(document, {a.key: a.identity for a in submission.actions}, available)
            mill.shop.complete_submission(submission.id)
            assert len(mill.engine.calls) - calls == len(required)
            mill.check(document, submission)
            stored = sorted(d.identity for d in mill.catalog.datasets.list() if d.state is D.STORED)
            mill.catalog.datasets.evict([i for i in stored if data.draw(st.booleans(), label="evict")])
            if data.draw(st.booleans(), label="delete"):
                mill.shop.build_evictor().delete_evicted()
        assert all(d.claims == 0 for d in mill.catalog.datasets.list())


def find_required_actions(document: Json, identities: dict[str, str], available: set[str]) -> set[str]:
    """The reference: an unavailable output must be computed, and so must its unavailable parents."""
    parents = {
        identities[str(a["id"])]: [identities[str(p["id"])] for p in a["parentActions"]] for a in document["actions"]
    }
    inner = {str(p["id"]) for a in document["actions"] for p in a["parentActions"]}
    ends = [key for key in identities if key not in inner or key == str(document["endActionId"])]
    required: set[str] = set()
    queue = [identities[key] for key in ends]
    while queue:
        identity = queue.pop()
        if identity not in available and identity not in required:
            required.add(identity)
            queue += parents[identity]
    return required


# -- servers -----------------------------------------------------------------------------------------------------


def test_servers_share_the_work_of_a_submission(url: str, tmp_path: Path, mill: Bench) -> None:
    with bench(url, tmp_path, owner="other") as other:
        loops = [
            ServerLoop(
                process.catalog,
                Server(name, "work", 2),
                lambda run, _, process=process: process.shop.execute_run(run),
                [],
                ServerIntervals(0.01),
            )
            for name, process in (("one", mill), ("two", other))
        ]
        threads = [threading.Thread(target=loop.run) for loop in loops]
        for thread in threads:
            thread.start()
        submission = mill.submit(build_wide_workflow(30))
        finished = mill.shop.complete_submission(submission.id)
        for loop, thread in zip(loops, threads, strict=True):
            loop.drain()
            thread.join()
        assert finished.state is RunState.FINISHED
        assert len(mill.engine.calls) + len(other.engine.calls) == 30


def test_an_action_of_a_dead_server_is_taken_over_by_another(url: str, tmp_path: Path, mill: Bench) -> None:
    submission = mill.submit(chain("a", "b"))
    first = submission.actions[0].run
    assert first is not None
    claim = mill.catalog.runs.claim(first.id, ClaimRequest(), owner="dead", lease=30.0)
    with bench(url, tmp_path, later=60.0) as other:
        other.shop.complete_submission(submission.id)
        other.check(chain("a", "b"), submission)
        assert other.catalog.runs.read(first.id).fencing_token > claim.run.fencing_token
    with pytest.raises(LeaseLost):
        mill.catalog.datasets.commit(claim, ActionResult(SCHEMA, (), 0.0))


# -- the code that runs is the submitted code------------------------------------------------------------------------

SCRIPT = {"id": 1, "name": "a", "type": "pyspark-script", "script": "words.py", "arguments": ["words.py", "{output}"]}
PROGRAM = {"id": 1, "name": "a", "type": "command-line", "command": ["./fetch", "x"], "files": ["./fetch"]}


def test_code_that_changed_after_the_submission_is_not_run(mill: Bench) -> None:
    files = {"words.py": b"print(1)"}
    shop = replace(mill.shop, sources=SourceResolver(files.__getitem__, mill.shop.sources.find_function))
    submission = shop.submit_workflow(json.dumps(workflow(SCRIPT)), "ada")
    files["words.py"] = b"print(2)"
    with pytest.raises(RunFailed, match=r"(?s)changed since it was submitted: code of words.py; submit it again"):
        shop.complete_submission(submission.id)
    assert mill.engine.calls == []


def test_programs_are_resolved_in_the_project_and_get_their_environment_variables(mill: Bench) -> None:
    sources = SourceResolver({"./fetch": b"#!/bin/sh", "words.py": b""}.__getitem__, mill.shop.sources.find_function)
    environment = {"REGION": "north", "SECRET": "hush"}
    runner = ActionRunner(mill.shop.executor, sources, environment, lambda name: f"/project/{name}")

    def resolve(data: Json) -> Command:
        action_spec = parse_workflow(json.dumps(workflow(data))).actions[0]
        code = runner._resolve_command(action_spec, build_task(action_spec, sources)).variant.code
        assert isinstance(code, Command)
        return code

    assert resolve(PROGRAM).argv == ("/project/./fetch", "x")
    assert resolve(PROGRAM | {"environment": ["REGION", "UNSET"]}).env == {"REGION": "north"}
    assert resolve(SCRIPT).argv == ("/project/spark-submit", "/project/words.py", "/project/words.py", "{output}")


# -- storage -----------------------------------------------------------------------------------------------------


def test_evictions_stop_at_the_threshold(url: str, tmp_path: Path, mill: Bench) -> None:
    mill.run(build_wide_workflow(20))
    size = mill.shop.report_storage().retained[0].dataset.bytes
    assert mill.shop.build_evictor().enforce_budgets() is None  # without a budget nothing is evicted
    with bench(url, tmp_path, budgets=StorageBudgets(StorageBudget(20 * size, 0.5))) as tight:
        report = tight.shop.report_storage()
        result = tight.shop.build_evictor().enforce_budgets()
        assert result is not None
        assert [g.dataset.identity for g in result.evictions] == [g.dataset.identity for g in report.evictions]
        assert result.freed_bytes == 10 * size
        assert tight.shop.report_storage().shares.store.used_bytes == 10 * size
        assert report.seconds > 0
        assert tight.shop.build_evictor().enforce_budgets() is None
    assert mill.find_inconsistencies() == set()


def test_a_budget_smaller_than_the_leaves_evicts_everything_but_leaves(url: str, tmp_path: Path) -> None:
    with bench(url, tmp_path, budgets=StorageBudgets(StorageBudget(1, 1.0))) as mill:
        submission = mill.run(chain("a", "b"))
        result = mill.shop.build_evictor().enforce_budgets()
        assert result is not None
        assert "the store: " in result.problems[0]
        assert [g.dataset.name for g in result.evictions] == ["a1"]
        assert (mill.state(submission, 1), mill.state(submission, 2)) == (D.DELETED, D.LEAF)
        assert f"{mill.dataset(submission, 2).bytes - 1} bytes are missing" in mill.shop.report_storage().problems[0]


def test_an_evictor_learns_from_new_submissions(mill: Bench) -> None:
    evictor = mill.shop.build_evictor()
    mill.run(chain("a", "b"))
    first = evictor.report_storage(1)
    mill.run(chain("a", "b", "c", name="longer"))
    later = evictor.report_storage(1)
    assert [g.dataset.name for g in first.evictions] == ["a1"]
    assert later == mill.shop.build_evictor().report_storage(1)


def test_the_recompute_time_includes_missing_ancestors(mill: Bench) -> None:
    submission = mill.run(chain("a", "b", "c"))
    seconds = [mill.dataset(submission, k).seconds for k in (1, 2)]
    report = mill.shop.report_storage(sum(mill.dataset(submission, k).bytes for k in (1, 2)))
    recompute_seconds = {g.dataset.name: g.seconds for g in report.evictions}
    assert recompute_seconds == pytest.approx({"a1": seconds[0], "a2": sum(seconds)})
    assert report.seconds == pytest.approx(sum(seconds))


# -- copies and history ------------------------------------------------------------------------------------------


def test_an_output_is_copied_to_its_path_when_computed_or_reused(mill: Bench, tmp_path: Path) -> None:
    mill.run(chain("a", "b"))
    document = workflow(action(1, "a", isManaged=False, path="out/a"), action(2, "b", 1))
    submission = mill.submit(document)
    assert verdicts(submission) == {"1": "reused", "2": "reused"}
    assert submission.state is RunState.FINISHED
    assert len(list((tmp_path / "out" / "a").iterdir())) == 2
    assert mill.state(submission, 1) is D.LEAF
    for path in (tmp_path / "out" / "a").iterdir():
        path.unlink()
    mill.submit(document)
    assert len(list((tmp_path / "out" / "a").iterdir())) == 2
    assert mill.engine.calls == ["a", "b"]


def test_a_copy_replaces_the_previous_copy_and_no_file_of_the_user(mill: Bench, tmp_path: Path) -> None:
    for query, path in (("a", "out"), ("b", "./out")):
        mill.run(workflow(action(1, query, isManaged=False, path=path)))
        assert len(list((tmp_path / "out").iterdir())) == 2
    mine = tmp_path / "out" / "tidemill-mine.parquet"
    mine.write_text("mine")
    with pytest.raises(StorageError, match=r"tidemill-mine\.parquet"):
        mill.run(workflow(action(1, "c", isManaged=False, path="out")))
    assert mine.read_text() == "mine"


def test_a_leaf_that_is_deleted_during_its_copy_leaves_no_part_of_it(mill: Bench, tmp_path: Path) -> None:
    mill.run(chain("a"))
    before = set(tmp_path.iterdir())

    def drop_and_copy(identity: str, files: Sequence[DataFile], path: str) -> bool:
        mill.shop.drop_dataset(identity)
        return mill.shop.place_copy(identity, files, path)

    shop = replace(mill.shop, place_copy=drop_and_copy)
    with pytest.raises(StorageError):
        shop.submit_workflow(json.dumps(workflow(action(1, "a", isManaged=False, path="out"))), "ada")
    assert set(tmp_path.iterdir()) == before
    assert mill.catalog.datasets.list_pending_copies() == []


def test_two_workflows_cannot_have_the_same_output_path(mill: Bench) -> None:
    exported = action(1, "a", isManaged=False, path="out")
    mill.submit(workflow(exported))
    with pytest.raises(WorkflowError, match="an output of workflow 'words'"):
        mill.submit(workflow(exported, name="other"))
    mill.submit(workflow(exported))
    mill.submit(chain("a"))  # no longer to that path
    mill.submit(workflow(exported, name="other"))


def test_the_usage_history_is_filtered_and_split(mill: Bench) -> None:
    mill.run(chain("a", "b"))
    mill.submit(chain("a", "b"), "bob")
    mill.engine.failing["c"] = 1
    with pytest.raises(RunFailed):
        mill.run(chain("c", name="other"))
    period = UsagePeriod(0.0, time.time() + 1)
    (day,) = mill.shop.compute_usage(period, TimeResolution.DAY)
    assert (day.submissions, day.actions, day.computed, day.failed, day.hits) == (3, 5, 2, 1, 2)
    assert day.saved_seconds == pytest.approx(sum(d.seconds for d in mill.catalog.datasets.list()))
    assert day.hit_rate == 0.4
    (bob,) = mill.shop.compute_usage(replace(period, user="bob"), TimeResolution.MINUTE)
    assert (bob.submissions, bob.computed, bob.hits) == (1, 0, 2)
    tasks = {
        f.group: (f.actions, f.hits) for f in mill.shop.compute_usage(period, TimeResolution.MONTH, UsageSplit.TASK)
    }
    assert tasks == {"words/a1": (2, 1), "words/a2": (2, 1), "other/a1": (1, 0)}
    assert [f.group for f in mill.shop.compute_usage(period, TimeResolution.WEEK, UsageSplit.USER)] == ["ada", "bob"]
    (figures,) = mill.shop.compute_usage(replace(period, workflow="words", task="a2"), TimeResolution.DAY)
    assert (figures.actions, figures.computed, figures.hits) == (2, 1, 1)
    assert mill.shop.compute_usage(replace(period, workflow="nope"), TimeResolution.DAY) == []
    assert mill.shop.compute_usage(replace(period, since=period.until), TimeResolution.DAY) == []


# -- the cost of a dataset -------------------------------------------------------------------------------------


def test_a_dataset_is_not_charged_for_the_start_of_the_engine(mill: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine starts when it is first needed; a dataset's eviction depends on the time to compute it again."""
    now = 0.0

    def work(query: str) -> None:
        nonlocal now
        if not now:
            get_start_wait().seconds += 46.0
            now += 46.0
        now += 7.0

    monkeypatch.setattr("tidemill.runtime.runs.supervision.monotonic", lambda: now)
    mill.engine.before = work
    submission = mill.run(chain("a", "b"))
    assert [mill.dataset(submission, key).seconds for key in (1, 2)] == [7.0, 7.0]
