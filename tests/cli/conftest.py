from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.program import FakeEngine, Program


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands in the developer's environment shall not decide."""
    for name in ("TIDEMILL_CATALOG_URL", "TIDEMILL_STORAGE_URL", "TIDEMILL_SPARK_MASTER", "TIDEMILL_DEBUG", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def tidemill(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Program:
    return Program(tmp_path / "shop", capsys)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a module's tests keep the project that they begin with."""
    return tmp_path_factory.mktemp("made") / "shop"


@pytest.fixture
def started(tidemill: Program, monkeypatch: pytest.MonkeyPatch) -> Program:
    """The program in the starter project, without Spark."""
    monkeypatch.setattr("tidemill.app.wiring.SparkEngine", FakeEngine)
    return tidemill.started()
