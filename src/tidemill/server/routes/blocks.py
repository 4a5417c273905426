"""Blocks: one of them, and where it came from."""

from __future__ import annotations

from fastapi import APIRouter

from tidemill import documents
from tidemill.model.access import Role
from tidemill.model.codec import Json
from tidemill.server.declared import answers
from tidemill.server.doors import Mill, needs
from tidemill.server.parameters import Limit, Number
from tidemill.wire import shapes

router = APIRouter(tags=["blocks"], dependencies=[needs(Role.VIEWER)], responses=answers(404))


@router.get("/blocks", response_model=shapes.Blocks)
def blocks(mill: Mill, limit: Limit = 20) -> Json:
    """List blocks of all channels, the newest first."""
    return {"blocks": [documents.block(b) for b in mill.catalog.blocks(None, limit)]}


@router.get("/blocks/{block}", response_model=shapes.Block)
def block(mill: Mill, block: Number) -> Json:
    """Show one block."""
    return documents.block(mill.catalog.block(block))


@router.get("/blocks/{block}/trace", response_model=shapes.Trace)
def trace(mill: Mill, block: Number) -> Json:
    """Show what a block was made from, and what was made from it."""
    return documents.trace(mill.trace(block))
