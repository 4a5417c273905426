"""The project as Python programs use it, without Spark."""

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


def test_a_kind_that_is_none_is_refused(mill: Tidemill) -> None:
    with pytest.raises(BadInput, match="a block is a 'base' \\(the full content\\) or a 'delta'"):
        mill.insert("orders", ROWS, kind="bass")


class Starting:
    """An engine that has to start before it can compact, which takes until it is let go."""

    def __init__(self, write_view: Callable[..., Any]) -> None:
        self.begun, self.go = threading.Event(), threading.Event()
        self._write_view = write_view

    def __call__(self, *args: Any, **named: Any) -> Any:
        self.begun.set()
        assert self.go.wait(10), "somebody waits for a compaction"
        return self._write_view(*args, **named)


def compactions(mill: Tidemill) -> int:
    return sum(r.kind is RunKind.COMPACTION for r in mill.catalog.list_runs(state=RunState.FINISHED))


@pytest.mark.parametrize("by_server", [False, True])
def test_no_run_waits_for_upkeep(mill: Tidemill, monkeypatch: pytest.MonkeyPatch, by_server: bool) -> None:
    eager = replace(mill.maintenance.rules, limits=CompactionLimits(fan=2, floor=4, small_file=720))
    mill.maintenance = replace(mill.maintenance, rules=eager)
    starting = Starting(mill.engine.write_view)
    monkeypatch.setattr(mill.engine, "write_view", starting)
    for number in range(8):
        mill.insert("orders", [{"id": number, "word": f"word {number}"}])
        if by_server:
            mill.execute(request_flow_run(mill.catalog, "words"))
        else:
            mill.run("words")
    assert starting.begun.wait(10)
    assert compactions(mill) == 0
    assert len(mill.rows("words")) == 8
    starting.go.set()
    mill.maintenance.finish()
    assert compactions(mill) > 0
    assert len(mill.rows("words")) == 8
