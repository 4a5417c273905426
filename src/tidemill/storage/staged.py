"""Blocks in an object store, written and read by way of a local directory."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from uuid import uuid4

from fsspec import AbstractFileSystem
from fsspec.implementations.local import LocalFileSystem

from tidemill.errors import BlockDamaged, StorageError
from tidemill.model.block import File
from tidemill.storage.local import LocalBlockStore, force, list_files, replace_file
from tidemill.storage.paths import inside
from tidemill.storage.store import FileBlockStore
from tidemill.storage.trouble import explained

_INCOMING = ".incoming"


class StagedBlockStore(FileBlockStore):
    """The object store holds the truth; the cache beside it holds copies under the same paths.

    A cached copy is whole or absent (it arrives by rename), and never stale, because published files do
    not change. The cache may be deleted at any time when nothing runs.
    """

    def __init__(self, fs: AbstractFileSystem, root: str, url: str, cache: Path) -> None:
        super().__init__(fs, root, url)
        self._cache = LocalBlockStore(cache)

    def stage(self, directory: str) -> str:
        return self._cache.stage(directory)

    def publish(self, directory: str, rows: int | None = None) -> tuple[File, ...]:
        files = self._cache.publish(directory, rows)
        for file in files:
            with explained("upload", self._shown(file.path)):
                self._upload(file)
        return files

    def locate(self, path: str) -> str:
        cached = self._cache.path / inside(path)
        if not cached.exists():
            with explained("download", self._shown(path)):
                self._download(path, cached)
        return str(cached)

    def check(self, files: Sequence[File]) -> None:
        super().check(files)
        for file in files:
            self._check_copy(file)

    def list_directory(self, directory: str) -> list[str]:
        """Files of the cache that the object store lacks count as well: they were never published, or deleted there."""
        return sorted({*super().list_directory(directory), *self._cache.list_directory(directory)})

    def list_copies(self) -> Collection[str]:
        return list(self._cache.listing())

    def drop_copies(self, paths: Iterable[str]) -> int:
        return self._cache.delete(paths)

    def listing(self) -> Iterator[str]:
        """Copies that the object store lacks are among them."""
        yield from sorted({*super().listing(), *self._cache.listing()})

    def prune(self, directory: str) -> None:
        self._cache.prune(directory)
        super().prune(directory)

    def delete(self, paths: Iterable[str]) -> int:
        wanted = list(paths)
        unpublished = self._unpublished(wanted)
        self._cache.delete(wanted)
        return super().delete(wanted) + len(unpublished)

    def probe(self) -> str:
        self._cache.probe()
        return super().probe()

    def _put(self, place: str, data: bytes) -> None:
        if isinstance(self._fs, LocalFileSystem):  # such as a mounted share
            replace_file(Path(place), data)
        else:
            super()._put(place, data)

    def _names_below(self, place: str) -> list[str]:
        return list_files(Path(place)) if isinstance(self._fs, LocalFileSystem) else super()._names_below(place)

    def _upload(self, file: File) -> None:
        self._fs.put_file(self._cache.locate(file.path), self._at(file.path))
        size = self._size(file.path)
        if size != file.bytes:
            raise StorageError(
                f"{self._shown(file.path)} has {size} bytes after an upload of {file.bytes}; "
                "check the object store, then run it again"
            )

    def _download(self, path: str, cached: Path) -> None:
        size = self._size(path)
        if size is None:
            raise BlockDamaged(
                f"block file {self._shown(path)} is missing. Restore it from a backup; "
                "without one, insert the data again or re-run the task"
            )
        incoming = self._cache.path / _INCOMING / uuid4().hex
        incoming.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._fs.get_file(self._at(path), str(incoming))
            self._accept(incoming, cached, size)
        finally:
            incoming.unlink(missing_ok=True)

    def _accept(self, incoming: Path, cached: Path, size: int) -> None:
        found = incoming.stat().st_size
        if found != size:
            raise StorageError(f"a download broke off after {found} of {size} bytes; try again")
        force(incoming)
        cached.parent.mkdir(parents=True, exist_ok=True)
        incoming.replace(cached)

    def _check_copy(self, file: File) -> None:
        """The original is sound here, so a damaged copy is simply dropped; the next reader fetches it again."""
        if (self._cache.path / file.path).exists():
            try:
                self._cache.check([file])
            except BlockDamaged:
                self._cache.delete([file.path])

    def _unpublished(self, paths: Iterable[str]) -> set[str]:
        with explained("list", self._name):
            return {p for p in paths if (self._cache.path / inside(p)).exists() and self._size(p) is None}
