from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from fsspec.implementations.memory import MemoryFileSystem
from tests.storage.stores import open_file_store

from tidemill.storage.store import FileBlockStore


@pytest.fixture
def memory_url() -> Iterator[str]:
    """A separate root in the memory file system, which the whole process shares."""
    name = f"store-{uuid4().hex}"
    yield f"memory://{name}"
    fs = MemoryFileSystem()
    if fs.exists(f"/{name}"):
        fs.rm(f"/{name}", recursive=True)


@pytest.fixture
def local_store(tmp_path: Path) -> FileBlockStore:
    return open_file_store(str(tmp_path / "my blocks 100%"))


@pytest.fixture
def staged_store(memory_url: str, tmp_path: Path) -> FileBlockStore:
    return open_file_store(memory_url, cache=tmp_path / "cache")


@pytest.fixture(params=["local", "staged in memory", "staged on disk"])
def store(request: pytest.FixtureRequest, tmp_path: Path, memory_url: str) -> FileBlockStore:
    """Every store in which a program can write files with local paths."""
    if request.param == "local":
        return open_file_store(str(tmp_path / "my blocks 100%"))
    url = memory_url if request.param == "staged in memory" else str(tmp_path / "mount")
    return open_file_store(url, cache=tmp_path / "cache", staged=True)
