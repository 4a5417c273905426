"""Block stores on fsspec file systems: the common implementation, and the one that Spark accesses directly."""

import json
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import BinaryIO, cast
from uuid import uuid4

from fsspec import AbstractFileSystem

from tidemill.errors import BlockDamaged, RowsMissing, StorageError, StoreMismatch
from tidemill.model.block import DataFile
from tidemill.model.network import hide_credentials
from tidemill.model.store import MARKER_FORMAT, RUNS_DIRECTORY, StoreMarker
from tidemill.storage import lazy_imports
from tidemill.storage.paths import PATTERN_CHARACTERS, check_literal_path, check_path, is_marker
from tidemill.storage.trouble import UnreadableParquet, translate_errors

_PROBE = b"tidemill"
_HADOOP_SCHEMES = {"s3": "s3a"}

MARKER_FILE = "_tidemill_store.json"
"""The name of the marker file. Spark ignores files whose names begin with an underscore."""


class FileBlockStore(ABC):
    """Immutable files below the directory of runs under one root of an fsspec file system.

    Guarantees. Files returned by `publish_files` are durable and complete. No path is outside the directory of runs;
    besides it, the store writes only its marker. Files are never overwritten: each attempt writes to a separate
    directory. Every failure of the file system is a `StorageError` that names the path.
    """

    def __init__(self, fs: AbstractFileSystem, root: str, name: str) -> None:
        self._fs = fs
        self._root = root.rstrip("/")  # as `fs` names it
        self._runs_root = f"{self._root}/{RUNS_DIRECTORY}"
        self.name = hide_credentials(name.rstrip("/") or name)  # as shown to users

    @abstractmethod
    def stage_directory(self, directory: str) -> str: ...

    @abstractmethod
    def locate_file(self, path: str) -> str: ...

    def publish_files(self, directory: str, rows: int | None = None) -> tuple[DataFile, ...]:
        shown_path = self._format_path(check_path(directory))
        with translate_errors("publish the files in", shown_path):
            paths = [f"{directory}/{name}" for name in self._list_names(self._resolve_path(directory))]
            data_paths = [check_literal_path(path) for path in paths if not is_marker(path[len(directory) + 1 :])]
            files = tuple(self._describe_file(path) for path in data_paths)
            _check_rows(files, rows, shown_path)
            self._delete_paths({*paths} - {file.path for file in files if file.rows})
            self._prune_folders([self._resolve_path(directory)])
        return tuple(file for file in files if file.rows)

    def open_file(self, path: str) -> BinaryIO:
        with translate_errors("read", self._format_path(path)):
            return cast(BinaryIO, self._fs.open(self._resolve_path(path), "rb"))

    def find_latest_time(self, files: Sequence[DataFile], column: str) -> int | None:
        times: list[int | None] = []
        for path in (file.path for file in files):
            with self.open_file(path) as source, translate_errors("read", self._format_path(path)):
                times.append(lazy_imports.parquet_files.read_latest_time(source, column))
        return max((time for time in times if time is not None), default=None)

    def check_files(self, files: Sequence[DataFile]) -> None:
        for file in files:
            with translate_errors("check", self._format_path(file.path)):
                self._check_file(file)

    def read_marker(self) -> StoreMarker | None:
        shown_path = f"{self.name}/{MARKER_FILE}"
        with translate_errors("read", shown_path):
            try:
                text = self._fs.cat_file(f"{self._root}/{MARKER_FILE}")
            except FileNotFoundError:
                return None
        return _parse_marker(text, shown_path)

    def write_marker(self, marker: StoreMarker) -> None:
        with translate_errors("write", f"{self.name}/{MARKER_FILE}"):
            self._write_bytes(f"{self._root}/{MARKER_FILE}", json.dumps(asdict(marker)).encode())

    def list_runs(self) -> list[int]:
        with translate_errors("list", self.name):
            self._fs.invalidate_cache()
            return sorted(int(name) for name in self._list_entries(self._runs_root) if name.isdecimal())

    def list_attempts(self, runs: Iterable[int]) -> Iterator[str]:
        for run in runs:
            with translate_errors("list", self._format_path(f"{RUNS_DIRECTORY}/{run}")):
                tokens = [name for name in self._list_entries(f"{self._runs_root}/{run}") if name.isdecimal()]
            yield from (f"{RUNS_DIRECTORY}/{run}/{token}" for token in sorted(tokens, key=int))

    def list_directory(self, directory: str) -> list[str]:
        with translate_errors("list", self._format_path(check_path(directory))):
            return [f"{directory}/{name}" for name in self._list_names(self._resolve_path(directory))]

    def list_copies(self) -> Collection[str]:
        return ()

    def drop_copies(self, paths: Iterable[str]) -> int:
        return 0

    def find_missing(self, paths: Collection[str]) -> set[str]:
        full_paths = {path: self._resolve_path(path) for path in paths}
        with translate_errors("list", self.name):
            present = self._list_files_in({full_path.rpartition("/")[0] for full_path in full_paths.values()})
        return {path for path, full_path in full_paths.items() if full_path not in present}

    def list_all_files(self) -> Iterator[str]:
        with translate_errors("list", self.name):
            yield from (f"{RUNS_DIRECTORY}/{name}" for name in self._list_names(self._runs_root))

    def delete_files(self, paths: Iterable[str]) -> int:
        checked = [check_path(path) for path in paths]
        with translate_errors("delete files in", self.name):
            return self._delete_paths(checked)

    def prune_directory(self, directory: str) -> None:
        with translate_errors("remove empty directories in", self._format_path(check_path(directory))):
            self._prune_folders([self._resolve_path(directory)])

    def probe_access(self) -> str:
        path = f"{self._root}/.probe-{uuid4().hex}"
        with translate_errors("use the block store", self.name):
            self._fs.pipe_file(path, _PROBE)
            content = self._fs.cat_file(path)
            self._fs.rm_file(path)
        if content != _PROBE:
            raise StorageError(f"{self.name} does not return the data written to it; choose another block store")
        return self.name

    def _write_bytes(self, full_path: str, data: bytes) -> None:
        """Write a file; object stores replace it atomically."""
        self._fs.pipe_file(full_path, data)

    def _resolve_path(self, path: str) -> str:
        return f"{self._root}/{check_path(path)}"

    def _format_path(self, path: str) -> str:
        return f"{self.name}/{path}"

    def _list_names(self, full_path: str) -> list[str]:
        """The files below a directory; none if it does not exist."""
        self._fs.invalidate_cache()
        return sorted(path[len(full_path) + 1 :] for path in self._fs.find(full_path))

    def _list_entries(self, full_path: str) -> list[str]:
        """The names in a directory; none if it does not exist."""
        try:
            return [path.rstrip("/").rpartition("/")[2] for path in self._fs.ls(full_path, detail=False)]
        except (FileNotFoundError, NotADirectoryError):
            return []

    def _describe_file(self, path: str) -> DataFile:
        with self._fs.open(self._resolve_path(path), "rb") as file:
            try:
                rows = lazy_imports.parquet_files.read_row_count(file)
            except UnreadableParquet as error:
                raise BlockDamaged(
                    f"{self._format_path(path)} was written into a block but is not a complete Parquet file ({error}); "
                    "write Parquet only, or run it again"
                ) from error
        return DataFile(path, rows, self._fs.size(self._resolve_path(path)))

    def _check_file(self, file: DataFile) -> None:
        size = self._find_size(file.path)
        if size is None:
            raise self._build_damage_error(file, "nothing: the file is missing")
        if size != file.bytes:
            raise self._build_damage_error(file, f"{size} bytes")
        with self._fs.open(self._resolve_path(file.path), "rb") as source:
            try:
                rows = lazy_imports.parquet_files.read_through(source)
            except UnreadableParquet as error:
                raise self._build_damage_error(file, f"content that cannot be read ({error})") from error
        if rows != file.rows:
            raise self._build_damage_error(file, f"{rows} rows")

    def _find_size(self, path: str) -> int | None:
        self._fs.invalidate_cache()
        try:
            return int(self._fs.info(self._resolve_path(path))["size"])
        except FileNotFoundError:
            return None

    def _build_damage_error(self, file: DataFile, actual: str) -> BlockDamaged:
        return BlockDamaged(
            f"block file {self._format_path(file.path)} is damaged: expected {file.rows} rows in {file.bytes} bytes, "
            f"found {actual}. Restore the file from a backup; without one, insert the data again or re-run the task"
        )

    def _delete_paths(self, paths: Iterable[str]) -> int:
        targets = {self._resolve_path(path) for path in paths}
        folders = {path.rpartition("/")[0] for path in targets}
        present = targets & self._list_files_in(folders)
        self._remove_files(sorted(present))
        self._prune_folders(folders)
        return len(present)

    def _remove_files(self, full_paths: Sequence[str]) -> None:
        """Delete files in few requests; names that fsspec would interpret as patterns are deleted one by one."""
        patterns = [full_path for full_path in full_paths if PATTERN_CHARACTERS.intersection(full_path)]
        literal = [full_path for full_path in full_paths if full_path not in patterns]
        if literal:
            self._fs.rm(literal)
        for full_path in patterns:
            self._fs.rm_file(full_path)

    def _list_files_in(self, folders: Iterable[str]) -> set[str]:
        """The files in folders. Listing a few folders needs fewer requests than checking each file."""
        self._fs.invalidate_cache()
        return {path for folder in folders for path in self._fs.find(folder, maxdepth=1)}

    def _prune_folders(self, folders: Iterable[str]) -> None:
        """Remove the folders and their parents below the directory of runs, where they are empty."""
        for folder in folders:
            with suppress(OSError):  # not empty, already removed, or the store has no folders
                while folder.startswith(f"{self._runs_root}/"):
                    self._fs.rmdir(folder)
                    folder = folder.rpartition("/")[0]


class DirectBlockStore(FileBlockStore):
    """Spark uses URLs below the root, and this process fsspec; the object store guarantees durability."""

    def __init__(self, fs: AbstractFileSystem, root: str, url: str) -> None:
        super().__init__(fs, root, url)
        scheme, _, path = url.rstrip("/").partition("://")
        self._spark_root = f"{_HADOOP_SCHEMES.get(scheme, scheme)}://{path}"

    def stage_directory(self, directory: str) -> str:
        return f"{self._spark_root}/{check_literal_path(directory)}"

    def locate_file(self, path: str) -> str:
        return f"{self._spark_root}/{check_path(path)}"


def _check_rows(files: Sequence[DataFile], written_rows: int | None, shown_path: str) -> None:
    rows = sum(file.rows for file in files)
    if written_rows is not None and rows != written_rows:
        raise RowsMissing(
            f"{written_rows} rows were written to {shown_path}, but {rows} rows in {len(files)} files are found there: "
            "Spark's executors do not write where this process reads. Set [storage] url to a directory that all "
            "machines share, or to an object store that Spark accesses directly (staged = false). Nothing was published"
        )


def _parse_marker(text: bytes, shown_path: str) -> StoreMarker:
    try:
        marker = StoreMarker.from_json(json.loads(text))
    except (KeyError, TypeError, ValueError) as error:
        raise StoreMismatch(
            f"{shown_path} does not name the catalog of the block store: expected JSON with a catalog's id, found "
            f"{len(text)} other bytes; restore the file from a backup, or, if this project's catalog is the "
            "right one, run tidemill adopt-store. Nothing was changed"
        ) from error
    if marker.format > MARKER_FORMAT:
        raise StorageError(
            f"{shown_path} was written by a newer Tidemill: it has format {marker.format}, and this version supports "
            f"{MARKER_FORMAT}; upgrade the tidemill package. Nothing was changed"
        )
    return marker
