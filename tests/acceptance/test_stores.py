"""The same runs on other stores: an object store with a local cache, and a root with spaces in its name."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import tidemill as tm
from tidemill.app.project import Project
from tidemill.app.settings import Settings, StorageSettings
from tidemill.app.wiring import Tidemill


@pytest.mark.parametrize("url", ["memory://bucket/blocks", "a directory, with blanks & more"])
def test_a_workflow_runs_on_another_store(spark: SparkSession, tmp_path: Path, url: str) -> None:
    wf = tm.Workflow("w")
    wf.input("words", "word string", key="word")
    wf.sql("loud", "SELECT upper(word) AS word FROM words")
    settings = Settings(storage=StorageSettings(url=url.replace("bucket", tmp_path.name)))
    file = tmp_path / "words.csv"
    file.write_text("word\na\nb\n")
    with Tidemill(tmp_path, settings, Project((wf.build_spec(),))) as mill:
        mill.apply()
        mill.insert("words", file)
        mill.insert("words", spark.createDataFrame([("c",)], "word string"))
        mill.run("loud")
        mill.compact("words")
        mill.collect(grace="0s")
        assert sorted(r["word"] for r in mill.rows("words")) == ["a", "b", "c"]
        assert sorted(r["word"] for r in mill.rows("loud")) == ["A", "B", "C"]
        assert set(mill.store.list_all_files()) == mill.catalog.files.list_referenced()
