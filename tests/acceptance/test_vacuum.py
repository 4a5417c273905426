"""Maintenance on plain rows: due work is done, unreferenced files are removed, and readers see the same content."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.mill import HISTORY, LATER, WORKFLOW, Mill, batch, compute_expected_firsts, open_plain_mill
from tests.catalog.driver import AT_ONCE

from tidemill.algebra.reference import is_same_bag
from tidemill.errors import NotFound, RunFailed
from tidemill.model.block import BlockKind, BlockOrigin
from tidemill.model.run import ClaimRequest, RunKind, RunState
from tidemill.model.store import StoreMarker
from tidemill.ports.records import RunExpiryCounts
from tidemill.retention.compaction import CompactionLimits
from tidemill.runtime.inspect.block_trace import trace_block
from tidemill.runtime.maintenance.compaction import Compactor
from tidemill.runtime.maintenance.service import MaintenanceRules, MaintenanceService
from tidemill.runtime.maintenance.vacuum import CollectionResult, MaintenanceResult, ScanResult, VacuumService

CHANNELS = ("events", "firsts", "words")


@pytest.fixture
def mill(sqlite_template: Path, tmp_path: Path) -> Iterator[Mill]:
    url = f"sqlite:///{tmp_path / 'catalog.db'}"
    (tmp_path / "catalog.db").write_bytes(sqlite_template.read_bytes())
    with open_plain_mill(url, tmp_path / "blocks") as mill:
        mill.catalog.workflows.apply(WORKFLOW)
        yield mill


def insert_and_run(mill: Mill, directory: Path, batches: range) -> None:
    for number in batches:
        mill.insert(batch(directory, number))
        mill.run()


def test_nothing_is_done_if_nothing_is_due(mill: Mill, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    insert_and_run(mill, tmp_path, range(1))
    before = mill.catalog.events.list(limit=10_000)
    monkeypatch.setattr(type(mill.store), "list_all_files", lambda _: pytest.fail("the store was listed"))
    assert mill.run_maintenance(*CHANNELS) == MaintenanceResult()
    assert mill.catalog.events.list(limit=10_000) == before


@pytest.mark.long
def test_a_maintained_catalog_stays_small_and_right(mill: Mill, tmp_path: Path) -> None:
    sizes = []
    for number in range(24):
        insert_and_run(mill, tmp_path, range(number, number + 1))
        result = mill.run_maintenance(*CHANNELS)
        assert result.problems == ()
        assert mill.leftovers() == set()
        blocks = sum(len(mill.catalog.blocks.list_filled(c)) for c in CHANNELS)
        runs = len(mill.catalog.runs.list(limit=10_000))
        sizes.append((blocks, runs, len(mill.catalog.events.list(limit=10_000))))
    assert is_same_bag(mill.content("firsts"), compute_expected_firsts(24))
    assert len(mill.content("events")) == 24 * 4
    firsts, lasts = zip(*sizes[:12], strict=True), zip(*sizes[12:], strict=True)
    for early, late in zip(firsts, lasts, strict=True):
        assert max(late) <= 1.5 * max(early)


def test_a_lagging_reader_reads_the_same_rows_after_compaction(mill: Mill, tmp_path: Path) -> None:
    insert_and_run(mill, tmp_path, range(1))
    for number in range(1, 9):
        mill.insert(batch(tmp_path, number))
    mill.run_maintenance(*CHANNELS)
    compacted = [
        b
        for b in mill.catalog.blocks.list_filled("events")
        if b.origin is BlockOrigin.COMPACTION and b.kind is BlockKind.DELTA
    ]
    assert compacted, "the pending events were compacted"
    mill.run()
    assert is_same_bag(mill.content("firsts"), compute_expected_firsts(9))
    mill.run_maintenance(*CHANNELS)
    assert len(mill.catalog.blocks.list_filled("events")) < 5


def test_a_channel_that_another_process_compacts_is_skipped(mill: Mill, tmp_path: Path) -> None:
    insert_and_run(mill, tmp_path, range(2))
    run = mill.catalog.runs.request(RunKind.COMPACTION, "events")
    mill.catalog.runs.claim(run.id, ClaimRequest(), owner="another", lease=30)
    result = mill.run_maintenance("events")
    assert (result.minor_compactions, result.major_compactions, result.problems) == ((), (), ())
    mill.catalog.runs.kill(run.id)
    assert mill.run_maintenance("events").minor_compactions


def test_a_failed_compaction_is_reported_as_a_problem(
    mill: Mill, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    insert_and_run(mill, tmp_path, range(2))

    def fail(*_args: object, **_kwargs: object) -> None:
        raise RunFailed("no space left")

    monkeypatch.setattr(type(mill.executor.engine), "write_view", fail)
    result = mill.run_maintenance("events", "firsts")
    assert result.problems == ("events was not compacted: no space left", "firsts was not compacted: no space left")
    assert len(mill.catalog.runs.list(subject="events", state=RunState.FAILED)) == 1
    assert len(mill.content("events")) == 8


def test_empty_channels_need_no_maintenance(mill: Mill) -> None:
    assert mill.run_maintenance(*CHANNELS) == MaintenanceResult((), (), CollectionResult(0, 0), RunExpiryCounts())


def test_trace_reports_expired_blocks(mill: Mill, tmp_path: Path) -> None:
    insert_and_run(mill, tmp_path, range(1))
    first = mill.catalog.blocks.list("events")[0]
    assert list_consumed_blocks(mill, "events") == ([1], False)
    for number in range(1, 8):
        insert_and_run(mill, tmp_path, range(number, number + 1))
        mill.run_maintenance(*CHANNELS)
    with pytest.raises(NotFound, match=f"block {first.id} has expired"):
        trace_block(mill.catalog, first.id)
    assert list_consumed_blocks(mill, "events") == ([], True)


def list_consumed_blocks(mill: Mill, channel: str) -> tuple[list[int], bool]:
    """The known blocks that the newest block of `firsts` was computed from, and whether others have expired."""
    newest = next(b for b in mill.catalog.blocks.list("firsts") if b.origin is BlockOrigin.RUN)
    source = next(s for s in trace_block(mill.catalog, newest.id).sources if s.channel == channel)
    return [b.seq for b in source.blocks], source.expired


def test_retained_history_stays_readable(mill: Mill, tmp_path: Path) -> None:
    insert_and_run(mill, tmp_path, range(6))
    compactor = Compactor(mill.executor, {}, CompactionLimits(fan=2, floor=0, small_file=0))
    result = VacuumService(mill.executor, grace=AT_ONCE).maintain_channels(
        CHANNELS, compactor, history=HISTORY, retain_since=0
    )
    assert result.minor_compactions
    assert result.collected.blocks == 0
    assert mill.catalog.channels.read_position("events", seq=3).seq == 3


def test_garbage_collection_retains_the_remaining_history(mill: Mill, tmp_path: Path) -> None:
    """The first version to retain may have been collected and expired already."""
    for number in range(6):
        insert_and_run(mill, tmp_path, range(number, number + 1))
        mill.run_maintenance(*CHANNELS)
    before = len(mill.catalog.blocks.list_filled("events"))
    VacuumService(mill.executor, grace=AT_ONCE).collect_garbage(retain_since=1)
    assert len(mill.catalog.blocks.list_filled("events")) == before


def test_files_of_a_dead_process_are_removed_later(mill: Mill, tmp_path: Path) -> None:
    insert_and_run(mill, tmp_path, range(2))
    run = mill.catalog.runs.request(RunKind.COMPACTION, "events")
    claim = mill.catalog.runs.claim(run.id, ClaimRequest(), owner="dead", lease=30)
    (Path(mill.store.stage_directory(f"{claim.directory}/0")) / "left.parquet").write_bytes(b"half")
    mill.run_maintenance(*CHANNELS)
    assert mill.leftovers() == {f"{claim.directory}/0/left.parquet"}
    with open_plain_mill(f"sqlite:///{tmp_path / 'catalog.db'}", tmp_path / "blocks", later=LATER) as later_mill:
        assert VacuumService(later_mill.executor).collect_garbage().reclaimed == 1
        assert f"{claim.directory}/0/left.parquet" in later_mill.leftovers(), "it was marked just now"
        later_mill.collect()
        assert later_mill.leftovers() == set()
        assert not (tmp_path / "blocks" / "runs" / str(run.id)).exists()


def test_a_scan_ignores_attempts_in_progress(mill: Mill, tmp_path: Path) -> None:
    insert_and_run(mill, tmp_path, range(1))
    run = mill.catalog.runs.request(RunKind.COMPACTION, "events")
    claim = mill.catalog.runs.claim(run.id, ClaimRequest(), owner="busy", lease=30)
    half = Path(mill.store.stage_directory(f"{claim.directory}/0")) / "half.parquet"
    half.write_bytes(b"half")
    vacuum = VacuumService(mill.executor, grace=AT_ONCE)
    assert vacuum.scan_store() == ScanResult(attempts=3, marked=0, unknown=0)
    assert vacuum.collect_garbage().files == 0
    assert half.exists()
    mill.catalog.runs.kill(run.id)
    assert vacuum.scan_store().marked == 0, "its directory is marked already"
    assert vacuum.collect_garbage().files == 1
    assert not half.exists()


def test_the_store_is_listed_only_on_request(mill: Mill, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("list_all_files", "list_runs", "list_attempts"):
        monkeypatch.setattr(type(mill.store), name, lambda *_: pytest.fail("the store was listed"))
    mill.store.write_marker(StoreMarker(mill.catalog.read_identity().id, 0, 0.0))
    insert_and_run(mill, tmp_path, range(4))
    mill.run_maintenance(*CHANNELS)
    mill.collect()
    MaintenanceService(
        mill.executor, lambda: Compactor(mill.executor, {}), MaintenanceRules(grace=AT_ONCE)
    ).run_maintenance()
