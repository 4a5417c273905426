"""A real Java process, killed during a run of a real engine: the next use starts another, and no attempt is charged."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_killed_java_process_is_replaced(tmp_path: Path) -> None:
    program = Path(__file__).with_name("lost_session.py")
    finished = subprocess.run([sys.executable, str(program)], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    report = json.loads(finished.stdout)
    assert (report["state"], report["attempt"], report["lost"]) == ("finished", 2, 1)
    assert report["problem"] == "Spark's Java process has exited"
    assert report["is_healthy"]
    assert report["upper_words"] == "finished"
    assert report["rows"] == [["rice", 1], ["tea", 2]]
