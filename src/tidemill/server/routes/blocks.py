"""Blocks: one of them, where it came from, and that both stay."""

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
"""As for datasets: what one keeps, others do without."""

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
    """Show what a block was made from, and what was made from it."""
    return serialization.serialize_trace(mill.trace(block))


@router.post(
    "/blocks/{block}/pin", response_model=schemas.PinDocument, responses=build_responses(409), dependencies=_ADMIN
)
def pin_block(mill: Mill, block: Number) -> Json:
    """Keep a block, and all that it was made from, from being collected."""
    held = pins.pin_block(mill.catalog, block)
    return {"block": serialization.serialize_block(mill.catalog.read_block(block)), "held": sorted(held)}


@router.post("/blocks/{block}/unpin", response_model=schemas.PinDocument, dependencies=_ADMIN)
def unpin_block(mill: Mill, block: Number) -> Json:
    """Let a block that was pinned be collected when nobody needs it."""
    mill.catalog.unpin_block(block)
    return {"block": serialization.serialize_block(mill.catalog.read_block(block)), "held": []}
