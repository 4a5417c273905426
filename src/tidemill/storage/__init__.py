"""Block stores on local disk and in object stores."""

from tidemill.storage.dataset_copies import LocalDatasetCopier
from tidemill.storage.factory import open_store
from tidemill.storage.local import LocalBlockStore
from tidemill.storage.staged import StagedBlockStore
from tidemill.storage.store import DirectBlockStore, FileBlockStore

__all__ = [
    "DirectBlockStore",
    "FileBlockStore",
    "LocalBlockStore",
    "LocalDatasetCopier",
    "StagedBlockStore",
    "open_store",
]
