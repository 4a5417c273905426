"""Blocks on a disk that Spark and this process see under the same path."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from fsspec.implementations.local import LocalFileSystem

from tidemill.errors import StorageError
from tidemill.model.block import File
from tidemill.storage.paths import inside, readable
from tidemill.storage.store import FileBlockStore
from tidemill.storage.trouble import explained


class LocalBlockStore(FileBlockStore):
    """Files are written in place, and forced to disk before they count.

    Paths are given to Spark plain: Hadoop reads them unescaped, so that a space or a percent sign means itself.
    """

    def __init__(self, root: Path) -> None:
        super().__init__(LocalFileSystem(), root.as_posix(), str(root))
        self._path = root

    @property
    def path(self) -> Path:
        return self._path

    def stage(self, directory: str) -> str:
        place = self._path / readable(directory)
        with explained("write in", str(place)):
            place.mkdir(parents=True, exist_ok=True)
        return str(place)

    def publish(self, directory: str, rows: int | None = None) -> tuple[File, ...]:
        if not (self._path / inside(directory)).is_dir():
            raise StorageError(f"{self._shown(directory)} vanished before it was published; run it again")
        files = super().publish(directory, rows)
        with explained("write in", self._shown(directory)):
            self._force([self._path / file.path for file in files])
        return files

    def locate(self, path: str) -> str:
        return str(self._path / inside(path))

    def probe(self) -> str:
        with explained("use the block store", self._name):
            self._path.mkdir(parents=True, exist_ok=True)
        return super().probe()

    def prune(self, directory: str) -> None:
        """Empty directories inside go as well: a file system keeps them."""
        with explained("remove empty directories in", self._shown(inside(directory))):
            for folder, _, _ in os.walk(self._path / directory, topdown=False):
                with suppress(OSError):  # not empty, or already gone
                    Path(folder).rmdir()
        self._prune([self._at(directory).rpartition("/")[0]])

    def _put(self, place: str, data: bytes) -> None:
        replace_file(Path(place), data)

    def _names_below(self, place: str) -> list[str]:
        return list_files(Path(place))

    def _discard(self, paths: Iterable[str]) -> int:
        gone = {Path(self._at(path)) for path in paths}
        count = sum(_removed(path) for path in gone)
        self._prune({path.parent.as_posix() for path in gone})
        return count

    def _force(self, files: Iterable[Path]) -> None:
        """A file survives a power failure once it and every directory on the way to it were forced to disk."""
        folders = set[Path]()
        for file in files:
            force(file)
            folders.update(parent for parent in file.parents if parent.is_relative_to(self._path.parent))
        for folder in sorted(folders, reverse=True):
            force(folder)


def list_files(directory: Path) -> list[str]:
    """The files below a directory, in order. A link is one of them: what it leads to is not Tidemill's."""
    found = []
    for folder, folders, names in os.walk(directory):
        links = (name for name in folders if (Path(folder) / name).is_symlink())
        found += [(Path(folder) / name).relative_to(directory).as_posix() for name in (*names, *links)]
    return sorted(found)


def replace_file(path: Path, data: bytes) -> None:
    """Let a file hold this; a reader finds the old content or the new, whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}-{uuid4().hex}")
    try:
        new.write_bytes(data)
        force(new)
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
    force(path.parent)


def force(path: Path) -> None:
    """fsync a file or a directory."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _removed(path: Path) -> bool:
    try:
        path.unlink()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True
