"""A block store in an object store, written and read through a local cache."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from uuid import uuid4

from fsspec import AbstractFileSystem
from fsspec.implementations.local import LocalFileSystem

from tidemill.errors import BlockDamaged, StorageError
from tidemill.model.block import DataFile
from tidemill.storage.local import LocalBlockStore, fsync_path, list_files, replace_file
from tidemill.storage.paths import check_path
from tidemill.storage.store import FileBlockStore
from tidemill.storage.trouble import translate_errors

_INCOMING = ".incoming"


class StagedBlockStore(FileBlockStore):
    """The object store is authoritative; the cache holds copies under the same paths.

    A cached copy is complete or absent (it is created by a rename), and never stale, because published files do not
    change. The cache may be deleted whenever no run is active.
    """

    def __init__(self, fs: AbstractFileSystem, root: str, url: str, cache: Path) -> None:
        super().__init__(fs, root, url)
        self._cache = LocalBlockStore(cache)

    def stage_directory(self, directory: str) -> str:
        return self._cache.stage_directory(directory)

    def publish_files(self, directory: str, rows: int | None = None) -> tuple[DataFile, ...]:
        files = self._cache.publish_files(directory, rows)
        for file in files:
            with translate_errors("upload", self._format_path(file.path)):
                self._upload_file(file)
        return files

    def locate_file(self, path: str) -> str:
        cached = self._cache.root_path / check_path(path)
        if not cached.exists():
            with translate_errors("download", self._format_path(path)):
                self._download_file(path, cached)
        return str(cached)

    def check_files(self, files: Sequence[DataFile]) -> None:
        super().check_files(files)
        for file in files:
            self._check_copy(file)

    def list_directory(self, directory: str) -> list[str]:
        """Includes files that are only in the cache: they were never published, or deleted in the object store."""
        return sorted({*super().list_directory(directory), *self._cache.list_directory(directory)})

    def list_copies(self) -> Collection[str]:
        return list(self._cache.list_all_files())

    def drop_copies(self, paths: Iterable[str]) -> int:
        return self._cache.delete_files(paths)

    def list_all_files(self) -> Iterator[str]:
        """Includes files that are only in the cache."""
        yield from sorted({*super().list_all_files(), *self._cache.list_all_files()})

    def prune_directory(self, directory: str) -> None:
        self._cache.prune_directory(directory)
        super().prune_directory(directory)

    def delete_files(self, paths: Iterable[str]) -> int:
        all_paths = list(paths)
        unpublished = self._find_unpublished(all_paths)
        self._cache.delete_files(all_paths)
        return super().delete_files(all_paths) + len(unpublished)

    def probe_access(self) -> str:
        self._cache.probe_access()
        return super().probe_access()

    def _write_bytes(self, full_path: str, data: bytes) -> None:
        if isinstance(self._fs, LocalFileSystem):  # for example a mounted share
            replace_file(Path(full_path), data)
        else:
            super()._write_bytes(full_path, data)

    def _list_names(self, full_path: str) -> list[str]:
        return list_files(Path(full_path)) if isinstance(self._fs, LocalFileSystem) else super()._list_names(full_path)

    def _upload_file(self, file: DataFile) -> None:
        self._fs.put_file(self._cache.locate_file(file.path), self._resolve_path(file.path))
        size = self._find_size(file.path)
        if size != file.bytes:
            raise StorageError(
                f"{self._format_path(file.path)} has {size} bytes after an upload of {file.bytes}; "
                "check the object store, then run it again"
            )

    def _download_file(self, path: str, cached: Path) -> None:
        size = self._find_size(path)
        if size is None:
            raise BlockDamaged(
                f"block file {self._format_path(path)} is missing. Restore it from a backup; "
                "without one, insert the data again or re-run the task"
            )
        incoming = self._cache.root_path / _INCOMING / uuid4().hex
        incoming.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._fs.get_file(self._resolve_path(path), str(incoming))
            self._accept_download(incoming, cached, size)
        finally:
            incoming.unlink(missing_ok=True)

    def _accept_download(self, incoming: Path, cached: Path, size: int) -> None:
        received = incoming.stat().st_size
        if received != size:
            raise StorageError(f"a download ended after {received} of {size} bytes; try again")
        fsync_path(incoming)
        cached.parent.mkdir(parents=True, exist_ok=True)
        incoming.replace(cached)

    def _check_copy(self, file: DataFile) -> None:
        """Drop a damaged copy: the original is valid, and the next reader downloads it again."""
        if (self._cache.root_path / file.path).exists():
            try:
                self._cache.check_files([file])
            except BlockDamaged:
                self._cache.delete_files([file.path])

    def _find_unpublished(self, paths: Iterable[str]) -> set[str]:
        with translate_errors("list", self.name):
            return {p for p in paths if (self._cache.root_path / check_path(p)).exists() and self._find_size(p) is None}
