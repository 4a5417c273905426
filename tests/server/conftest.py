from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.server.mill import Served, served


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Served]:
    """The project with access control on."""
    with served(tmp_path) as found:
        yield found


@pytest.fixture
def open_shop(tmp_path: Path) -> Iterator[Served]:
    """The project with access control off."""
    with served(tmp_path, enabled=False) as found:
        yield found
