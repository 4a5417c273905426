"""Copies of datasets in users' directories."""

import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from tidemill.errors import StorageError
from tidemill.model.block import DataFile
from tidemill.model.identity import Identity
from tidemill.storage.local import fsync_path
from tidemill.storage.trouble import translate_errors


@dataclass(frozen=True, slots=True)
class LocalDatasetCopier:
    """Copies datasets to users' paths, where it replaces only the copies that were requested there before."""

    locate: Callable[[str], str]  # the local path of a file of the store
    list_copies: Callable[[], Iterable[tuple[str, Identity]]]  # every requested copy: its path, and its dataset
    root: Path  # the base of relative paths

    def place_copy(self, identity: Identity, files: Sequence[DataFile], path: str) -> bool:
        """Make a directory contain exactly these files; False if it already does. Readers see the old or new files."""
        target = (self.root / path).resolve()
        copies = {f"{_build_prefix(identity)}{i}.parquet": file for i, file in enumerate(files)}
        with translate_errors("write a result to", str(target)):
            entries = _list_entries(target)
            if target.is_dir() and entries == {name: file.bytes for name, file in copies.items()}:
                return False
            own_prefixes = self._list_own_prefixes(target) if entries else ()
            _check_own(target, own_prefixes)
            self._swap_directory(target, copies, own_prefixes)
        return True

    def _list_own_prefixes(self, target: Path) -> tuple[str, ...]:
        """How the names of the copies in a directory begin."""
        return tuple(_build_prefix(i) for path, i in self.list_copies() if (self.root / path).resolve() == target)

    def _swap_directory(self, target: Path, copies: dict[str, DataFile], own_prefixes: tuple[str, ...]) -> None:
        """Replace a directory by a new one, which is complete and durable before the swap."""
        target.parent.mkdir(parents=True, exist_ok=True)
        new, old = (target.with_name(f".{target.name}-{uuid4().hex}-{suffix}") for suffix in ("new", "old"))
        new.mkdir()
        try:
            for name, file in copies.items():
                shutil.copyfile(self.locate(file.path), new / name)
                fsync_path(new / name)
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise
        fsync_path(new)
        if target.exists():
            target.rename(old)
        new.rename(target)
        fsync_path(target.parent)
        if old.exists():
            _clear_old(old, target, own_prefixes)


def _build_prefix(identity: Identity) -> str:
    return f"tidemill-{identity[:16]}-"


def _list_entries(target: Path) -> dict[str, int]:
    """Names and sizes of the entries of a directory, or of the file at its path."""
    if not target.is_dir():
        return {target.name: target.stat().st_size} if target.exists() else {}
    return {entry.name: entry.stat().st_size for entry in target.iterdir()}


def _is_own(entry: Path, own_prefixes: tuple[str, ...]) -> bool:
    return entry.name.startswith(own_prefixes) and entry.suffix == ".parquet" and entry.is_file()


def _clear_old(old: Path, target: Path, own_prefixes: tuple[str, ...]) -> None:
    """Delete the replaced copies. Other files, which a user added meanwhile, move to the new directory."""
    for entry in old.iterdir():
        if _is_own(entry, own_prefixes):
            entry.unlink()
        else:
            entry.rename(target / entry.name)
    old.rmdir()


def _check_own(target: Path, own_prefixes: tuple[str, ...]) -> None:
    entries = list(target.iterdir()) if target.is_dir() else [target] if target.exists() else []
    foreign = sorted(entry.name for entry in entries if entry == target or not _is_own(entry, own_prefixes))
    if foreign:
        raise StorageError(
            f"{target} contains files that are no copies of results of this project ({', '.join(foreign[:3])}); "
            "nothing was changed: move them away, or give the action another path"
        )
