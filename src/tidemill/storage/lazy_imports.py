"""Imports of Arrow, done when a file is first read."""

from typing import TYPE_CHECKING

from tidemill.late_imports import import_late

if TYPE_CHECKING:
    from tidemill.storage import parquet_files as parquet_files
else:
    __getattr__ = import_late(__name__, {}, ["tidemill.storage.parquet_files"])
