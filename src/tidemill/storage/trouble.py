"""Translation of file system errors to messages for users."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from tidemill.errors import StorageError, TidemillError

_FULL = ("the disk is full", "free some space or move the block store, then try again")
_FORBIDDEN = ("permission is denied", "give the user who runs Tidemill write access, or choose another block store")
_READ_ONLY = ("the file system is read-only", "make it writable, or choose another block store")
_MISSING = ("it does not exist and cannot be created", "create it, or choose another block store")
_FILE_IN_THE_WAY = ("a part of the path is a file", "remove that file, or choose another block store")
_OTHER = "check that the block store can be reached, then try again"

_KNOWN = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EACCES: _FORBIDDEN,
    errno.EPERM: _FORBIDDEN,
    errno.EROFS: _READ_ONLY,
    errno.ENOENT: _MISSING,
    errno.ENOTDIR: _FILE_IN_THE_WAY,
    errno.EEXIST: _FILE_IN_THE_WAY,
}


class UnreadableParquet(Exception):
    """The bytes are not a complete Parquet file; the message is Arrow's."""


@contextmanager
def translate_errors(action: str, path: str) -> Iterator[None]:
    """Turn any exception of a file system into a `StorageError` that names the path.

    All exceptions are caught, not only `OSError`: the clients of object stores raise others (botocore's for a refused
    connection or missing credentials are not OSErrors).
    """
    try:
        yield
    except TidemillError:
        raise
    except Exception as error:
        reason, advice = _explain_error(error)
        raise StorageError(f"cannot {action} {path}: {reason}; {advice}") from error


def _explain_error(error: Exception) -> tuple[str, str]:
    number = _find_errno(error)
    if number in _KNOWN:
        return _KNOWN[number]
    return str(error) or type(error).__name__, _OTHER


def _find_errno(error: Exception) -> int | None:
    """The errno, also for subclasses of OSError that s3fs and others raise without one."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno
    if isinstance(error, PermissionError):
        return errno.EACCES
    return errno.ENOENT if isinstance(error, FileNotFoundError) else None
