"""All writers through Spark Connect."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cluster.conftest import SMALL, drive
from tests.cluster.driver import ROWS

pytest.importorskip("grpc", reason="Spark Connect needs pip install 'tidemill[connect]'")


def test_every_writer_works_through_spark_connect(tmp_path: Path) -> None:
    settings = {**SMALL, "spark.remote": "local[2]"}
    assert drive(tmp_path, {"settings": settings}) == {
        "insert": ROWS,
        "task": 2 * ROWS,
        "query": 7,
        "compaction": 2 * ROWS,
        "read": 2 * ROWS,
    }
