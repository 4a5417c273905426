"""Blocks: their details, their lineage, and pinning."""

from __future__ import annotations

from fastapi import APIRouter

from tidemill.app import serialization
from tidemill.model.access import UserRole
from tidemill.model.codec import Json
from tidemill.runtime.maintenance import pins
from tidemill.server.dependencies import Limit, Mill, Number, require_role
from tidemill.server.error_handlers import build_responses
from tidemill.wire import schemas

_ADMIN = [require_role(UserRole.ADMIN)]
"""As for datasets: pinning takes storage from others."""

router = APIRouter(tags=["blocks"], dependencies=[require_role(UserRole.VIEWER)], responses=build_responses(404))


@router.get("/blocks", response_model=schemas.BlockListDocument)
def list_blocks(mill: Mill, limit: Limit = 20) -> Json:
    """List blocks of all channels, the newest first."""
    return {"blocks": [serialization.serialize_block(b) for b in mill.catalog.list_blocks(None, limit)]}


@router.get("/blocks/{block}", response_model=schemas.BlockDocument)
def get_block(mill: Mill, block: Number) -> Json:
    """Show one block."""
    return serialization.serialize_block(mill.catalog.read_block(block))


@router.get("/blocks/{block}/trace", response_model=schemas.TraceDocument)
def get_block_trace(mill: Mill, block: Number) -> Json:
    """Show the blocks that a block was computed from, and those computed from it."""
    return serialization.serialize_trace(mill.trace(block))


@router.post(
    "/blocks/{block}/pin", response_model=schemas.PinDocument, responses=build_responses(409), dependencies=_ADMIN
)
def pin_block(mill: Mill, block: Number) -> Json:
    """Protect a block, and all blocks that it was computed from, from garbage collection."""
    pinned = pins.pin_block(mill.catalog, block)
    return {"block": serialization.serialize_block(mill.catalog.read_block(block)), "retained_blocks": sorted(pinned)}


@router.post("/blocks/{block}/unpin", response_model=schemas.PinDocument, dependencies=_ADMIN)
def unpin_block(mill: Mill, block: Number) -> Json:
    """Allow garbage collection of a pinned block when it is no longer needed."""
    mill.catalog.unpin_block(block)
    return {"block": serialization.serialize_block(mill.catalog.read_block(block)), "retained_blocks": []}
