"""From a URL to the store behind it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from fsspec import AbstractFileSystem
from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

from tidemill.errors import ConfigError
from tidemill.ports.storage import BlockStore
from tidemill.storage.direct import DirectBlockStore
from tidemill.storage.local import LocalBlockStore
from tidemill.storage.paths import PATTERN_CHARACTERS
from tidemill.storage.staged import StagedBlockStore


def open_store(
    url: str, *, cache: Path | None = None, staged: bool | None = None, options: Mapping[str, object] = {}
) -> BlockStore:
    """The block store at a path or fsspec URL; nothing is touched until it is used.

    On local disk Spark writes in place, unless `staged` is True. Elsewhere files go through `cache`, unless
    `staged` is False: then Spark itself must be able to reach the URL. `options` go to the fsspec file system.
    """
    fs, root = _open_file_system(_check_plain(url), options)
    if isinstance(fs, LocalFileSystem):
        if not staged:
            return LocalBlockStore(_to_absolute(root))
        fs = LocalFileSystem(auto_mkdir=True)
    if staged is False:
        return DirectBlockStore(fs, root, url)
    return StagedBlockStore(fs, root, url, _to_absolute(_build_cache_path(cache, url)))


def _open_file_system(url: str, options: Mapping[str, object]) -> tuple[AbstractFileSystem, str]:
    try:
        fs, root = url_to_fs(url, **options)
    except (ImportError, ValueError, TypeError) as error:
        raise ConfigError(
            f"cannot open the block store {url}: {error}; expected a path or a URL such as s3://bucket/blocks, "
            "with the fsspec package for its scheme installed (for s3: pip install 'tidemill[s3]')"
        ) from error
    return fs, root


def _build_cache_path(cache: Path | None, url: str) -> Path:
    """Each store has its own part of the cache, so that two of them never mix up equal paths."""
    home = cache or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tidemill"
    return home / sha256(url.rstrip("/").encode()).hexdigest()[:16]


def _to_absolute(path: str | Path) -> Path:
    return Path(_check_plain(str(Path(path).resolve())))


def _check_plain(place: str) -> str:
    """Spark would take these characters in a root for a pattern, and read other files or none."""
    strange = sorted(PATTERN_CHARACTERS.intersection(place))
    if strange:
        raise ConfigError(
            f"the block store {place} has {' '.join(strange)} in its path, which Spark reads as a pattern; "
            "choose a path without"
        )
    return place
