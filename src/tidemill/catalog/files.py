"""Files: those that blocks and datasets refer to, and those to remove from the store.

Files are removed in two steps: they are marked here, and removed after a grace period.

One table holds all pending removals: the files of garbage-collected blocks, the directories of attempts that ended
without a result, and orphaned files that a scan of the store found. Nothing else is ever removed. A run does not expire
before all its removals are done, so that the events of both steps refer to it and expire with it.
"""

from collections import Counter
from collections.abc import Collection, Mapping

from sqlalchemy import Connection, and_, delete, exists, func, insert, or_, select

from tidemill.catalog.database import CatalogPart, in_snapshot, in_transaction
from tidemill.catalog.events import EventKind
from tidemill.catalog.queries import read_run, split_batches
from tidemill.catalog.rows import AnyRow, to_run
from tidemill.catalog.tables import blocks, channels, datasets, files, removals, runs
from tidemill.catalog.transaction import Transaction
from tidemill.model.block import BlockState
from tidemill.model.run import EXECUTING_STATES, Run
from tidemill.model.store import GracePeriods, Removal, RemovalKind

HAS_PENDING_REMOVALS = exists().where(removals.c.run_id == runs.c.id)
"""The run has pending removals."""


class SqlFileCatalog(CatalogPart):
    """A `FileCatalog` over SQL."""

    @in_snapshot
    def count_block_bytes(self, connection: Connection) -> int:
        stored = select(files.c.path, files.c.bytes).join_from(files, blocks).where(blocks.c.state == BlockState.FILLED)
        query = select(func.sum(stored.distinct().subquery().c.bytes))
        return int(connection.execute(query).scalar() or 0)

    @in_snapshot
    def count_workflow_bytes(self, connection: Connection) -> dict[str, int]:
        stored = (
            select(channels.c.workflow, files.c.path, files.c.bytes)
            .select_from(files.join(blocks).join(channels))
            .where(blocks.c.state == BlockState.FILLED)
            .distinct()
            .subquery()
        )
        query = select(stored.c.workflow, func.sum(stored.c.bytes)).group_by(stored.c.workflow)
        return {workflow: int(used) for workflow, used in connection.execute(query)}

    @in_snapshot
    def list_referenced(self, connection: Connection) -> set[str]:
        return _list_dataset_files(connection).union(connection.execute(select(files.c.path)).scalars())

    @in_snapshot
    def list_newest(self, connection: Connection, limit: int) -> list[str]:
        of_blocks = select(files.c.path).join_from(files, blocks).order_by(blocks.c.id.desc(), files.c.ordinal)
        of_datasets = select(datasets.c.files).where(datasets.c.bytes > 0).order_by(datasets.c.computed_at.desc())
        file_lists = connection.execute(of_datasets.limit(limit)).scalars()
        newest = [path for file_list in file_lists for path, _, _ in file_list]
        return [*connection.execute(of_blocks.limit(limit)).scalars(), *newest[:limit]]

    @in_snapshot
    def find_referenced(self, connection: Connection, paths: Collection[str]) -> set[str]:
        queries = (select(files.c.path).where(files.c.path.in_(part)) for part in split_batches(paths))
        referenced = {path for query in queries for path in connection.execute(query).scalars()}
        return referenced | (_list_dataset_files(connection) & set(paths)) if paths else referenced

    @in_snapshot
    def list_active_directories(self, connection: Connection) -> set[str]:
        running = select(runs.c.directory).where(runs.c.state.in_(EXECUTING_STATES))
        return set(connection.execute(running).scalars())

    @in_snapshot
    def find_attempts(self, connection: Connection, directories: Collection[str]) -> dict[str, Run]:
        """Runs by directory. Only the newest attempt of a run is recorded; earlier ones were marked when they ended."""
        queries = (select(runs).where(runs.c.directory.in_(part)) for part in split_batches(directories))
        return {row.directory: to_run(row) for query in queries for row in connection.execute(query)}

    @in_snapshot
    def list_marked(self, connection: Connection) -> set[str]:
        return set(connection.execute(select(removals.c.path)).scalars())

    @in_snapshot
    def list_due_removals(self, connection: Connection, grace: GracePeriods, limit: int) -> list[Removal]:
        now = self.database.read_time_with(connection)
        is_block_file = removals.c.kind == RemovalKind.FILE
        due = or_(
            and_(is_block_file, removals.c.marked <= now - grace.blocks),
            and_(~is_block_file, removals.c.marked <= now - grace.orphans),
        )
        query = select(removals).where(due).order_by(removals.c.marked, removals.c.path).limit(limit)
        return [Removal(row.path, row.kind) for row in connection.execute(query)]

    @in_transaction
    def mark_orphans(self, tx: Transaction, run: int, paths: Collection[str]) -> int:
        subject = read_run(tx.connection, run, lock=True).subject
        queries = (select(removals.c.path).where(removals.c.path.in_(part)) for part in split_batches(paths))
        new = set(paths) - {path for query in queries for path in tx.execute(query).scalars()}
        if new:
            _mark_paths(tx, RemovalKind.ORPHAN, dict.fromkeys(sorted(new), run))
            tx.record_event(EventKind.FILES_MARKED, subject, run, files=len(new))
        return len(new)

    @in_transaction
    def finish_removals(self, tx: Transaction, paths: Collection[str]) -> None:
        removed_counts: Counter[int | None] = Counter()
        for batch in split_batches(paths):
            statement = delete(removals).where(removals.c.path.in_(batch)).returning(removals.c.run_id)
            removed_counts.update(tx.execute(statement).scalars())
        subjects = _read_subjects(tx.connection, [run for run in removed_counts if run is not None])
        for run, count in sorted(removed_counts.items(), key=lambda item: item[0] or 0):
            tx.record_event(EventKind.FILES_REMOVED, subjects.get(run, ""), run, paths=count)

    @in_transaction
    def record_adoption(self, tx: Transaction, store: str, before: str | None) -> None:
        tx.record_event(EventKind.STORE_ADOPTED, store, before=before)


def mark_files(tx: Transaction, runs_by_path: Mapping[str, int | None]) -> None:
    """Mark unreferenced files of blocks and datasets, each with the run that it belongs to."""
    _mark_paths(tx, RemovalKind.FILE, runs_by_path)


def mark_attempt(tx: Transaction, run: AnyRow) -> None:
    """Mark the directory of an attempt that ends without a result, if it may have written files."""
    if run.state in EXECUTING_STATES:
        _mark_paths(tx, RemovalKind.ATTEMPT, {run.directory: run.id})
        tx.record_event(EventKind.FILES_MARKED, run.subject, run.id, directory=run.directory)


def _mark_paths(tx: Transaction, kind: RemovalKind, of_runs: Mapping[str, int | None]) -> None:
    rows = [{"path": path, "run_id": run, "kind": kind, "marked": tx.now} for path, run in of_runs.items()]
    if rows:
        tx.execute(insert(removals), rows)


def _list_dataset_files(connection: Connection) -> set[str]:
    return {path for file_list in connection.execute(select(datasets.c.files)).scalars() for path, _, _ in file_list}


def _read_subjects(connection: Connection, numbers: Collection[int]) -> dict[int | None, str]:
    queries = (select(runs.c.id, runs.c.subject).where(runs.c.id.in_(part)) for part in split_batches(numbers))
    return {row.id: row.subject for query in queries for row in connection.execute(query)}
