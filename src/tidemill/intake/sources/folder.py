"""A folder watcher: files that appear are inserted, each content once.

A file is taken when it has not changed for a while; hidden ones, and those whose names say that they are not whole, are
left alone. It is known again by its content, whatever its name and however often servers start.
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
"""Endings of names of files that are not whole."""

Look = tuple[int, int, int]
"""What tells that a file was changed: which one it is, its size, and when it was written."""


@dataclass(slots=True)
class FolderSource:
    """`take` inserts a file with its SHA-256; False if its content was inserted before."""

    name: str
    folder: Path
    take: Callable[[Path, str], bool]
    pause: Callable[[float], None]  # ends early when the server does
    now: Callable[[], float]
    pattern: str = "*"
    settle: float = 2.0  # seconds without a change after which a file is whole
    every: float = 1.0  # seconds between two looks
    _seen: dict[Path, Look] = field(default_factory=dict)  # at the last look
    _done: dict[Path, Look] = field(default_factory=dict)

    def run(self, still: Callable[[], bool]) -> None:
        """Until `still` says no."""
        while still():
            self.scan_folder(still)
            self.pause(self.every)

    def scan_folder(self, still: Callable[[], bool]) -> None:
        """Take what is whole."""
        try:
            found = dict(self._list_files())
        except OSError as error:
            log.error("source %s: %s cannot be read: %s", self.name, self.folder, error.strerror)
            return
        for path, look in found.items():
            if self._is_complete(path, look) and still():
                self._insert_file(path, look)
        self._seen = found
        self._done = {path: look for path, look in self._done.items() if path in found}

    def _list_files(self) -> Iterator[tuple[Path, Look]]:
        for path in sorted(self.folder.glob(self.pattern)):
            if path.name.startswith(".") or path.name.endswith(PARTIAL):
                continue
            try:
                seen = path.stat()
            except FileNotFoundError:  # it went meanwhile
                continue
            if S_ISREG(seen.st_mode):
                yield path, (seen.st_ino, seen.st_size, seen.st_mtime_ns)

    def _is_complete(self, path: Path, look: Look) -> bool:
        unchanged = self._seen.get(path) == look and self.now() - look[2] / 1e9 >= self.settle
        return unchanged and self._done.get(path) != look

    def _insert_file(self, path: Path, look: Look) -> None:
        try:
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            new = self.take(path, digest)
            log.info("source %s: %s %s", self.name, path.name, "inserted" if new else "was inserted before")
        except BadInput as error:
            log.error("source %s: left out until it changes: %s", self.name, error)
        except (TidemillError, OSError) as error:
            log.error("source %s: cannot take %s, trying again: %s", self.name, path.name, error)
            return
        self._done[path] = look
