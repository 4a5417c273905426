"""A folder watcher: new files are inserted, each content once.

A file is inserted when it has not changed for a while, by the server's clock alone: the file system may have another.
Hidden files and those with names of partial files are skipped. A file is recognised by its content, independently of
its name and of server restarts.
"""

import hashlib
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from stat import S_ISREG

from tidemill.errors import BadInput, TidemillError

log = logging.getLogger("tidemill.sources")

PARTIAL_SUFFIXES = (".tmp", ".part", ".partial", ".crdownload", ".swp")
"""Suffixes of the names of partial files."""

FileStamp = tuple[int, int, int]
"""Inode, size and modification time of a file, to detect changes."""


@dataclass(slots=True)
class FolderSource:
    """Inserts the files of a folder. `insert_file` inserts a file with its SHA-256; False if it was inserted before."""

    name: str
    folder: Path
    insert_file: Callable[[Path, str], bool]
    pause: Callable[[float], object]  # ends early when the server stops
    clock: Callable[[], float]  # never goes back
    pattern: str = "*"
    settle_seconds: float = 2.0  # seconds without a change after which a file is complete
    interval: float = 1.0  # seconds between two scans
    _seen: dict[Path, tuple[FileStamp, float]] = field(default_factory=dict)  # since when each has its stamp
    _inserted_stamps: dict[Path, FileStamp] = field(default_factory=dict)

    def run(self, is_active: Callable[[], bool]) -> None:
        """Scan the folder while `is_active` returns True."""
        while is_active():
            self.scan_folder(is_active)
            self.pause(self.interval)

    def scan_folder(self, is_active: Callable[[], bool]) -> None:
        """Insert the complete files."""
        try:
            files = dict(self._list_files())
        except OSError as error:
            log.error("source %s: %s cannot be read: %s", self.name, self.folder, error.strerror)
            return
        now, before = self.clock(), self._seen
        self._seen = {p: before[p] if p in before and before[p][0] == s else (s, now) for p, s in files.items()}
        for path, (stamp, since) in self._seen.items():
            is_complete = path in before and now - since >= self.settle_seconds
            if is_complete and self._inserted_stamps.get(path) != stamp and is_active():
                self._insert_file(path, stamp)
        self._inserted_stamps = {path: stamp for path, stamp in self._inserted_stamps.items() if path in files}

    def _list_files(self) -> Iterator[tuple[Path, FileStamp]]:
        for path in sorted(self.folder.glob(self.pattern)):
            if path.name.startswith(".") or path.name.endswith(PARTIAL_SUFFIXES):
                continue
            try:
                status = path.stat()
            except FileNotFoundError:  # it was deleted meanwhile
                continue
            if S_ISREG(status.st_mode):
                yield path, (status.st_ino, status.st_size, status.st_mtime_ns)

    def _insert_file(self, path: Path, stamp: FileStamp) -> None:
        try:
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            is_new = self.insert_file(path, digest)
            log.info("source %s: %s %s", self.name, path.name, "inserted" if is_new else "was inserted before")
        except BadInput as error:
            log.error("source %s: skipped until it changes: %s", self.name, error)
        except (TidemillError, OSError) as error:
            log.error("source %s: cannot insert %s, retrying: %s", self.name, path.name, error)
            return
        self._inserted_stamps[path] = stamp
