"""Copies of datasets in directories of users' own."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from tidemill.errors import StorageError
from tidemill.model.block import DataFile
from tidemill.storage.local import fsync_path
from tidemill.storage.trouble import translate_errors

_OURS = "tidemill-"


@dataclass(frozen=True, slots=True)
class LocalDatasetCopier:
    """Puts copies where users want them. `locate` says where this process can read a file of the store."""

    locate: Callable[[str], str]
    root: Path  # that relative paths are relative to

    def place_copy(self, identity: str, files: Sequence[DataFile], path: str) -> bool:
        """Make a directory hold exactly these files; False if it does already. Whoever reads it finds old or new."""
        place = (self.root / path).resolve()
        wanted = {f"{_OURS}{identity[:16]}-{n}.parquet": file for n, file in enumerate(files)}
        with translate_errors("put a result in", str(place)):
            found = _list_entries(place)
            if place.is_dir() and found == {name: file.bytes for name, file in wanted.items()}:
                return False
            _check_ours(place)
            self._swap_directory(place, wanted)
        return True

    def _swap_directory(self, place: Path, wanted: dict[str, DataFile]) -> None:
        """The new directory is complete and durable before it takes the place of the old one."""
        place.parent.mkdir(parents=True, exist_ok=True)
        new, old = (place.with_name(f".{place.name}-{uuid4().hex}-{what}") for what in ("new", "old"))
        new.mkdir()
        for name, file in wanted.items():
            shutil.copyfile(self.locate(file.path), new / name)
            fsync_path(new / name)
        fsync_path(new)
        if place.exists():
            place.rename(old)
        new.rename(place)
        fsync_path(place.parent)
        if old.exists():
            _clear_old(old, place)


def _list_entries(place: Path) -> dict[str, int]:
    """Names and sizes of what is there."""
    if not place.is_dir():
        return {place.name: place.stat().st_size} if place.exists() else {}
    return {entry.name: entry.stat().st_size for entry in place.iterdir()}


def _is_ours(entry: Path) -> bool:
    return entry.name.startswith(_OURS) and entry.suffix == ".parquet" and entry.is_file()


def _clear_old(old: Path, place: Path) -> None:
    """Delete the copies that were replaced. What a user put beside them meanwhile moves on to the new directory."""
    for entry in old.iterdir():
        if _is_ours(entry):
            entry.unlink()
        else:
            entry.rename(place / entry.name)
    old.rmdir()


def _check_ours(place: Path) -> None:
    entries = list(place.iterdir()) if place.is_dir() else [place] if place.exists() else []
    foreign = sorted(entry.name for entry in entries if entry == place or not _is_ours(entry))
    if foreign:
        raise StorageError(
            f"{place} holds what Tidemill did not put there ({', '.join(foreign[:3])}); nothing was changed: "
            "move it away, or give the action another path"
        )
