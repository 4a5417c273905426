from __future__ import annotations

from pathlib import Path

import pytest
from tests.intake.file_loader import FileLoader


@pytest.fixture
def loader(tmp_path: Path) -> FileLoader:
    return FileLoader(tmp_path)
