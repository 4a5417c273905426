"""A block store in an object store that Spark accesses directly."""

from __future__ import annotations

from fsspec import AbstractFileSystem

from tidemill.storage.paths import check_literal_path, check_path
from tidemill.storage.store import FileBlockStore

_HADOOP_SCHEMES = {"s3": "s3a"}


class DirectBlockStore(FileBlockStore):
    """Spark uses URLs below the root; this process accesses the same files through fsspec.

    The object store guarantees durability of accepted files.
    """

    def __init__(self, fs: AbstractFileSystem, root: str, url: str) -> None:
        super().__init__(fs, root, url)
        scheme, _, path = self._name.partition("://")
        self._spark_root = f"{_HADOOP_SCHEMES.get(scheme, scheme)}://{path}"

    def stage_directory(self, directory: str) -> str:
        return f"{self._spark_root}/{check_literal_path(directory)}"

    def locate_file(self, path: str) -> str:
        return f"{self._spark_root}/{check_path(path)}"
