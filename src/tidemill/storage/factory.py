"""Opening of a block store by its URL."""

import os
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from fsspec import AbstractFileSystem
from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

from tidemill.errors import ConfigError
from tidemill.model.network import hide_credentials
from tidemill.ports.storage import BlockStore
from tidemill.storage.local import LocalBlockStore
from tidemill.storage.paths import PATTERN_CHARACTERS
from tidemill.storage.staged import StagedBlockStore
from tidemill.storage.store import DirectBlockStore


def open_store(
    url: str, *, cache: Path | None = None, staged: bool | None = None, options: Mapping[str, object] = {}
) -> BlockStore:
    """The block store at a path or fsspec URL; it is not accessed until it is used.

    On local disk Spark writes in place, unless `staged` is True. Elsewhere files go through `cache`, unless
    `staged` is False: then Spark must be able to access the URL. `options` are passed to the fsspec file system.
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
        shown = hide_credentials(url)
        raise ConfigError(
            f"cannot open the block store {shown}: {str(error).replace(url, shown)}; "
            "expected a path or a URL such as s3://bucket/blocks, "
            "with the fsspec package for its scheme installed (for s3: pip install 'tidemill[s3]')"
        ) from error
    return fs, root


def _build_cache_path(cache: Path | None, url: str) -> Path:
    """The cache directory of a store. Each store has a separate one, so that equal paths do not collide."""
    home = cache or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tidemill"
    return home / sha256(url.rstrip("/").encode()).hexdigest()[:16]


def _to_absolute(path: str | Path) -> Path:
    return Path(_check_plain(str(Path(path).resolve())))


def _check_plain(path: str) -> str:
    """Reject roots with characters that Spark would interpret as a glob pattern."""
    special = sorted(PATTERN_CHARACTERS.intersection(path))
    if special:
        raise ConfigError(
            f"the block store {hide_credentials(path)} has {' '.join(special)} in its path, "
            "which Spark reads as a pattern; choose a path without them"
        )
    return path
