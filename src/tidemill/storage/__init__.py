"""Block stores on local disk and in object stores."""

from tidemill.storage.dataset_copies import LocalDatasetCopier
from tidemill.storage.factory import open_store

__all__ = ["LocalDatasetCopier", "open_store"]
