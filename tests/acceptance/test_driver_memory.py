"""The memory of the driver in a refresh is bounded by its budget."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.acceptance.driver_memory import CHANGE_ROWS, CITIES

ROWS = 10_000_000
BUDGET = 64 << 20
MARGIN = 64 << 20
"""For Python's own objects, the footers of Parquet files, and Arrow's and DuckDB's allocators, outside the budget."""


@pytest.mark.timeout(1200)
@pytest.mark.skipif("TIDEMILL_MEMORY" not in os.environ, reason="takes minutes: make test-memory")
def test_a_join_with_ten_million_rows_stays_within_the_budget(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.acceptance.driver_memory", str(ROWS), f"{BUDGET} B", str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr[-2000:]
    figures = json.loads(result.stdout.splitlines()[-1])
    print(f"the driver grew by {figures['growth'] / 2**20:.0f} MB; steps: {figures['steps']}")
    assert figures["cities"] == {CITIES[-1]: 10 * CHANGE_ROWS}
    assert any(place == "driver" for place, *_ in figures["steps"])
    assert figures["growth"] <= BUDGET + MARGIN
