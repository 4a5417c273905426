"""The interfaces of the block store and of the loaders of inserted files."""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from tidemill.model.block import BlockKind, DataFile
from tidemill.model.change import Updates
from tidemill.model.schema import Schema
from tidemill.model.store import StoreMarker
from tidemill.ports.engine import Progress


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """How to load a file: into a directory, as a block of a channel with this schema and merge kind."""

    schema: Schema
    updates: Updates
    directory: Path
    kind: BlockKind = BlockKind.DELTA
    format: str | None = None  # None: as its name says
    progress: Progress | None = None


@dataclass(frozen=True, slots=True)
class LoadResult:
    """The number of rows read, and the SHA-256 of the file's bytes."""

    rows: int
    digest: str


Loader = Callable[[Path, LoadRequest], LoadResult]
"""Reads an inserted file and writes it as Parquet files; all of it, or nothing."""


class InsertBatch(Protocol):
    """The validated rows of a small file in memory; several batches may become one block."""

    @property
    def rows(self) -> int: ...
    @property
    def digest(self) -> str: ...
    @property
    def keys(self) -> frozenset[Hashable]:
        """The keys that no other batch of the same block may contain."""


class InsertBatchLoader(Protocol):
    """Reads small inserted files, and writes several batches as one file."""

    def read_batch(
        self, data: bytes, name: str, *, format: str, schema: Schema, updates: Updates, latest: bool = False
    ) -> InsertBatch:
        """Parse and validate a file. `latest`: the later of two upserts of a key counts; else duplicates are errors."""

    def write_batches(self, batches: Sequence[Any], directory: Path) -> None: ...


class BlockStore(Protocol):
    """Immutable files below the directory of runs under one root. The catalog decides which of them are valid.

    Paths are relative to the root. Other files below the root are never touched.
    """

    @property
    def name(self) -> str:
        """The root as shown to users."""

    def read_marker(self) -> StoreMarker | None:
        """The marker that names the store's catalog; None if there is none."""

    def write_marker(self, marker: StoreMarker) -> None: ...

    def stage_directory(self, directory: str) -> str:
        """A path at which Spark and local programs can write the files of `directory`."""

    def publish_files(self, directory: str, rows: int | None = None) -> tuple[DataFile, ...]:
        """Make the staged Parquet files durable; raises `RowsMissing` unless they hold the rows that were counted."""

    def locate_file(self, path: str) -> str:
        """The address at which Spark can read a published file."""

    def open_file(self, path: str) -> BinaryIO:
        """Open a published file for reading in this process."""

    def find_latest_time(self, files: Sequence[DataFile], column: str) -> int | None:
        """The latest time in a column of published files, in microseconds since the epoch; None if there is none."""

    def check_files(self, files: Sequence[DataFile]) -> None:
        """Raise `BlockDamaged` unless each file exists, has its recorded size, and is fully readable."""

    def find_missing(self, paths: Collection[str]) -> set[str]:
        """The files among `paths` that do not exist."""

    def list_all_files(self) -> Iterator[str]:
        """Every file below the directory of runs, published or not."""

    def list_runs(self) -> list[int]:
        """The runs that have a directory."""

    def list_attempts(self, runs: Iterable[int]) -> Iterator[str]:
        """The directories of all attempts of these runs."""

    def list_directory(self, directory: str) -> list[str]:
        """Every file below a directory, published or not."""

    def list_copies(self) -> Collection[str]:
        """Files of which this machine has a local copy."""

    def drop_copies(self, paths: Iterable[str]) -> int:
        """Delete this machine's copies; the files themselves stay."""

    def delete_files(self, paths: Iterable[str]) -> int:
        """Delete files, and directories that become empty; returns the number of files that existed."""

    def prune_directory(self, directory: str) -> None:
        """Remove a directory, its subdirectories and its parents up to the directory of runs, where they are empty."""

    def probe_access(self) -> str:
        """Write, read and delete a small file; returns the root. Raises `StorageError` if that fails."""
