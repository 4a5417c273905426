"""Pinning beside a collection, at steps of either: a pin that succeeded holds, and one too late says so."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any, cast

import pytest
from sqlalchemy import Connection
from tests.catalog.driver import COPY, Driver
from tests.catalog.interleaving import between, watch

from tidemill.catalog import SqlCatalog
from tidemill.errors import Conflict
from tidemill.model.block import Block, BlockKind, BlockState
from tidemill.ports.engine import Engine as SparkLike
from tidemill.runtime.maintenance.pins import pin_block
from tidemill.runtime.maintenance.vacuum import VacuumService
from tidemill.runtime.runs.execution import Executor
from tidemill.storage.local import LocalBlockStore

__all__ = ["watch"]

STRIDE = 1 if int(os.environ.get("TIDEMILL_CRASH_ROUNDS", "0")) else 5
"""Every step of either is for `make crash`."""

Opened = Callable[[], SqlCatalog]


def outcome(action: Callable[[], Any]) -> Any:
    try:
        return action()
    except Conflict as conflict:
        return conflict


def superseded(driver: Driver) -> Block:
    """A block that nobody needs any longer, made from others that nobody needs; `d` goes on without it."""
    driver.clock.now += 1
    driver.insert("a")
    (copied,) = driver.run_flow(COPY)
    driver.insert("a", kind=BlockKind.BASE)
    driver.run_flow(COPY)
    driver.compact("d", driver.head("d"))
    return copied


@pytest.mark.parametrize("first", ["pin", "collection"])
def test_a_pin_beside_a_collection_holds_or_is_refused(
    driver: Driver, opened: Opened, tmp_path: Path, watch: Connection, first: str
) -> None:
    pinning, collecting = opened(), opened()
    janitor = VacuumService(Executor(collecting, LocalBlockStore(tmp_path), cast(SparkLike, None), "me"))
    seen: set[str] = set()
    for step in count(1, STRIDE):
        block = superseded(driver)
        actions = {
            "pin": lambda b=block: outcome(lambda: pin_block(pinning, b.id)),
            "collection": janitor.collect_garbage,
        }
        (second,) = actions.keys() - {first}
        with between(step, actions[second], watch) as meanwhile:
            results = {first: actions[first]()}
        results[second] = meanwhile.other.result() if meanwhile.other else actions[second]()
        seen.add(checked(driver, janitor, block, results["pin"]))
        if meanwhile.other is None:
            break
    assert step > 15, "there are more steps than that"
    assert {"held", "too late"} <= seen


def checked(driver: Driver, janitor: VacuumService, block: Block, pinned: set[int] | Conflict) -> str:
    """What became of the pin; all that it promised, or that it left no trace."""
    catalog = driver.catalog
    janitor.collect_garbage()  # neither does a later one take what is held
    if not isinstance(pinned, Conflict):
        assert catalog.read_block(block.id).pinned
        assert {catalog.read_block(b).state for b in pinned | {block.id}} == {BlockState.FILLED}
        catalog.unpin_block(block.id)
        janitor.collect_garbage()
        assert catalog.read_block(block.id).state is BlockState.COLLECTED
        return "held"
    assert not any(catalog.list_pinned_blocks(name) for name in "abd")
    assert str(pinned) in (
        f"block {block.id} is collected; only filled blocks can be pinned",
        f"some inputs of block {block.id} were garbage-collected meanwhile; pin it again",
    )
    return "too late" if "is collected" in str(pinned) else "pin again"
