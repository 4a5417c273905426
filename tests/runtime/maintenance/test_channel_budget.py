"""A budget over the blocks of channels: older contents are collected, needed ones are not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.runtime.mill import Mill

import tidemill as tm
from tidemill.intake.loader import load_file
from tidemill.model.block import BlockKind
from tidemill.model.store import GracePeriods
from tidemill.runtime.maintenance.compaction import Compactor
from tidemill.runtime.maintenance.pins import pin_block
from tidemill.runtime.maintenance.service import MaintenanceRules, MaintenanceService
from tidemill.runtime.maintenance.vacuum import BlockBudget, MaintenanceResult
from tidemill.runtime.runs.insert import Inserter
from tidemill.runtime.runs.requests import request_flow_run

CONTENTS = 16


@pytest.fixture
def mill(tmp_path: Path) -> Iterator[Mill]:
    """A channel, and a task that reads its changes."""
    wf = tm.Workflow("shop")
    wf.input("orders", "id bigint, city string")
    wf.table("copies", "id bigint")

    @wf.task(writes={"copies": tm.Delta})
    def copies(orders: tm.New) -> dict[str, tm.Delta]:
        return {"copies": [{"id": row["id"]} for row in orders]}

    mill = Mill(wf.build_spec(), tmp_path)
    yield mill
    mill.close()


def insert_contents(mill: Mill, count: int = CONTENTS) -> None:
    path = mill.directory / "orders.csv"
    for number in range(count):
        path.write_text(f"id,city\n{number},Ghent\n")
        Inserter(mill.executor, load_file).insert_file("orders", path, kind=BlockKind.BASE)


def run_maintenance(mill: Mill, limit: int) -> MaintenanceResult:
    grace = GracePeriods(0.0, 0.0)
    rules = MaintenanceRules(points=CONTENTS, retention=86400.0, grace=grace, budgets=(BlockBudget(limit),))
    compactor = Compactor(mill.executor, {}, rules.limits)
    return MaintenanceService(mill.executor, lambda: compactor, rules).maintain_channels()


def list_seqs(mill: Mill) -> list[int]:
    return [b.seq for b in mill.catalog.blocks.list_filled("orders") if b.seq]


def measure_block(mill: Mill) -> int:
    return mill.catalog.files.count_block_bytes() // len(list_seqs(mill))


def test_within_the_budget_every_content_stays_readable(mill: Mill) -> None:
    insert_contents(mill)
    result = run_maintenance(mill, mill.catalog.files.count_block_bytes())
    assert (result.collected.blocks, result.problems, len(list_seqs(mill))) == (0, (), CONTENTS)


def test_older_contents_are_collected_until_the_blocks_fit(mill: Mill) -> None:
    insert_contents(mill)
    result = run_maintenance(mill, 5 * measure_block(mill))
    assert list_seqs(mill) == [13, 14, 15, 16]  # 16, 8, 4 contents
    assert (result.collected.blocks, result.problems) == (12, ())
    assert mill.content("orders") == [{"id": 15, "city": "Ghent"}]


def test_the_current_content_and_needed_blocks_are_retained(mill: Mill) -> None:
    insert_contents(mill, 2)
    mill.attempt(request_flow_run(mill.catalog, "copies"))
    insert_contents(mill, 4)
    pinned = next(b for b in mill.catalog.blocks.list_filled("orders") if b.seq == 4)
    pin_block(mill.catalog, pinned.id)
    result = run_maintenance(mill, 1)
    assert list_seqs(mill) == [2, 4, 6]  # for the cursor, for the pin, and the current one
    (problem,) = result.problems
    assert problem.startswith("blocks of channels use ")
    assert "all of them are needed; raise channel_budget" in problem
