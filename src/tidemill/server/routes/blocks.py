"""Blocks: their details, their lineage, and pinning, which only admins may do: it takes storage from others."""

from typing import Annotated

from fastapi import APIRouter, Query

from tidemill.app import inspection
from tidemill.runtime.inspect.block_trace import MAX_TRACE_DEPTH
from tidemill.server.dependencies import AS_ADMIN, AS_VIEWER, Limit, Mill, Number
from tidemill.server.error_handlers import build_responses
from tidemill.wire import schemas

router = APIRouter(tags=["blocks"], dependencies=AS_VIEWER, responses=build_responses(404))

Depth = Annotated[int, Query(description="The steps to follow in each direction.", ge=1, le=MAX_TRACE_DEPTH)]


@router.get("/blocks")
def list_blocks(mill: Mill, limit: Limit = 20) -> schemas.BlockListDocument:
    """List blocks of all channels, the newest first."""
    return schemas.BlockListDocument.build(blocks=mill.catalog.blocks.list(None, limit))


@router.get("/blocks/{block}")
def get_block(mill: Mill, block: Number) -> schemas.BlockDocument:
    """Show one block."""
    return schemas.BlockDocument.model_validate(mill.catalog.blocks.read(block))


@router.get("/blocks/{block}/trace")
def get_block_trace(mill: Mill, block: Number, depth: Depth = 1) -> schemas.TraceDocument:
    """Show the blocks that a block was computed from, and those computed from it, over several steps."""
    return schemas.TraceDocument.model_validate(mill.trace(block, depth))


@router.post("/blocks/{block}/pin", responses=build_responses(409), dependencies=AS_ADMIN)
def pin_block(mill: Mill, block: Number) -> schemas.PinDocument:
    """Protect a block, and all blocks that it was computed from, from garbage collection."""
    return inspection.pin_block(mill.catalog, block, pinned=True)


@router.post("/blocks/{block}/unpin", dependencies=AS_ADMIN)
def unpin_block(mill: Mill, block: Number) -> schemas.PinDocument:
    """Allow garbage collection of a pinned block when it is no longer needed."""
    return inspection.pin_block(mill.catalog, block, pinned=False)
