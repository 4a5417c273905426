"""Blocks: one of them, where it came from, and that both stay."""

from __future__ import annotations

from fastapi import APIRouter

from tidemill.app import serialization
from tidemill.model.access import Role
from tidemill.model.codec import Json
from tidemill.runtime.maintenance import pins
from tidemill.server.dependencies import Limit, Mill, Number, needs
from tidemill.server.error_handlers import answers
from tidemill.wire import schemas

_ADMIN = [needs(Role.ADMIN)]
"""As for datasets: what one keeps, others do without."""

router = APIRouter(tags=["blocks"], dependencies=[needs(Role.VIEWER)], responses=answers(404))


@router.get("/blocks", response_model=schemas.Blocks)
def blocks(mill: Mill, limit: Limit = 20) -> Json:
    """List blocks of all channels, the newest first."""
    return {"blocks": [serialization.block(b) for b in mill.catalog.blocks(None, limit)]}


@router.get("/blocks/{block}", response_model=schemas.Block)
def block(mill: Mill, block: Number) -> Json:
    """Show one block."""
    return serialization.block(mill.catalog.block(block))


@router.get("/blocks/{block}/trace", response_model=schemas.Trace)
def trace(mill: Mill, block: Number) -> Json:
    """Show what a block was made from, and what was made from it."""
    return serialization.trace(mill.trace(block))


@router.post("/blocks/{block}/pin", response_model=schemas.Pinned, responses=answers(409), dependencies=_ADMIN)
def pin(mill: Mill, block: Number) -> Json:
    """Keep a block, and all that it was made from, from being collected."""
    held = pins.pin(mill.catalog, block)
    return {"block": serialization.block(mill.catalog.block(block)), "held": sorted(held)}


@router.post("/blocks/{block}/unpin", response_model=schemas.Pinned, dependencies=_ADMIN)
def unpin(mill: Mill, block: Number) -> Json:
    """Let a block that was pinned be collected when nobody needs it."""
    mill.catalog.unpin(block)
    return {"block": serialization.block(mill.catalog.block(block)), "held": []}
