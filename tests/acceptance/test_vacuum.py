"""Tidying on plain rows: what is due is done, what nobody needs goes, and what anybody reads stays the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.mill import HISTORY, LATER, WORKFLOW, Mill, batch, expected, opened
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
    with opened(url, tmp_path / "blocks") as found:
        found.catalog.apply_workflow(WORKFLOW)
        yield found


def refreshed(mill: Mill, directory: Path, batches: range) -> None:
    for number in batches:
        mill.insert(batch(directory, number))
        mill.run()


def test_where_nothing_is_due_nothing_is_done(mill: Mill, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refreshed(mill, tmp_path, range(1))
    before = mill.catalog.list_events(limit=10_000)
    monkeypatch.setattr(type(mill.store), "list_all_files", lambda _: pytest.fail("the store was listed"))
    assert mill.tidy(*CHANNELS) == MaintenanceResult()
    assert mill.catalog.list_events(limit=10_000) == before


def test_a_long_life_stays_small_and_right(mill: Mill, tmp_path: Path) -> None:
    sizes = []
    for number in range(24):
        refreshed(mill, tmp_path, range(number, number + 1))
        done = mill.tidy(*CHANNELS)
        assert done.problems == ()
        assert mill.leftovers() == set()
        blocks = sum(len(mill.catalog.list_filled_blocks(c)) for c in CHANNELS)
        runs = len(mill.catalog.list_runs(limit=10_000))
        sizes.append((blocks, runs, len(mill.catalog.list_events(limit=10_000))))
    assert is_same_bag(mill.content("firsts"), expected(24))
    assert len(mill.content("events")) == 24 * 4
    firsts, lasts = zip(*sizes[:12], strict=True), zip(*sizes[12:], strict=True)
    for early, late in zip(firsts, lasts, strict=True):
        assert max(late) <= 1.5 * max(early)


def test_a_reader_that_lags_reads_what_it_would_have_read(mill: Mill, tmp_path: Path) -> None:
    refreshed(mill, tmp_path, range(1))
    for number in range(1, 9):
        mill.insert(batch(tmp_path, number))
    mill.tidy(*CHANNELS)
    folds = [
        b
        for b in mill.catalog.list_filled_blocks("events")
        if b.origin is BlockOrigin.COMPACTION and b.kind is BlockKind.DELTA
    ]
    assert folds, "the events that wait were folded"
    mill.run()
    assert is_same_bag(mill.content("firsts"), expected(9))
    mill.tidy(*CHANNELS)
    assert len(mill.catalog.list_filled_blocks("events")) < 5


def test_a_channel_that_somebody_compacts_is_left_to_it(mill: Mill, tmp_path: Path) -> None:
    refreshed(mill, tmp_path, range(2))
    run = mill.catalog.request_run(RunKind.COMPACTION, "events")
    mill.catalog.claim_run(run.id, ClaimRequest(), owner="another", lease=30)
    done = mill.tidy("events")
    assert (done.minor_compactions, done.major_compactions, done.problems) == ((), (), ())
    mill.catalog.kill_run(run.id)
    assert mill.tidy("events").minor_compactions


def test_a_compaction_that_fails_is_a_problem_and_no_more(
    mill: Mill, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refreshed(mill, tmp_path, range(2))

    def fail(*_args: object, **_kwargs: object) -> None:
        raise RunFailed("no space left")

    monkeypatch.setattr(type(mill.executor.engine), "write_view", fail)
    done = mill.tidy("events", "firsts")
    assert done.problems == ("events was not compacted: no space left", "firsts was not compacted: no space left")
    assert len(mill.catalog.list_runs(subject="events", state=RunState.FAILED)) == 1
    assert len(mill.content("events")) == 8


def test_channels_that_nothing_was_written_to(mill: Mill) -> None:
    assert mill.tidy(*CHANNELS) == MaintenanceResult((), (), CollectionResult(0, 0), RunExpiryCounts())


def test_trace_says_what_is_forgotten(mill: Mill, tmp_path: Path) -> None:
    refreshed(mill, tmp_path, range(1))
    first = mill.catalog.list_blocks("events")[0]
    assert consumed(mill, "events") == ([1], False)
    for number in range(1, 8):
        refreshed(mill, tmp_path, range(number, number + 1))
        mill.tidy(*CHANNELS)
    with pytest.raises(NotFound, match=f"block {first.id} has expired"):
        trace_block(mill.catalog, first.id)
    assert consumed(mill, "events") == ([], True)


def consumed(mill: Mill, channel: str) -> tuple[list[int], bool]:
    """What the newest block of `firsts` was made from: the blocks that are known, and whether some are not."""
    newest = next(b for b in mill.catalog.list_blocks("firsts") if b.origin is BlockOrigin.RUN)
    source = next(s for s in trace_block(mill.catalog, newest.id).sources if s.channel == channel)
    return [b.seq for b in source.blocks], source.expired


def test_keeping_the_past_readable(mill: Mill, tmp_path: Path) -> None:
    refreshed(mill, tmp_path, range(6))
    compactor = Compactor(mill.executor, {}, CompactionLimits(fan=2, floor=0, small_file=0))
    done = VacuumService(mill.executor, grace=AT_ONCE).maintain_channels(
        CHANNELS, compactor, history=HISTORY, keep_since=0
    )
    assert done.minor_compactions
    assert done.collected.blocks == 0
    assert mill.catalog.read_position("events", seq=3).seq == 3


def test_gc_can_keep_what_is_left_of_the_past(mill: Mill, tmp_path: Path) -> None:
    """The point that is to stay readable may have been collected, and forgotten, before."""
    for number in range(6):
        refreshed(mill, tmp_path, range(number, number + 1))
        mill.tidy(*CHANNELS)
    before = len(mill.catalog.list_filled_blocks("events"))
    VacuumService(mill.executor, grace=AT_ONCE).collect_garbage(keep_since=1)
    assert len(mill.catalog.list_filled_blocks("events")) == before


def test_what_a_dead_process_left_is_removed_later(mill: Mill, tmp_path: Path) -> None:
    refreshed(mill, tmp_path, range(2))
    run = mill.catalog.request_run(RunKind.COMPACTION, "events")
    claim = mill.catalog.claim_run(run.id, ClaimRequest(), owner="dead", lease=30)
    (Path(mill.store.stage_directory(f"{claim.directory}/0")) / "left.parquet").write_bytes(b"half")
    mill.tidy(*CHANNELS)
    assert mill.leftovers() == {f"{claim.directory}/0/left.parquet"}
    with opened(f"sqlite:///{tmp_path / 'catalog.db'}", tmp_path / "blocks", later=LATER) as later:
        assert VacuumService(later.executor).collect_garbage().reclaimed == 1
        assert f"{claim.directory}/0/left.parquet" in later.leftovers(), "it was marked just now"
        later.collect()
        assert later.leftovers() == set()
        assert not (tmp_path / "blocks" / "runs" / str(run.id)).exists()


def test_a_scan_leaves_attempts_that_are_under_way_alone(mill: Mill, tmp_path: Path) -> None:
    refreshed(mill, tmp_path, range(1))
    run = mill.catalog.request_run(RunKind.COMPACTION, "events")
    claim = mill.catalog.claim_run(run.id, ClaimRequest(), owner="busy", lease=30)
    half = Path(mill.store.stage_directory(f"{claim.directory}/0")) / "half.parquet"
    half.write_bytes(b"half")
    found = VacuumService(mill.executor, grace=AT_ONCE)
    assert found.scan_store() == ScanResult(attempts=3, marked=0, unknown=0)
    assert found.collect_garbage().files == 0
    assert half.exists()
    mill.catalog.kill_run(run.id)
    assert found.scan_store().marked == 0, "its directory is marked already"
    assert found.collect_garbage().files == 1
    assert not half.exists()


def test_the_store_is_not_listed_unless_somebody_asks(
    mill: Mill, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("list_all_files", "list_runs", "list_attempts"):
        monkeypatch.setattr(type(mill.store), name, lambda *_: pytest.fail("the store was listed"))
    mill.store.write_marker(StoreMarker(mill.catalog.read_identity().id, 0, 0.0))
    refreshed(mill, tmp_path, range(4))
    mill.tidy(*CHANNELS)
    mill.collect()
    MaintenanceService(mill.executor, dict, MaintenanceRules(grace=AT_ONCE)).run_maintenance()
