"""Inserting small files in the tests of this folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tidemill.errors import BadInput
from tidemill.intake import FileLoadResult, load_file
from tidemill.model.change import Append, Updates
from tidemill.model.schema import Schema

APPEND = Append()


class Desk:
    """Loads files with given content, and shows what came out."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.out = folder / "out"
        self.out.mkdir()

    def file(self, name: str, content: bytes | str) -> Path:
        path = self.folder / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def load(self, path: Path, ddl: str, updates: Updates = APPEND, format: str | None = None) -> FileLoadResult:
        return load_file(path, format=format, schema=Schema.from_ddl(ddl), updates=updates, directory=self.out)

    def rows(self, name: str, content: bytes | str, ddl: str, updates: Updates = APPEND) -> list[dict[str, Any]]:
        """What is stored of the content; checks that the reported number of rows is the stored one."""
        loaded = self.load(self.file(name, content), ddl, updates)
        stored = self.stored()
        assert loaded.rows == len(stored)
        return stored

    def stored(self) -> list[dict[str, Any]]:
        return [row for path in sorted(self.out.iterdir()) for row in pq.read_table(path).to_pylist()]

    def refusal(self, path: Path, ddl: str, updates: Updates = APPEND, format: str | None = None) -> str:
        """Why the file is refused; checks that it is named and that nothing was left behind."""
        with pytest.raises(BadInput) as caught:
            self.load(path, ddl, updates, format)
        assert str(path) in str(caught.value)
        assert list(self.out.iterdir()) == []
        return str(caught.value)

    def complaint(self, name: str, content: bytes | str, ddl: str, updates: Updates = APPEND) -> str:
        return self.refusal(self.file(name, content), ddl, updates)
