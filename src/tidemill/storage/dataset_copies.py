"""Copies of datasets in users' directories."""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from tidemill.errors import StorageError
from tidemill.model.block import DataFile
from tidemill.storage.local import fsync_path
from tidemill.storage.trouble import translate_errors

_FILE_PREFIX = "tidemill-"


@dataclass(frozen=True, slots=True)
class LocalDatasetCopier:
    """Copies datasets to users' paths. `locate` returns the local path of a file of the store."""

    locate: Callable[[str], str]
    root: Path  # the base of relative paths

    def place_copy(self, identity: str, files: Sequence[DataFile], path: str) -> bool:
        """Make a directory contain exactly these files; False if it already does. Readers see the old or new files."""
        target = (self.root / path).resolve()
        copies = {f"{_FILE_PREFIX}{identity[:16]}-{i}.parquet": file for i, file in enumerate(files)}
        with translate_errors("write a result to", str(target)):
            entries = _list_entries(target)
            if target.is_dir() and entries == {name: file.bytes for name, file in copies.items()}:
                return False
            _check_ours(target)
            self._swap_directory(target, copies)
        return True

    def _swap_directory(self, target: Path, copies: dict[str, DataFile]) -> None:
        """Replace a directory by a new one, which is complete and durable before the swap."""
        target.parent.mkdir(parents=True, exist_ok=True)
        new, old = (target.with_name(f".{target.name}-{uuid4().hex}-{suffix}") for suffix in ("new", "old"))
        new.mkdir()
        for name, file in copies.items():
            shutil.copyfile(self.locate(file.path), new / name)
            fsync_path(new / name)
        fsync_path(new)
        if target.exists():
            target.rename(old)
        new.rename(target)
        fsync_path(target.parent)
        if old.exists():
            _clear_old(old, target)


def _list_entries(target: Path) -> dict[str, int]:
    """Names and sizes of the entries of a directory, or of the file at its path."""
    if not target.is_dir():
        return {target.name: target.stat().st_size} if target.exists() else {}
    return {entry.name: entry.stat().st_size for entry in target.iterdir()}


def _is_ours(entry: Path) -> bool:
    return entry.name.startswith(_FILE_PREFIX) and entry.suffix == ".parquet" and entry.is_file()


def _clear_old(old: Path, target: Path) -> None:
    """Delete the replaced copies. Other files, which a user added meanwhile, move to the new directory."""
    for entry in old.iterdir():
        if _is_ours(entry):
            entry.unlink()
        else:
            entry.rename(target / entry.name)
    old.rmdir()


def _check_ours(target: Path) -> None:
    entries = list(target.iterdir()) if target.is_dir() else [target] if target.exists() else []
    foreign = sorted(entry.name for entry in entries if entry == target or not _is_ours(entry))
    if foreign:
        raise StorageError(
            f"{target} contains files that Tidemill did not write ({', '.join(foreign[:3])}); nothing was changed: "
            "move them away, or give the action another path"
        )
