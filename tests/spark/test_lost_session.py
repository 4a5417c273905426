"""A real Java process, killed under a real engine: the next use starts another, and no run is charged for it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.xdist_group("spark, first half")
@pytest.mark.timeout(300)
def test_a_killed_java_process_is_replaced(tmp_path: Path) -> None:
    program = Path(__file__).with_name("lost_session.py")
    done = subprocess.run([sys.executable, str(program)], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["state"], found["attempt"], found["lost"]) == ("finished", 2, 1)
    assert found["problem"] == "Spark's Java process has exited"
    assert found["well"]
    assert found["shouted"] == "finished"
    assert found["rows"] == [["rice", 1], ["tea", 2]]
