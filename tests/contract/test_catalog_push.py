"""Pushed data in the catalog: producers' sequence numbers, named leases and consumer offsets."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from tests.catalog.driver import Driver, build_outcome

from tidemill.catalog import SqlCatalog
from tidemill.errors import Conflict
from tidemill.model.run import FILE_PRODUCER_PREFIX, ProducerAdvance


def push(driver: Driver, *moves: tuple[str, int, int], channel: str = "a") -> None:
    """Commit an insert that advances producers from one sequence number to another."""
    claim = driver.open_insert(channel)
    advanced = tuple(ProducerAdvance(channel, *move) for move in moves)
    driver.catalog.runs.commit(claim, replace(build_outcome(claim), producer_advances=advanced))


def test_sequence_numbers_advance_with_the_commit(driver: Driver) -> None:
    push(driver, ("p", 0, 3), ("q", 0, 1))
    push(driver, ("p", 3, 5))
    assert driver.catalog.channels.read_producer_sequences("a", ["p", "q", "unknown"]) == {"p": 5, "q": 1, "unknown": 0}


@pytest.mark.parametrize("move", [("p", 0, 1), ("p", 2, 6), ("p", 9, 10), ("new", 1, 2)])
def test_a_sequence_number_that_advanced_meanwhile_rolls_back_the_commit(
    driver: Driver, move: tuple[str, int, int]
) -> None:
    push(driver, ("p", 0, 5))
    with pytest.raises(Conflict, match="send the unacknowledged messages again"):
        push(driver, ("q", 0, 1), move)
    assert driver.catalog.channels.read_producer_sequences("a", ["p", "q"]) == {"p": 5, "q": 0}
    assert driver.head() == 1


def test_silent_producers_expire_but_not_those_of_files(driver: Driver) -> None:
    """An expired producer is new when it returns: repeated messages are rejected, except the first."""
    push(driver, ("silent", 0, 5), ("busy", 0, 1), (f"{FILE_PRODUCER_PREFIX}5a", 0, 1))
    driver.clock.now += 60
    push(driver, ("busy", 1, 2))
    driver.clock.now += 60
    assert driver.catalog.channels.expire_producers(100) == 1
    assert driver.catalog.channels.read_producer_sequences("a", ["silent", "busy", f"{FILE_PRODUCER_PREFIX}5a"]) == {
        "silent": 0, "busy": 2, f"{FILE_PRODUCER_PREFIX}5a": 1,
    }  # fmt: skip
    with pytest.raises(Conflict, match="is at message 0, not at 5"):
        push(driver, ("silent", 5, 6))
    push(driver, ("silent", 0, 1))
    assert driver.catalog.channels.expire_producers(100) == 0


def test_one_of_several_servers_with_the_same_message_commits(
    driver: Driver, open_another: Callable[[], SqlCatalog]
) -> None:
    servers = [Driver(open_another(), driver.clock) for _ in range(4)]

    def push_once(server: Driver) -> str:
        try:
            push(server, ("p", 0, 1))
        except Conflict:
            return "conflict"
        return "done"

    with ThreadPoolExecutor(4) as pool:
        outcomes = sorted(pool.map(push_once, servers))
    assert outcomes == ["conflict"] * 3 + ["done"]
    filled = [b for b in driver.catalog.blocks.list("a") if b.state == "filled" and b.seq]
    assert len(filled) == 1


def test_a_lease_has_one_holder_until_it_expires_or_is_released(driver: Driver) -> None:
    catalog = driver.catalog
    assert catalog.servers.read_lease_end("source:s") is None
    assert catalog.servers.acquire_lease("source:s", "one", lease=10)
    assert not catalog.servers.acquire_lease("source:s", "two", lease=10)
    assert catalog.servers.read_lease_end("source:s") == driver.clock.now + 10
    catalog.servers.release_lease("source:s", "two")  # another holder's lease
    assert not catalog.servers.acquire_lease("source:s", "two", lease=10)
    catalog.servers.release_lease("source:s", "one")
    assert catalog.servers.acquire_lease("source:s", "two", lease=10)
    driver.clock.now += 11
    assert catalog.servers.acquire_lease("source:s", "one", lease=10)


def test_a_consumer_offset_advances_only_from_its_position(driver: Driver) -> None:
    catalog = driver.catalog
    assert catalog.events.find_consumer_offset("d") is None
    catalog.events.move_consumer_offset("d", None, 5)
    catalog.events.move_consumer_offset("d", 5, 7)
    for since in (5, None):
        with pytest.raises(Conflict, match="another server has advanced it"):
            catalog.events.move_consumer_offset("d", since, 9)
    assert catalog.events.find_consumer_offset("d") == 7
