"""Datasets: stored ones, candidates for eviction, and pinning (only by admins: it takes storage from others)."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path

from tidemill.app import serialization
from tidemill.server.dependencies import AS_ADMIN, AS_VIEWER, Mill
from tidemill.server.error_handlers import build_responses
from tidemill.wire import oneshot_schemas

router = APIRouter(tags=["datasets"])
DatasetPrefix = Annotated[
    str, Path(description="A prefix of the dataset's identity.", pattern="^[0-9a-f]+$", max_length=200)
]


@router.get("/storage", dependencies=AS_VIEWER)
def get_storage(mill: Mill) -> oneshot_schemas.StorageDocument:
    """Show which datasets are stored and why, and which the next eviction would delete, with their
    recomputation cost.
    """
    return serialization.serialize_storage(mill.oneshot_service.report_storage(), evicted=False)


@router.post("/datasets/{dataset}/pin", responses=build_responses(404, 409), dependencies=AS_ADMIN)
def pin_dataset(mill: Mill, dataset: DatasetPrefix) -> oneshot_schemas.DatasetDocument:
    """Protect a dataset from eviction."""
    return oneshot_schemas.DatasetDocument.model_validate(mill.oneshot_service.pin_dataset(dataset))


@router.post("/datasets/{dataset}/unpin", responses=build_responses(404, 409), dependencies=AS_ADMIN)
def unpin_dataset(mill: Mill, dataset: DatasetPrefix) -> oneshot_schemas.DatasetDocument:
    """Allow eviction of a pinned dataset when space is short."""
    return oneshot_schemas.DatasetDocument.model_validate(mill.oneshot_service.pin_dataset(dataset, pinned=False))
