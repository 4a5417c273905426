"""The block store, and the loading of files into blocks."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from tidemill.model.block import BlockKind, DataFile
from tidemill.model.change import Updates
from tidemill.model.schema import Schema
from tidemill.model.store import StoreMarker
from tidemill.ports.engine import Progress


class LoadResult(Protocol):
    """What a loader found in a file."""

    @property
    def rows(self) -> int: ...
    @property
    def digest(self) -> str: ...


class Loader(Protocol):
    """Reads a file that somebody inserts, and writes it as Parquet files; all of it, or nothing."""

    def __call__(
        self,
        path: Path,
        *,
        format: str | None,
        schema: Schema,
        updates: Updates,
        kind: BlockKind,
        directory: Path,
        progress: Progress | None,
    ) -> LoadResult: ...


class InsertBatch(Protocol):
    """The rows of a small file, checked, in memory: several may become one block."""

    @property
    def rows(self) -> int: ...
    @property
    def digest(self) -> str: ...
    @property
    def keys(self) -> frozenset[Hashable]:
        """Those that no other parcel of the same block may have."""


class InsertBatchLoader(Protocol):
    """Reads small files that somebody inserts, and packs several into one."""

    def read_batch(
        self, data: bytes, name: str, *, format: str, schema: Schema, updates: Updates, latest: bool = False
    ) -> InsertBatch:
        """`latest`: of two upserts of a key the later one is meant; else a key may be there once."""

    def write_batches(self, parcels: Sequence[Any], directory: Path) -> None: ...


class BlockStore(Protocol):
    """Immutable files below the directory of runs under one root. Only the catalog knows which count.

    Paths are relative to the root. What else lies below the root is left alone.
    """

    @property
    def name(self) -> str:
        """The root, as people name it."""

    def read_marker(self) -> StoreMarker | None:
        """To which catalog the store belongs; None if it was never said."""

    def write_marker(self, marker: StoreMarker) -> None: ...

    def stage_directory(self, directory: str) -> str:
        """A place, as Spark and local programs name it, in which files of `directory` can be written."""

    def publish_files(self, directory: str, rows: int | None = None) -> tuple[DataFile, ...]:
        """Make the staged Parquet files of `directory` durable and describe them.

        Raises `RowsMissing` unless they hold as many rows as their writer counted.
        """

    def locate_file(self, path: str) -> str:
        """Where Spark can read a published file."""

    def open_file(self, path: str) -> BinaryIO:
        """A published file, to be read here."""

    def find_latest_time(self, files: Sequence[DataFile], column: str) -> int | None:
        """The latest moment in a column of published files, in microseconds since the epoch; None if there is none."""

    def check_files(self, files: Sequence[DataFile]) -> None:
        """Raise `BlockDamaged` unless each file is there, has its size, and can be read throughout."""

    def find_missing(self, paths: Collection[str]) -> set[str]:
        """Those of the files that are not there."""

    def list_all_files(self) -> Iterator[str]:
        """Every file below the directory of runs, published or not."""

    def list_runs(self) -> list[int]:
        """The runs that have a directory."""

    def list_attempts(self, runs: Iterable[int]) -> Iterator[str]:
        """The directories of all attempts at these runs."""

    def list_directory(self, directory: str) -> list[str]:
        """Every file below a directory, published or not."""

    def list_copies(self) -> Collection[str]:
        """Files of which this machine holds copies besides."""

    def drop_copies(self, paths: Iterable[str]) -> int:
        """Delete this machine's copies; the files themselves stay."""

    def delete_files(self, paths: Iterable[str]) -> int:
        """Delete files, and directories that become empty; returns how many files were there."""

    def prune_directory(self, directory: str) -> None:
        """Remove a directory and those inside and above it, as far as they are empty, up to the directory of runs."""

    def probe_access(self) -> str:
        """Write, read and delete a small file; returns the root. Raises `StorageError` if that fails."""
