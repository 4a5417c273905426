"""A block store on a file system that Spark and this process access under the same path."""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from fsspec.implementations.local import LocalFileSystem

from tidemill.errors import StorageError
from tidemill.model.block import DataFile
from tidemill.storage.paths import check_literal_path, check_path
from tidemill.storage.store import FileBlockStore
from tidemill.storage.trouble import translate_errors


class LocalBlockStore(FileBlockStore):
    """Files are written in place, and synced to disk before they are published.

    Paths are passed to Spark unescaped, as Hadoop reads them: a space or a percent sign is literal.
    """

    def __init__(self, root: Path) -> None:
        super().__init__(LocalFileSystem(), root.as_posix(), str(root))
        self.root_path = root

    def stage_directory(self, directory: str) -> str:
        path = self.root_path / check_literal_path(directory)
        with translate_errors("write in", str(path)):
            path.mkdir(parents=True, exist_ok=True)
        return str(path)

    def publish_files(self, directory: str, rows: int | None = None) -> tuple[DataFile, ...]:
        if not (self.root_path / check_path(directory)).is_dir():
            raise StorageError(f"{self._format_path(directory)} disappeared before it was published; run it again")
        files = super().publish_files(directory, rows)
        with translate_errors("write in", self._format_path(directory)):
            self._sync_files([self.root_path / file.path for file in files])
        return files

    def locate_file(self, path: str) -> str:
        return str(self.root_path / check_path(path))

    def probe_access(self) -> str:
        with translate_errors("use the block store", self.name):
            self.root_path.mkdir(parents=True, exist_ok=True)
        return super().probe_access()

    def prune_directory(self, directory: str) -> None:
        """Remove empty subdirectories as well, since a file system keeps them."""
        with translate_errors("remove empty directories in", self._format_path(check_path(directory))):
            for folder, _, _ in os.walk(self.root_path / directory, topdown=False):
                with suppress(OSError):  # not empty, or already gone
                    Path(folder).rmdir()
        self._prune_folders([self._resolve_path(directory).rpartition("/")[0]])

    def _write_bytes(self, full_path: str, data: bytes) -> None:
        replace_file(Path(full_path), data)

    def _list_names(self, full_path: str) -> list[str]:
        return list_files(Path(full_path))

    def _delete_paths(self, paths: Iterable[str]) -> int:
        targets = {Path(self._resolve_path(path)) for path in paths}
        count = sum(_delete_file(path) for path in targets)
        self._prune_folders({path.parent.as_posix() for path in targets})
        return count

    def _sync_files(self, files: Iterable[Path]) -> None:
        """Sync files and all their parent directories: only then do they survive a power failure."""
        folders = set[Path]()
        for file in files:
            fsync_path(file)
            folders.update(parent for parent in file.parents if parent.is_relative_to(self.root_path.parent))
        for folder in sorted(folders, reverse=True):
            fsync_path(folder)


def list_files(directory: Path) -> list[str]:
    """The files below a directory, in order. Links count as files and are not followed."""
    paths = []
    for folder, folders, names in os.walk(directory):
        links = (name for name in folders if (Path(folder) / name).is_symlink())
        paths += [(Path(folder) / name).relative_to(directory).as_posix() for name in (*names, *links)]
    return sorted(paths)


def replace_file(path: Path, data: bytes) -> None:
    """Replace the content of a file atomically: a reader finds the old content or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}-{uuid4().hex}")
    try:
        temporary.write_bytes(data)
        fsync_path(temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    fsync_path(path.parent)


def fsync_path(path: Path) -> None:
    """fsync a file or a directory."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _delete_file(path: Path) -> bool:
    try:
        path.unlink()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True
