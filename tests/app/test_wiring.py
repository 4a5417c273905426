"""The Python API of a project, without Spark."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from tests.server.mill import serve_project

from tidemill.app.wiring import Tidemill
from tidemill.errors import BadInput
from tidemill.model.block import BlockKind
from tidemill.model.run import RunKind, RunState
from tidemill.retention.compaction import CompactionLimits
from tidemill.runtime.runs.requests import request_flow_run

ROWS = [{"id": 1, "word": "one"}, {"id": 2, "word": "two"}]


@pytest.fixture
def mill(tmp_path: Path) -> Iterator[Tidemill]:
    with serve_project(tmp_path) as shop:
        yield shop.mill


@pytest.mark.parametrize(
    "data", [ROWS, pd.DataFrame(ROWS), pa.Table.from_pylist(ROWS)], ids=["rows", "pandas", "Arrow"]
)
def test_tables_are_inserted(mill: Tidemill, data: Any) -> None:
    assert mill.insert("orders", data).block.rows == 2
    assert mill.rows("orders") == ROWS
    assert mill.insert("orders", data[:1], kind="base", key="all").block.kind is BlockKind.BASE
    assert mill.insert("orders", data[:1], kind=BlockKind.BASE, key="all").repeated
    assert mill.rows("orders") == ROWS[:1]


def test_an_invalid_kind_is_rejected(mill: Tidemill) -> None:
    with pytest.raises(BadInput, match="a block is a 'base' \\(the full content\\) or a 'delta'"):
        mill.insert("orders", ROWS, kind="bass")


class SlowStart:
    """Delays a compaction, as an engine that is still starting, until the test continues it."""

    def __init__(self, write_view: Callable[..., Any]) -> None:
        self.started, self.proceed = threading.Event(), threading.Event()
        self._write_view = write_view

    def __call__(self, *args: Any, **options: Any) -> Any:
        self.started.set()
        assert self.proceed.wait(10), "a caller waits for a compaction"
        return self._write_view(*args, **options)


def count_compactions(mill: Tidemill) -> int:
    return sum(r.kind is RunKind.COMPACTION for r in mill.catalog.runs.list(state=RunState.FINISHED))


@pytest.mark.parametrize("by_server", [False, True])
def test_no_run_waits_for_maintenance(mill: Tidemill, monkeypatch: pytest.MonkeyPatch, by_server: bool) -> None:
    rules = replace(mill.maintenance.rules, limits=CompactionLimits(fan=2, floor=4, small_file=720))
    mill.maintenance = replace(mill.maintenance, rules=rules)
    slow_start = SlowStart(mill.engine.write_view)
    monkeypatch.setattr(mill.engine, "write_view", slow_start)
    for number in range(8):
        mill.insert("orders", [{"id": number, "word": f"word {number}"}])
        if by_server:
            mill.flows.execute(request_flow_run(mill.catalog, "words"))
        else:
            mill.run("words")
    assert slow_start.started.wait(10)
    assert count_compactions(mill) == 0
    assert len(mill.rows("words")) == 8
    slow_start.proceed.set()
    mill.maintenance.finish()
    assert count_compactions(mill) > 0
    assert len(mill.rows("words")) == 8
