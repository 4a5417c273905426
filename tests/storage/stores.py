"""Opening stores for the tests of this folder."""

from __future__ import annotations

from tidemill.storage import FileBlockStore, open_store


def opened(url: str, **settings: object) -> FileBlockStore:
    made = open_store(url, **settings)  # type: ignore[arg-type]
    assert isinstance(made, FileBlockStore)
    return made
