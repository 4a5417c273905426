"""Inserts during a catalog outage at every transaction: repeated under their key, they are inserted once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.runtime.outage import Outage
from tests.runtime.runs.test_insert_batcher import InsertProject

from tidemill.errors import CatalogError, InsertInProgress
from tidemill.model.block import BlockKind
from tidemill.model.identity import compute_identity
from tidemill.model.run import ClaimRequest, ReservationRequest, RunKind, RunOutcome, RunState, WrittenBlock
from tidemill.model.store import GracePeriods
from tidemill.runtime.maintenance.vacuum import VacuumService
from tidemill.runtime.runs.insert import Inserter, InsertResult

ENDED = (RunState.FINISHED, RunState.FAILED, RunState.KILLED)
Insert = Callable[[InsertProject, Path], InsertResult | Exception]


@pytest.fixture
def project(tmp_path: Path) -> Iterator[InsertProject]:
    now = 1_000.0
    project = InsertProject(tmp_path, clock=lambda: now)  # no lease ever expires
    yield project
    project.catalog.close()


def insert_file(project: InsertProject, file: Path) -> InsertResult | Exception:
    return project.inserter.insert_file("events", file, key=file.name)


def insert_batch(project: InsertProject, file: Path) -> InsertResult | Exception:
    (result,) = project.insert("events", file, keyed=True)
    return result


@pytest.mark.parametrize("committed", [False, True], ids=["before the commit", "after the commit"])
@pytest.mark.parametrize("transaction", range(4))
@pytest.mark.parametrize("insert", [insert_file, insert_batch])
def test_an_interrupted_insert_can_be_repeated_under_its_key(
    project: InsertProject, insert: Insert, transaction: int, committed: bool
) -> None:
    file, other = project.file("f", {"id": 1, "word": "a"}), project.file("g", {"id": 2, "word": "a"})
    outage = Outage(project.catalog, transaction, committed=committed)
    try:
        first = insert(project, file)
    except CatalogError as error:
        first = error
    assert isinstance(first, CatalogError) is outage.down
    outage.end()
    second = insert(project, other)  # it is acknowledged, so it must be visible
    assert isinstance(second, InsertResult)
    assert 2 in {row["id"] for row in project.content("events")}
    result = insert(project, file)
    assert isinstance(result, InsertResult)
    assert sorted(row["id"] for row in project.content("events")) == [1, 2]
    assert all(run.state in ENDED for run in project.catalog.runs.list())
    assert insert(project, file) == InsertResult(result.block, repeated=True)


@pytest.mark.parametrize("insert", [insert_file, insert_batch])
def test_an_insert_whose_answer_was_lost_is_recognised(project: InsertProject, insert: Insert) -> None:
    file = project.file("f", {"id": 1, "word": "a"})
    real, lost = project.catalog.runs.commit, []

    def commit(*arguments: object) -> object:
        blocks = real(*arguments)  # type: ignore[arg-type]
        if not lost:
            lost.append(blocks)
            raise CatalogError("server closed the connection unexpectedly")
        return blocks

    project.catalog.runs.commit = commit  # type: ignore[method-assign]
    result = insert(project, file)
    assert isinstance(result, InsertResult)
    assert [result.block] == lost[0]
    assert len(project.content("events")) == 1


class OtherProcess:
    """Another process with an active insert under a key."""

    def __init__(self, project: InsertProject, key: str) -> None:
        self.project = project
        request = ClaimRequest(reservations=(ReservationRequest(None, "events", BlockKind.DELTA, (key,)),))
        self.claim = project.catalog.runs.claim_new(RunKind.INSERT, "events", request, owner="elsewhere", lease=30.0)

    def commit(self) -> None:
        (reservation,) = self.claim.reservations.values()
        _, schema = self.project.inserter.get_input_channel("events")
        self.project.catalog.runs.commit(
            self.claim, RunOutcome((WrittenBlock(reservation, schema, (), compute_identity("theirs")),))
        )


def build_inserter(project: InsertProject, sleep: Callable[[float], None]) -> Inserter:
    return replace(project.inserter, executor=replace(project.inserter.executor, sleep=sleep))


def test_an_insert_waits_for_one_under_the_same_key(project: InsertProject) -> None:
    other, slept = OtherProcess(project, "f.jsonl"), []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            other.commit()

    file = project.file("f", {"id": 1, "word": "a"})
    result = build_inserter(project, sleep).insert_file("events", file, key=file.name)
    assert (result.repeated, result.block.run, len(slept)) == (True, other.claim.run.id, 3)


def test_an_insert_takes_over_from_a_dead_process(tmp_path: Path) -> None:
    now = [1_000.0]
    project = InsertProject(tmp_path, clock=lambda: now[0])
    other = OtherProcess(project, "f.jsonl")
    directory = Path(project.inserter.executor.store.stage_directory(f"{other.claim.directory}/1"))
    assert directory.is_dir()

    def sleep(seconds: float) -> None:
        now[0] += 10

    file = project.file("f", {"id": 1, "word": "a"})
    result = build_inserter(project, sleep).insert_file("events", file, key=file.name)
    assert not result.repeated
    assert project.catalog.runs.read(other.claim.run.id).state is RunState.FAILED
    assert len(project.content("events")) == 1
    VacuumService(project.inserter.executor, grace=GracePeriods(0.0, 0.0)).collect_garbage(None)
    assert not directory.parent.parent.exists()  # its files are deleted
    project.catalog.close()


def test_of_several_inserts_only_the_one_whose_key_is_in_use_is_rejected(project: InsertProject) -> None:
    other = OtherProcess(project, "f1.jsonl")
    files = [project.file(f"f{n}", {"id": n, "word": "a"}) for n in range(3)]
    first, second, third = project.insert("events", *files, keyed=True)
    assert isinstance(second, InsertInProgress)
    assert isinstance(first, InsertResult)
    assert isinstance(third, InsertResult)
    other.commit()
    (again,) = project.insert("events", files[1], keyed=True)
    assert isinstance(again, InsertResult)
    assert again.repeated
