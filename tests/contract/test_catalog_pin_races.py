"""Pinning concurrent with garbage collection, interleaved at every step: a pin holds or fails with a conflict."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any, cast

import pytest
from sqlalchemy import Connection
from tests.catalog.driver import COPY, Driver
from tests.catalog.interleaving import run_between, watch
from tests.databases import LONG_ON_POSTGRESQL
from tests.marks import long

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
"""`make crash` tries every step."""

OpenCatalog = Callable[[], SqlCatalog]


def run_or_catch(action: Callable[[], Any]) -> Any:
    try:
        return action()
    except Conflict as conflict:
        return conflict


def build_superseded_block(driver: Driver) -> Block:
    """A block that is no longer needed, computed from others that are not; `d` continues without it."""
    driver.clock.now += 1
    driver.insert("a")
    (copy_block,) = driver.run_flow(COPY)
    driver.insert("a", kind=BlockKind.BASE)
    driver.run_flow(COPY)
    driver.compact("d", driver.head("d"))
    return copy_block


@pytest.mark.parametrize("backend", LONG_ON_POSTGRESQL)
@pytest.mark.parametrize("first", ["pin", long("collection")])
def test_a_pin_during_a_collection_holds_or_fails(
    driver: Driver, open_another: OpenCatalog, tmp_path: Path, watch: Connection, first: str
) -> None:
    pinning, collecting = open_another(), open_another()
    vacuum = VacuumService(Executor(collecting, LocalBlockStore(tmp_path), cast(SparkLike, None), "me"))
    outcomes: set[str] = set()
    for step in count(1, STRIDE):
        block = build_superseded_block(driver)
        actions = {
            "pin": lambda b=block: run_or_catch(lambda: pin_block(pinning, b.id)),
            "collection": vacuum.collect_garbage,
        }
        (second,) = actions.keys() - {first}
        with run_between(step, actions[second], watch) as meanwhile:
            results = {first: actions[first]()}
        results[second] = meanwhile.other.result() if meanwhile.other else actions[second]()
        outcomes.add(check_pin(driver, vacuum, block, results["pin"]))
        if meanwhile.other is None:
            break
    assert step > 15, "there are more steps than that"
    assert {"held", "too late"} <= outcomes


def check_pin(driver: Driver, vacuum: VacuumService, block: Block, pinned: set[int] | Conflict) -> str:
    """Check that the pin protects all its blocks, or that it has no effect; returns its outcome."""
    catalog = driver.catalog
    vacuum.collect_garbage()  # a later collection keeps the pinned blocks, too
    if not isinstance(pinned, Conflict):
        assert catalog.blocks.read(block.id).pinned
        assert {catalog.blocks.read(b).state for b in pinned | {block.id}} == {BlockState.FILLED}
        catalog.blocks.unpin(block.id)
        vacuum.collect_garbage()
        assert catalog.blocks.read(block.id).state is BlockState.COLLECTED
        return "held"
    assert not any(catalog.blocks.list_pinned(name) for name in "abd")
    assert str(pinned) in (
        f"block {block.id} is collected; only filled blocks can be pinned",
        f"some inputs of block {block.id} were garbage-collected meanwhile; pin it again",
    )
    return "too late" if "is collected" in str(pinned) else "pin again"
