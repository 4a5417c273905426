"""A cached copy of a partition's state in a file that all processes of a host can map, to avoid reading it again.

The copy is valid at exactly one version: that of the last batch that wrote it. A task requests the committed version;
if the copy has another one, was abandoned in mid-batch, is locked by another process or damaged, the task rebuilds the
state from the base and its deltas. So correctness does not depend on the copy: it may be lost or wrong at any time.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import IO, Any
from zlib import crc32

import numpy as np

from tidemill.stream.keyed import BatchOutcome, Columns, Function, run_batch
from tidemill.stream.layout import WORD, RowLayout
from tidemill.stream.table import StateDamaged, StateTable

MAGIC = b"tidemill"
PAGE = 4096
_HEAD = struct.Struct("<8s16s32sQQQ")
_CRC = struct.Struct("<I")
UNSET = bytes(32)

Rebuild = Callable[[], StateTable]


@dataclass(frozen=True, slots=True)
class _FileHeader:
    layout: bytes
    version: bytes  # UNSET: a batch is running, or died
    count: int
    capacity: int
    cells: int

    def to_bytes(self) -> bytes:
        head = _HEAD.pack(MAGIC, self.layout, self.version, self.count, self.capacity, self.cells)
        return head + _CRC.pack(crc32(head))

    @classmethod
    def from_bytes(cls, page: bytes) -> _FileHeader | None:
        head, crc = page[: _HEAD.size], page[_HEAD.size : _HEAD.size + _CRC.size]
        if len(crc) < _CRC.size or _CRC.unpack(crc)[0] != crc32(head) or not head.startswith(MAGIC):
            return None
        return cls(*_HEAD.unpack(head)[1:])

    def compute_file_size(self, layout: RowLayout) -> int:
        return PAGE + (self.capacity * layout.word_count + self.cells) * WORD


class StateLease:
    """The state of one partition, leased by one task for one batch."""

    def __init__(self, table: StateTable, file: _MappedFile | None, path: Path | None) -> None:
        self.table = table
        self._file = file
        self._path = path

    def save_version(self, version: str) -> None:
        """Save the state as that of a version; without the lock, nothing is saved."""
        if self._path is None:
            return
        if self._file is not None and self._file.has_table(self.table):
            self._file.write_version(_hash_version(version), self.table.count)
        else:
            _write_file(self._path, self.table, _hash_version(version))


class StateCache:
    """Copies of states in a directory, one file for each name."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    @contextmanager
    def acquire_state(self, name: str, layout: RowLayout, version: str, rebuild: Rebuild) -> Iterator[StateLease]:
        """Lease the state at exactly this version. Until it is saved as another version, the file is invalid."""
        path = self._directory / name
        with _try_lock(self._directory / f"{name}.lock") as is_locked:
            file = _MappedFile.open_version(path, layout, _hash_version(version)) if is_locked else None
            if file is None:
                yield StateLease(rebuild(), None, path if is_locked else None)
                return
            file.write_version(UNSET, file.head.count)
            yield StateLease(file.build_table(layout), file, path)

    def drop_state(self, name: str) -> None:
        (self._directory / name).unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class StatePartition:
    """The state that a batch starts from, and its version afterwards."""

    name: str
    layout: RowLayout
    version: str  # the committed one, which the batch starts from
    following: str  # unique to this attempt: a failed attempt leaves its own version


def run_cached(
    cache: StateCache, part: StatePartition, rebuild: Rebuild, events: Columns, function: Function
) -> BatchOutcome:
    """Run a batch on the cached state if it is valid and has the right version, else on the rebuilt state."""
    try:
        return _run_batch(cache, part, rebuild, events, function)
    except StateDamaged:
        cache.drop_state(part.name)
        return _run_batch(cache, part, rebuild, events, function)


def _run_batch(
    cache: StateCache, part: StatePartition, rebuild: Rebuild, events: Columns, function: Function
) -> BatchOutcome:
    with cache.acquire_state(part.name, part.layout, part.version, rebuild) as lease:
        outcome = run_batch(lease.table, events, function)
        lease.save_version(part.following)
        return outcome


class _MappedFile:
    """A memory-mapped file of cached state."""

    def __init__(self, memory: mmap.mmap, head: _FileHeader) -> None:
        self._memory = memory
        self.head = head

    @classmethod
    def open_version(cls, path: Path, layout: RowLayout, version: bytes) -> _MappedFile | None:
        """Open the file if it is complete and has this version."""
        try:
            with path.open("r+b") as file:
                head = _FileHeader.from_bytes(file.read(PAGE))
                if head is None or (head.layout, head.version) != (layout.digest, version):
                    return None
                is_complete = os.fstat(file.fileno()).st_size == head.compute_file_size(layout)
                return cls(mmap.mmap(file.fileno(), 0), head) if is_complete else None
        except FileNotFoundError:
            return None

    def build_table(self, layout: RowLayout) -> StateTable:
        words = np.frombuffer(self._memory, np.uint64, offset=PAGE)
        split = self.head.capacity * layout.word_count
        return StateTable(layout, words[:split].reshape(-1, layout.word_count), words[split:], self.head.count)

    def has_table(self, table: StateTable) -> bool:
        """Tell whether the table is still in the file. A table that has grown is not."""
        return len(table.words) == self.head.capacity and len(table.cells) == self.head.cells

    def write_version(self, version: bytes, count: int) -> None:
        head = _FileHeader(self.head.layout, version, count, self.head.capacity, self.head.cells).to_bytes()
        self._memory[: len(head)] = head


def _write_file(path: Path, table: StateTable, version: bytes) -> None:
    """Write a temporary file and rename it; a process that has the old file mapped keeps it."""
    head = _FileHeader(table.layout.digest, version, table.count, len(table.words), len(table.cells))
    temporary = path.with_name(f"{path.name}.new")
    with temporary.open("wb") as file:
        file.write(head.to_bytes().ljust(PAGE, b"\0"))
        _write_words(file, table.words)
        _write_words(file, table.cells)
    temporary.replace(path)


def _write_words(file: IO[bytes], words: np.ndarray[Any, Any]) -> None:
    file.write(np.ascontiguousarray(words).data)


@contextmanager
def _try_lock(path: Path) -> Iterator[bool]:
    """Try to lock without waiting; False if it is locked: the holder may live on the host although its task is dead."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def _hash_version(version: str) -> bytes:
    return blake2b(version.encode(), digest_size=32).digest()
