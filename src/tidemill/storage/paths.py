"""Paths of block files: relative to the store's root, with "/" between the parts, all below the directory of runs."""

from __future__ import annotations

from pathlib import PurePosixPath

from tidemill.errors import StorageError
from tidemill.model.store import RUNS

PATTERN_CHARACTERS = frozenset("[]{}*?\\")
"""What Spark's reader takes for a pattern (or its escape) in a path, whoever meant it literally."""


def check_path(path: str) -> str:
    """The path itself, or `StorageError` if it could name anything outside the directory of runs.

    What else lies below the root is not Tidemill's: it is neither read, written, listed nor deleted.
    """
    first, *others = path.split("/")
    if "\0" in path or first != RUNS or not others or any(part in ("", ".", "..") for part in others):
        raise StorageError(
            f"refused the path {path!r}: expected a path below {RUNS}/ in the block store, without '..'; "
            "if it comes from the catalog, the catalog is damaged"
        )
    return path


def check_literal_path(path: str) -> str:
    """A path inside that Spark takes literally, else `StorageError`."""
    strange = sorted(PATTERN_CHARACTERS.intersection(path))
    if strange:
        raise StorageError(
            f"refused the path {path!r}: Spark reads {' '.join(strange)} as a pattern; choose names without"
        )
    return check_path(path)


def is_marker(path: str) -> bool:
    """Spark's own files beside the data (`_SUCCESS`, `.part-0.crc`, `_temporary/…`), never data themselves."""
    return any(part.startswith(("_", ".")) for part in PurePosixPath(path).parts)
