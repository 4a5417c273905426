"""The block store, and the loading of files into blocks."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from tidemill.model.block import File, Kind
from tidemill.model.change import Updates
from tidemill.model.schema import Schema
from tidemill.model.store import StoreMarker
from tidemill.ports.engine import Progress


class Loaded(Protocol):
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
        kind: Kind,
        directory: Path,
        progress: Progress | None,
    ) -> Loaded: ...


class Parcel(Protocol):
    """The rows of a small file, checked, in memory: several may become one block."""

    @property
    def rows(self) -> int: ...
    @property
    def digest(self) -> str: ...
    @property
    def keys(self) -> frozenset[Hashable]:
        """Those that no other parcel of the same block may have."""


class Parcels(Protocol):
    """Reads small files that somebody inserts, and packs several into one."""

    def read(
        self, data: bytes, name: str, *, format: str, schema: Schema, updates: Updates, latest: bool = False
    ) -> Parcel:
        """`latest`: of two upserts of a key the later one is meant; else a key may be there once."""

    def pack(self, parcels: Sequence[Any], directory: Path) -> None: ...


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

    def stage(self, directory: str) -> str:
        """A place, as Spark and local programs name it, in which files of `directory` can be written."""

    def publish(self, directory: str, rows: int | None = None) -> tuple[File, ...]:
        """Make the staged Parquet files of `directory` durable and describe them.

        Raises `RowsMissing` unless they hold as many rows as their writer counted.
        """

    def locate(self, path: str) -> str:
        """Where Spark can read a published file."""

    def open(self, path: str) -> BinaryIO:
        """A published file, to be read here."""

    def greatest(self, files: Sequence[File], column: str) -> int | None:
        """The latest moment in a column of published files, in microseconds since the epoch; None if there is none."""

    def check(self, files: Sequence[File]) -> None:
        """Raise `BlockDamaged` unless each file is there, has its size, and can be read throughout."""

    def find_missing(self, paths: Collection[str]) -> set[str]:
        """Those of the files that are not there."""

    def listing(self) -> Iterator[str]:
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

    def delete(self, paths: Iterable[str]) -> int:
        """Delete files, and directories that become empty; returns how many files were there."""

    def prune(self, directory: str) -> None:
        """Remove a directory and those inside and above it, as far as they are empty, up to the directory of runs."""

    def probe(self) -> str:
        """Write, read and delete a small file; returns the root. Raises `StorageError` if that fails."""
