"""Local copies of a remote store's files are deleted when the files are no longer in use, and not before."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest
from fsspec.implementations.memory import MemoryFileSystem
from tests.acceptance.mill import WORKFLOW, Mill, batch
from tests.acceptance.plain import PlainEngine
from tests.catalog.driver import AT_ONCE

from tidemill.catalog import open_catalog
from tidemill.model.run import ClaimRequest, RunKind
from tidemill.runtime.maintenance.compaction import Compactor
from tidemill.runtime.maintenance.service import MaintenanceRules, MaintenanceService
from tidemill.runtime.runs.execution import Executor
from tidemill.storage import open_store


@pytest.fixture
def bucket() -> Iterator[str]:
    name = f"store-{uuid4().hex}"
    yield f"memory://{name}"
    MemoryFileSystem().rm(f"/{name}", recursive=True)


@contextmanager
def open_machine(directory: Path, bucket: str, name: str) -> Iterator[Mill]:
    catalog = open_catalog(f"sqlite:///{directory / 'catalog.db'}")
    store = open_store(bucket, cache=directory / name)
    try:
        yield Mill(catalog, store, Executor(catalog, store, PlainEngine(store.locate_file), name))
    finally:
        catalog.close()


def run_maintenance(mill: Mill) -> None:
    MaintenanceService(
        mill.executor, lambda: Compactor(mill.executor, {}), MaintenanceRules(grace=AT_ONCE)
    ).run_maintenance()


def test_copies_of_files_that_another_machine_removed_are_deleted(
    sqlite_template: Path, tmp_path: Path, bucket: str
) -> None:
    shutil.copy(sqlite_template, tmp_path)
    with open_machine(tmp_path, bucket, "one") as one, open_machine(tmp_path, bucket, "two") as two:
        one.catalog.workflows.apply(WORKFLOW)
        for number in range(2):
            one.insert(batch(tmp_path, number))
        one.run()
        assert len(two.content("events")) == 8  # this creates the copies
        one.compact("events")
        assert len(two.content("events")) == 8
        before = set(two.store.list_copies())
        run = two.catalog.runs.request(RunKind.COMPACTION, "events")
        claim = two.catalog.runs.claim(run.id, ClaimRequest(), owner="two", lease=30)
        half = Path(two.store.stage_directory(f"{claim.directory}/0")) / "half.parquet"
        half.write_bytes(b"half")
        run_maintenance(two)
        assert set(two.store.list_copies()) > before, "an active run may read them"
        assert half.exists()
        two.catalog.runs.kill(run.id)
        one.collect()
        run_maintenance(two)
        assert not half.exists()
        for mill in (one, two):
            assert (
                set(mill.store.list_copies())
                <= mill.catalog.files.list_referenced()
                == set(mill.store.list_all_files())
            )
        assert len(two.content("events")) == 8
