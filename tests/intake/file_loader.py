"""Loads small files in the tests of this directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tidemill.errors import BadInput
from tidemill.intake.loader import load_file
from tidemill.model.change import Append, Updates
from tidemill.model.schema import Schema
from tidemill.ports.storage import LoadRequest, LoadResult

APPEND = Append()


class FileLoader:
    """Loads files with given content, and returns the stored rows or the error."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.out = folder / "out"
        self.out.mkdir()

    def file(self, name: str, content: bytes | str) -> Path:
        path = self.folder / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def load(self, path: Path, ddl: str, updates: Updates = APPEND, format: str | None = None) -> LoadResult:
        return load_file(path, LoadRequest(Schema.from_ddl(ddl), updates, self.out, format=format))

    def rows(self, name: str, content: bytes | str, ddl: str, updates: Updates = APPEND) -> list[dict[str, Any]]:
        """Load a file and return its stored rows; checks the reported number of rows."""
        loaded = self.load(self.file(name, content), ddl, updates)
        stored = self.read_stored()
        assert loaded.rows == len(stored)
        return stored

    def read_stored(self) -> list[dict[str, Any]]:
        return [row for path in sorted(self.out.iterdir()) for row in pq.read_table(path).to_pylist()]

    def expect_rejection(self, path: Path, ddl: str, updates: Updates = APPEND, format: str | None = None) -> str:
        """The error message for a file; checks that it names the file and that no output remains."""
        with pytest.raises(BadInput) as error:
            self.load(path, ddl, updates, format)
        assert str(path) in str(error.value)
        assert list(self.out.iterdir()) == []
        return str(error.value)

    def expect_error(self, name: str, content: bytes | str, ddl: str, updates: Updates = APPEND) -> str:
        return self.expect_rejection(self.file(name, content), ddl, updates)
