"""Block store layout: the marker that names its catalog, the directory names, and pending removals."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tidemill.model.time import Version

RUNS_DIRECTORY = "runs"
"""The directory below the store's root that holds all files written by runs, and no other files of Tidemill."""

MARKER_FORMAT = 1


def format_attempt_directory(run: int, fencing_token: int) -> str:
    """The directory of one attempt of a run; no other attempt writes to it.

    >>> format_attempt_directory(17, 1700000000000000)
    'runs/17/1700000000000000'
    """
    return f"{RUNS_DIRECTORY}/{run}/{fencing_token}"


def is_written_by_runs(path: str) -> bool:
    """Whether this is a file that attempts write in their directories: Parquet, or Spark's auxiliary files.

    >>> is_written_by_runs("runs/1/5/7/part-0.parquet"), is_written_by_runs("runs/1/5/7/_temporary/0/x.tmp")
    (True, True)
    >>> is_written_by_runs("runs/1/5/7/orders.csv")
    False
    """
    inside = path.split("/")[3:]
    return path.endswith(".parquet") or any(part.startswith(("_", ".")) for part in inside)


@dataclass(frozen=True, slots=True)
class StoreMarker:
    """The file in a store's root that names the catalog to which the store belongs."""

    catalog: str  # its id
    clock: Version  # a reading of its clock, which never goes back: a catalog behind it was restored from an older copy
    created: float  # seconds since the epoch
    inherited: int = 0  # at adoption, the greatest run number with a directory in the store, from any catalog
    format: int = MARKER_FORMAT

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> StoreMarker:
        """Parse a marker; raises `KeyError`, `TypeError` or `ValueError` if it is invalid."""
        numbers = (int(data["clock"]), float(data["created"]), int(data["inherited"]), int(data["format"]))
        return cls(str(data["catalog"]), *numbers)


class RemovalKind(StrEnum):
    """The kind of a path that is marked for removal."""

    FILE = "file"  # of a garbage-collected block
    ATTEMPT = "attempt"  # the directory of an attempt that ended without a result
    ORPHAN = "orphan"  # an unreferenced file in the directory of an attempt that has ended


@dataclass(frozen=True, slots=True)
class Removal:
    """A path below the store's root that is marked for removal."""

    path: str
    kind: RemovalKind


@dataclass(frozen=True, slots=True)
class GracePeriods:
    """Seconds between marking and removal."""

    blocks: float = 120.0  # files of garbage-collected blocks: the catalog tracks all their readers
    orphans: float = 86_400.0  # files of ended attempts: their processes may still be writing
