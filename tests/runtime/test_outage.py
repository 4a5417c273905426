"""Inserts across an outage of the catalog, cut off at every moment: repeated under their key, they are there once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.runtime.outage import Outage
from tests.runtime.runs.test_insert_batcher import House

from tidemill.errors import CatalogError, InsertInProgress
from tidemill.model.block import BlockKind
from tidemill.model.identity import compute_identity
from tidemill.model.run import ClaimRequest, ReservationRequest, RunKind, RunOutcome, RunState, WrittenBlock
from tidemill.model.store import GracePeriods
from tidemill.runtime.maintenance.vacuum import VacuumService
from tidemill.runtime.runs.insert import Inserter, InsertResult

ENDED = (RunState.FINISHED, RunState.FAILED, RunState.KILLED)
Insert = Callable[[House, Path], InsertResult | Exception]


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    now = 1_000.0
    made = House(tmp_path, clock=lambda: now)  # no lease ever ends
    yield made
    made.catalog.close()


def by_file(house: House, file: Path) -> InsertResult | Exception:
    return house.inserter.insert_file("events", file, key=file.name)


def gathered(house: House, file: Path) -> InsertResult | Exception:
    (done,) = house.insert("events", file, keyed=True)
    return done


@pytest.mark.parametrize("committed", [False, True], ids=["before the commit", "after the commit"])
@pytest.mark.parametrize("at", range(4))
@pytest.mark.parametrize("insert", [by_file, gathered])
def test_an_insert_that_was_cut_off_can_be_repeated_under_its_key(
    house: House, insert: Insert, at: int, committed: bool
) -> None:
    file, other = house.file("f", {"id": 1, "word": "a"}), house.file("g", {"id": 2, "word": "a"})
    outage = Outage(house.catalog, at, committed=committed)
    try:
        first = insert(house, file)
    except CatalogError as error:
        first = error
    assert isinstance(first, CatalogError) is outage.down
    outage.end()
    beside = insert(house, other)  # it is acknowledged, so it is to be seen
    assert isinstance(beside, InsertResult)
    assert 2 in {row["id"] for row in house.content("events")}
    done = insert(house, file)
    assert isinstance(done, InsertResult)
    assert sorted(row["id"] for row in house.content("events")) == [1, 2]
    assert all(run.state in ENDED for run in house.catalog.list_runs())
    assert insert(house, file) == InsertResult(done.block, repeated=True)


@pytest.mark.parametrize("insert", [by_file, gathered])
def test_an_insert_whose_answer_was_lost_is_found_without_being_repeated(house: House, insert: Insert) -> None:
    file = house.file("f", {"id": 1, "word": "a"})
    real, lost = house.catalog.commit_run, []

    def commit(*given: object) -> object:
        made = real(*given)  # type: ignore[arg-type]
        if not lost:
            lost.append(made)
            raise CatalogError("server closed the connection unexpectedly")
        return made

    object.__setattr__(house.catalog, "commit_run", commit)
    done = insert(house, file)
    assert isinstance(done, InsertResult)
    assert [done.block] == lost[0]
    assert len(house.content("events")) == 1


class Elsewhere:
    """Another process that inserts under a key, and has not ended."""

    def __init__(self, house: House, key: str) -> None:
        self.house = house
        demand = ClaimRequest(reservations=(ReservationRequest(None, "events", BlockKind.DELTA, (key,)),))
        self.claim = house.catalog.claim_new_run(RunKind.INSERT, "events", demand, owner="elsewhere", lease=30.0)

    def commit(self) -> None:
        (slot,) = self.claim.reservations.values()
        _, schema = self.house.inserter.get_input_channel("events")
        self.house.catalog.commit_run(
            self.claim, RunOutcome((WrittenBlock(slot, schema, (), compute_identity("theirs")),))
        )


def waiting(house: House, sleep: Callable[[float], None]) -> Inserter:
    return replace(house.inserter, executor=replace(house.inserter.executor, sleep=sleep))


def test_an_insert_waits_for_one_under_the_same_key(house: House) -> None:
    other, slept = Elsewhere(house, "f.jsonl"), []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            other.commit()

    file = house.file("f", {"id": 1, "word": "a"})
    done = waiting(house, sleep).insert_file("events", file, key=file.name)
    assert (done.repeated, done.block.run, len(slept)) == (True, other.claim.run.id, 3)


def test_an_insert_takes_over_from_one_whose_process_died(tmp_path: Path) -> None:
    now = [1_000.0]
    house = House(tmp_path, clock=lambda: now[0])
    other = Elsewhere(house, "f.jsonl")
    left = Path(house.inserter.executor.store.stage_directory(f"{other.claim.directory}/1"))
    assert left.is_dir()

    def sleep(seconds: float) -> None:
        now[0] += 10

    file = house.file("f", {"id": 1, "word": "a"})
    done = waiting(house, sleep).insert_file("events", file, key=file.name)
    assert not done.repeated
    assert house.catalog.read_run(other.claim.run.id).state is RunState.FAILED
    assert len(house.content("events")) == 1
    VacuumService(house.inserter.executor, grace=GracePeriods(0.0, 0.0)).collect_garbage(None)
    assert not left.parent.parent.exists()  # nothing is left of it
    house.catalog.close()


def test_of_several_inserts_only_the_one_whose_key_is_in_use_has_to_wait(house: House) -> None:
    other = Elsewhere(house, "f1.jsonl")
    files = [house.file(f"f{n}", {"id": n, "word": "a"}) for n in range(3)]
    first, second, third = house.insert("events", *files, keyed=True)
    assert isinstance(second, InsertInProgress)
    assert isinstance(first, InsertResult)
    assert isinstance(third, InsertResult)
    other.commit()
    (again,) = house.insert("events", files[1], keyed=True)
    assert isinstance(again, InsertResult)
    assert again.repeated
