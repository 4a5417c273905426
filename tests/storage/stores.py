"""Opens stores for the tests of this directory."""

from __future__ import annotations

from tidemill.storage import open_store
from tidemill.storage.store import FileBlockStore


def open_file_store(url: str, **settings: object) -> FileBlockStore:
    store = open_store(url, **settings)  # type: ignore[arg-type]
    assert isinstance(store, FileBlockStore)
    return store
