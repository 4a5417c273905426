"""Only the owner of a SQLite catalog can read it: it contains users' data, and the digests of their tokens."""

from __future__ import annotations

import os
from pathlib import Path

from tidemill.catalog import open_catalog


def test_a_new_catalog_is_readable_by_its_owner_alone(tmp_path: Path) -> None:
    old_mask = os.umask(0)
    try:
        catalog = open_catalog(f"sqlite:///{tmp_path}/catalog.db")
        catalog.workflows.list()
        modes = {path.name: oct(path.stat().st_mode & 0o777) for path in tmp_path.glob("catalog.db*")}
        catalog.close()
    finally:
        os.umask(old_mask)
    assert modes == dict.fromkeys(["catalog.db", "catalog.db-wal", "catalog.db-shm"], "0o600")
