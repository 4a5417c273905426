"""Blocks in an object store that Spark reads and writes itself."""

from __future__ import annotations

from fsspec import AbstractFileSystem

from tidemill.storage.paths import check_literal_path, check_path
from tidemill.storage.store import FileBlockStore

_HADOOP_SCHEMES = {"s3": "s3a"}


class DirectBlockStore(FileBlockStore):
    """Spark is given URLs below the root; this process looks at the same files through fsspec.

    Durability is the object store's: what it has accepted, it keeps.
    """

    def __init__(self, fs: AbstractFileSystem, root: str, url: str) -> None:
        super().__init__(fs, root, url)
        scheme, _, rest = self._name.partition("://")
        self._spark_root = f"{_HADOOP_SCHEMES.get(scheme, scheme)}://{rest}"

    def stage_directory(self, directory: str) -> str:
        return f"{self._spark_root}/{check_literal_path(directory)}"

    def locate_file(self, path: str) -> str:
        return f"{self._spark_root}/{check_path(path)}"
