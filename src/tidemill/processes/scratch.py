"""The temporary directory of this process, which other processes remove if this one is killed.

The process holds a lock on it, which ends with the process: who can acquire the lock knows that the owner is dead.
Cleaners of /tmp that respect such locks leave it alone, too. Its name contains the machine's current boot, because the
locks of other machines on a shared file system may be invisible here.
"""

import atexit
import fcntl
import os
import shutil
import tempfile
import threading
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from platform import node

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class ScratchDirectory:
    path: Path
    lock: int  # a file descriptor; processes that inherit it keep the directory, too


_guard = threading.Lock()
_opened: dict[tuple[int, str], ScratchDirectory] = {}
"""By process, since a fork copies this, and by the directory for temporary files."""


def open_scratch() -> ScratchDirectory:
    """Return the directory of this process; create it on first use, and remove those of dead processes then."""
    key = os.getpid(), tempfile.gettempdir()
    with _guard:
        scratch = _opened.get(key)
        if scratch is None or not scratch.path.is_dir():
            _remove_abandoned(Path(key[1]))
            scratch = _opened[key] = _create_scratch(Path(key[1]))
        return scratch


def _create_scratch(parent: Path) -> ScratchDirectory:
    """Create a locked directory. It gets its name after that, so that no other process takes it for abandoned."""
    created = Path(tempfile.mkdtemp(prefix=".tidemill-", dir=parent))
    lock = os.open(created, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    path = parent / f"{_format_prefix()}{created.name.removeprefix('.tidemill-')}"
    return ScratchDirectory(created.rename(path), lock)


def _remove_abandoned(parent: Path) -> None:
    for directory in parent.glob(f"{_format_prefix()}*"):
        with suppress(OSError):  # another user owns it, or another process removes it
            lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # fails while its owner lives
                shutil.rmtree(directory, ignore_errors=True)
            finally:
                os.close(lock)


@cache
def _format_prefix() -> str:
    boot = _BOOT_ID.read_text().partition("-")[0] if _BOOT_ID.exists() else node()
    return f"tidemill-{boot}-"


@atexit.register
def _remove_own() -> None:
    for (process, _), scratch in _opened.items():
        if process == os.getpid():
            shutil.rmtree(scratch.path, ignore_errors=True)
