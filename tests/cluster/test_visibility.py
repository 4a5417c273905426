"""Executors on separate machines, with and without access to the project's directory."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.cluster.conftest import SMALL, Cluster, drive
from tests.cluster.driver import ROWS


def test_executors_without_access_to_the_store_are_rejected_before_any_write(cluster: Cluster, tmp_path: Path) -> None:
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode:
        pytest.skip("only a user who may mount can hide a directory from a process")
    spark = {"master": cluster.url, "settings": SMALL}
    with cluster.worker("blind", hidden=tmp_path):
        rejected = drive(tmp_path, spark)
        assert "EngineError: Spark's executors do not see the block store" in rejected["insert"], rejected
        assert all(isinstance(result, str) for result in rejected.values()), rejected
        unprobed = drive(tmp_path, spark, is_probed=False)
        assert f"{ROWS} rows were written to" in str(unprobed["insert"]), unprobed
        assert "but 0 rows in 0 files are found there" in unprobed["insert"]
    assert not list((tmp_path / ".tidemill" / "blocks").rglob("*.parquet"))
    with cluster.worker("sighted"):
        assert drive(tmp_path, spark) == {
            "insert": ROWS,
            "task": 2 * ROWS,
            "query": 7,
            "compaction": 2 * ROWS,
            "read": 2 * ROWS,
        }
