"""Paths of block files: relative to the store's root, with "/" between the parts, all below the directory of runs."""

from pathlib import PurePosixPath

from tidemill.errors import StorageError
from tidemill.model.store import RUNS_DIRECTORY

PATTERN_CHARACTERS = frozenset("[]{}*?\\")
"""Characters that Spark's reader interprets as a glob pattern, or its escape, in a path."""


def check_path(path: str) -> str:
    """The path itself; raises `StorageError` if it could be outside the directory of runs.

    Other files below the root do not belong to Tidemill: they are never read, written, listed or deleted.
    """
    first, *others = path.split("/")
    if "\0" in path or first != RUNS_DIRECTORY or not others or any(part in ("", ".", "..") for part in others):
        raise StorageError(
            f"rejected the path {path!r}: expected a path below {RUNS_DIRECTORY}/ in the block store, without '..'; "
            "if it comes from the catalog, the catalog is damaged"
        )
    return path


def check_literal_path(path: str) -> str:
    """The path itself; raises `StorageError` if Spark would not read it literally."""
    special = sorted(PATTERN_CHARACTERS.intersection(path))
    if special:
        raise StorageError(
            f"rejected the path {path!r}: Spark reads {' '.join(special)} as a pattern; choose names without them"
        )
    return check_path(path)


def is_marker(path: str) -> bool:
    """Whether it is an auxiliary file of Spark (`_SUCCESS`, `.part-0.crc`, `_temporary/…`), which holds no data."""
    return any(part.startswith(("_", ".")) for part in PurePosixPath(path).parts)
