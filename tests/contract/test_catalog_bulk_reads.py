"""Reads of all channels and flows in one query equal reads of each of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from benchmarks.statement_count import count_statements
from tests.catalog.driver import CHANNELS, COPY, WORKFLOW, Driver, moves_of

from tidemill.model.block import BlockKind
from tidemill.model.flow import BoundFlow
from tidemill.model.run import ClaimRequest, RunKind, RunOutcome, RunState
from tidemill.model.workflow import WorkflowSpec

OTHER = replace(COPY, name="other")
THIRD = BoundFlow("third", COPY.tasks)


@pytest.fixture
def driver(driver: Driver) -> Driver:
    """Two flows on the same channels, one of which never runs, and one that was removed after a run."""
    channels = (*CHANNELS, replace(CHANNELS[0], name="unused"))
    driver.catalog.workflows.apply(WorkflowSpec("w", channels, (COPY, OTHER, THIRD)))
    driver.insert("a")
    driver.run_flow(THIRD)
    driver.catalog.workflows.apply(WorkflowSpec("w", channels, (COPY, OTHER)))
    return driver


def run_without_work(driver: Driver) -> int:
    claim = driver.claim(driver.request(RunKind.FLOW, "copy"), ClaimRequest())
    driver.catalog.runs.commit(claim, RunOutcome(()))
    return claim.run.id


def test_the_next_version_follows_each_version(driver: Driver) -> None:
    versions = [b.version for b in (driver.insert("a"), driver.insert("a"), driver.insert("a")) if b.version]
    driver.compact("a", driver.head("a"))  # it has the version of the block that it replaces
    first, *_ = all_versions = driver.catalog.channels.list_versions({"a": 0})["a"]
    find = driver.catalog.channels.find_next_versions
    assert find({"a": [0]}) == {"a": [first, versions[-1]]}
    assert find({"a": [versions[0], versions[-1]]}) == {"a": [versions[1], versions[-1]]}
    assert find({"a": all_versions, "b": [0], "unknown": [0]}) == {"a": all_versions[1:], "b": [], "unknown": []}
    assert find({}) == {}


def test_pending_sequence_numbers_are_those_of_filled_blocks_up_to_the_head(driver: Driver) -> None:
    first = driver.head("a")
    driver.insert("a")
    driver.catalog.runs.kill(driver.open_insert("a").run.id)  # its number stays free
    driver.insert("a")
    driver.compact("a", driver.head("a"))
    driver.insert("b")
    driver.open_insert("b")
    driver.insert("b")  # behind an open reservation
    listed = driver.catalog.channels.list_pending_seqs({"a": first, "b": 0, "unused": 0, "unknown": 0})
    assert listed == {"a": [first + 1, first + 3], "b": [1], "unused": [], "unknown": []}
    for name, since in (("a", first), ("b", 0)):
        filled = {b.seq for b in driver.catalog.blocks.list_filled(name)}
        assert listed[name] == sorted(seq for seq in filled if since < seq <= driver.head(name))


def test_positions_of_many_channels_are_read_in_batches(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidemill.catalog.queries._BATCH_SIZE", 1)
    driver.insert("b")
    assert driver.catalog.channels.list_pending_seqs({"a": 0, "b": 0}) == {"a": [1], "b": [1]}
    assert list(driver.catalog.channels.find_next_versions({"a": [0, 1], "b": [0]})) == ["a", "b"]


def test_contents_of_many_channels_are_those_of_each_at_its_head(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver.insert("a", kind=BlockKind.BASE)
    driver.insert("a")
    driver.compact("a", driver.head("a"))
    driver.insert("a")
    driver.open_insert("a")  # not readable yet
    driver.insert("b")
    for batch_size in (1, 500):
        monkeypatch.setattr("tidemill.catalog.queries._BATCH_SIZE", batch_size)
        contents = driver.catalog.blocks.read_contents(["a", "b", "unused", "unknown"])
        assert contents == {c: driver.catalog.blocks.read_base_and_deltas(c, 10**9) for c in ("a", "b", "unused")}
        channels = driver.catalog.channels.read_all(["b", "a"])
        assert channels == [driver.catalog.channels.read(c) for c in ("a", "b")]
        assert [c.reserved for c in channels] == [1, 0]


def test_cursors_and_costs_are_those_of_the_given_flows(driver: Driver) -> None:
    for flow in (COPY, OTHER):
        driver.run_flow(flow)
    cursors = driver.catalog.channels.read_flow_cursors(["copy", "unknown"])
    assert cursors == [c for c in driver.catalog.channels.read_cursors() if c.binding == "copy"] != []
    assert driver.catalog.flows.read_costs(["copy", "other"]) == {}


def test_the_newest_run_of_each_flow_is_read(driver: Driver) -> None:
    newest = driver.catalog.runs.list_newest_flow_runs
    assert newest() == {}
    driver.run_flow()
    failed = driver.open_flow()
    driver.catalog.runs.fail(failed.run.id, failed.run.fencing_token, error="no")
    driver.insert("a")
    assert {flow: run.id for flow, run in newest().items()} == {"copy": failed.run.id}
    assert newest()["copy"] == driver.catalog.runs.read(failed.run.id)


def test_runs_of_a_channel_with_the_name_of_a_flow_are_not_the_flow_s(driver: Driver) -> None:
    driver.catalog.workflows.apply(WorkflowSpec("w", (*CHANNELS, replace(CHANNELS[0], name="copy")), (COPY,)))
    driver.run_flow()
    driver.insert("copy")
    (run,) = driver.catalog.runs.list_newest_flow_runs().values()
    assert run.kind is RunKind.FLOW
    assert [r.kind for r in driver.catalog.runs.list_newest_finished(9)["copy"]] == [RunKind.FLOW]


def test_the_last_run_that_read_anything_determines_how_far_a_flow_has_read(driver: Driver) -> None:
    assert driver.catalog.runs.list_last_reads() == {}
    driver.insert("b")
    driver.run_flow()
    driver.insert("b")
    driver.run_flow()
    run_without_work(driver)
    driver.insert("b")
    driver.open_flow()  # active runs have not read yet
    (task,) = COPY.tasks
    assert driver.catalog.runs.list_last_reads() == {("copy", task.name, "a"): 1, ("copy", task.name, "b"): 2}


@pytest.mark.parametrize("limit", [1, 2, 9])
def test_finished_runs_are_listed_by_flow_the_newest_first(driver: Driver, limit: int) -> None:
    for flow in (COPY, OTHER, COPY, COPY):
        driver.commit(claim := driver.open_flow(flow), moves_of(claim, flow) if flow is COPY else ())
    driver.open_flow()
    listed = driver.catalog.runs.list_newest_finished(limit)
    assert listed == {
        flow: driver.catalog.runs.list(subject=flow, state=RunState.FINISHED, limit=limit) for flow in ("copy", "other")
    }


def test_the_identity_of_a_flow_is_that_of_its_last_application(driver: Driver) -> None:
    find = driver.catalog.flows.find_identity
    assert find("copy") == COPY.compute_identity()
    assert find("third") is None  # it was removed
    assert find("unknown") is None
    driver.catalog.workflows.apply(replace(WORKFLOW, bindings=(THIRD,)))
    assert (find("copy"), find("third")) == (None, THIRD.compute_identity())


@pytest.mark.parametrize(
    "read",
    [
        lambda d: d.catalog.runs.list_newest_flow_runs(),
        lambda d: d.catalog.runs.list_last_reads(),
        lambda d: d.catalog.runs.list_newest_finished(5),
        lambda d: d.catalog.channels.list_pending_seqs({"a": 0, "b": 0, "d": 0}),
        lambda d: d.catalog.channels.find_next_versions({"a": [0, 1, 2], "b": [0]}),
        lambda d: d.catalog.channels.list_versions({"a": 0, "b": 0}),
        lambda d: d.catalog.channels.read_all(["a", "b"]),
        lambda d: d.catalog.channels.read_flow_cursors(["copy", "other"]),
        lambda d: d.catalog.flows.read_costs(["copy", "other"]),
    ],
)
def test_one_statement_reads_all(driver: Driver, read: Callable[[Driver], object]) -> None:
    driver.run_flow()
    driver.insert("b", kind=BlockKind.BASE)
    with count_statements(driver.catalog) as statements:
        read(driver)
    assert statements.count <= 2  # with the beginning of the transaction
