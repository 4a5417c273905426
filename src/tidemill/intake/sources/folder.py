"""A folder watcher: new files are inserted, each content once.

A file is inserted when it has not changed for a while; hidden files and those with names of partial files are skipped.
A file is recognised by its content, independently of its name and of server restarts.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from stat import S_ISREG

from tidemill.errors import BadInput, TidemillError

log = logging.getLogger("tidemill.sources")

PARTIAL = (".tmp", ".part", ".partial", ".crdownload", ".swp")
"""Suffixes of the names of partial files."""

Look = tuple[int, int, int]
"""Inode, size and modification time of a file, to detect changes."""


@dataclass(slots=True)
class FolderSource:
    """Inserts the files of a folder. `take` inserts a file with its SHA-256; False if it was inserted before."""

    name: str
    folder: Path
    take: Callable[[Path, str], bool]
    pause: Callable[[float], None]  # ends early when the server stops
    now: Callable[[], float]
    pattern: str = "*"
    settle: float = 2.0  # seconds without a change after which a file is complete
    every: float = 1.0  # seconds between two scans
    _seen: dict[Path, Look] = field(default_factory=dict)  # at the last scan
    _done: dict[Path, Look] = field(default_factory=dict)

    def run(self, still: Callable[[], bool]) -> None:
        """Scan the folder while `still` returns True."""
        while still():
            self.scan_folder(still)
            self.pause(self.every)

    def scan_folder(self, still: Callable[[], bool]) -> None:
        """Insert the complete files."""
        try:
            files = dict(self._list_files())
        except OSError as error:
            log.error("source %s: %s cannot be read: %s", self.name, self.folder, error.strerror)
            return
        for path, stamp in files.items():
            if self._is_complete(path, stamp) and still():
                self._insert_file(path, stamp)
        self._seen = files
        self._done = {path: stamp for path, stamp in self._done.items() if path in files}

    def _list_files(self) -> Iterator[tuple[Path, Look]]:
        for path in sorted(self.folder.glob(self.pattern)):
            if path.name.startswith(".") or path.name.endswith(PARTIAL):
                continue
            try:
                status = path.stat()
            except FileNotFoundError:  # it was deleted meanwhile
                continue
            if S_ISREG(status.st_mode):
                yield path, (status.st_ino, status.st_size, status.st_mtime_ns)

    def _is_complete(self, path: Path, stamp: Look) -> bool:
        unchanged = self._seen.get(path) == stamp and self.now() - stamp[2] / 1e9 >= self.settle
        return unchanged and self._done.get(path) != stamp

    def _insert_file(self, path: Path, stamp: Look) -> None:
        try:
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            is_new = self.take(path, digest)
            log.info("source %s: %s %s", self.name, path.name, "inserted" if is_new else "was inserted before")
        except BadInput as error:
            log.error("source %s: skipped until it changes: %s", self.name, error)
        except (TidemillError, OSError) as error:
            log.error("source %s: cannot insert %s, retrying: %s", self.name, path.name, error)
            return
        self._done[path] = stamp
