from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.server.mill import ServedProject, serve_project


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[ServedProject]:
    """The project with access control on."""
    with serve_project(tmp_path) as project:
        yield project


@pytest.fixture
def open_shop(tmp_path: Path) -> Iterator[ServedProject]:
    """The project with access control off."""
    with serve_project(tmp_path, enabled=False) as project:
        yield project
