from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.program import FakeEngine, Program


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the developer's own settings from the environment."""
    for name in ("TIDEMILL_CATALOG_URL", "TIDEMILL_STORAGE_URL", "TIDEMILL_SPARK_MASTER", "TIDEMILL_DEBUG", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def tidemill(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Program:
    return Program(tmp_path / "shop", capsys)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directory of the project that each test of the module starts with a copy of."""
    return tmp_path_factory.mktemp("template") / "shop"


@pytest.fixture
def starter(tidemill: Program, monkeypatch: pytest.MonkeyPatch) -> Program:
    """The program in the starter project, without Spark."""
    monkeypatch.setattr("tidemill.app.lazy_imports.SparkEngine", FakeEngine)
    return tidemill.create_starter_project()
