"""Executors on machines of their own, with and without the project's directory."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.cluster.conftest import SMALL, Cluster, drive
from tests.cluster.driver import ROWS


def test_executors_that_do_not_see_the_store_are_refused_before_anything_is_written(
    cluster: Cluster, tmp_path: Path
) -> None:
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode:
        pytest.skip("only a user who may mount can hide a directory from a process")
    spark = {"master": cluster.url, "settings": SMALL}
    with cluster.worker("blind", hidden=tmp_path):
        refused = drive(tmp_path, spark)
        assert "EngineError: Spark's executors do not see the block store" in refused["insert"], refused
        assert all(isinstance(said, str) for said in refused.values()), refused
        unprobed = drive(tmp_path, spark, probed=False)
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
