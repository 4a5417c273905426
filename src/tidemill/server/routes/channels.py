"""Channels: their state and their contents."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Query

from tidemill.app import serialization
from tidemill.app.wiring import Tidemill
from tidemill.encoding import values
from tidemill.model.access import UserRole
from tidemill.model.codec import Json
from tidemill.model.schema import Schema
from tidemill.runtime.inspect.status import ChannelStatus, hide_state_channels, list_reflected_versions, read_status
from tidemill.server.dependencies import AsOf, IncludeStates, Limit, Mill, Name, WaveTag, require_role
from tidemill.server.error_handlers import build_responses
from tidemill.wire import explain_schemas, schemas

router = APIRouter(tags=["channels"], dependencies=[require_role(UserRole.VIEWER)], responses=build_responses(404))


@router.get("/channels", response_model=schemas.ChannelListDocument)
def list_channels(mill: Mill, every: IncludeStates = False) -> Json:
    """List the channels."""
    status = read_status(mill.catalog)
    channels = (status if every else hide_state_channels(status)).channels
    return {"channels": [serialization.serialize_channel(c) for c in channels]}


@router.get("/channels/{name}", response_model=schemas.ChannelDetailsDocument)
def get_channel(mill: Mill, name: Name) -> Json:
    """Show one channel with its schema and its readers."""
    return {
        "channel": serialization.serialize_channel(_find_channel_status(mill, name)),
        "compaction": mill.compaction(name),
    }


@router.get("/channels/{name}/schema", response_model=schemas.ChannelSchemaDocument)
def get_schema(mill: Mill, name: Name) -> Json:
    """Show a channel's columns; null if the first block decides."""
    return {"channel": name, "schema": serialization.serialize_schema(mill.catalog.read_channel(name).channel.schema)}


@router.get("/channels/{name}/blocks", response_model=schemas.BlockListDocument)
def list_blocks(mill: Mill, name: Name, limit: Limit = 20) -> Json:
    """List a channel's blocks, the newest first."""
    return {"blocks": [serialization.serialize_block(b) for b in mill.catalog.list_blocks(name, limit)]}


@router.get("/channels/{name}/rows", response_model=schemas.RowsDocument, responses=build_responses(400, 410))
def get_rows(
    mill: Mill,
    name: Name,
    limit: Annotated[int, Query(description="The maximum number of rows.", ge=0, le=10_000)] = 20,
    as_of: AsOf = None,
) -> Json:
    """Show rows of a channel, now or as of a sequence number or a time, in no particular order."""
    rows = mill.rows(name, as_of, limit + 1)  # one more, to find out whether there are others
    columns = (mill.catalog.read_channel(name).channel.schema or Schema(())).fields
    page = [{f.name: values.to_json(r[f.name], f.data_type) for f in columns} for r in rows[:limit]]
    return {"channel": name, "rows": page, "more": len(rows) > limit}


@router.get("/channels/{name}/lineage", response_model=explain_schemas.LineageDocument, responses=build_responses(400))
def get_lineage(mill: Mill, name: Name, tag: WaveTag) -> Json:
    """Show the events that an event derives from, and those derived from it, by the tag of its wave."""
    return serialization.serialize_lineage(mill.lineage(name, tag))


@router.get("/channels/{name}/explain", response_model=explain_schemas.ExplanationDocument)
def explain_channel(mill: Mill, name: Name) -> Json:
    """Show how a table is refreshed: its operators, its state, its variants, and which would run now and why."""
    return asdict(mill.explain(name))


def _find_channel_status(mill: Tidemill, name: str) -> ChannelStatus:
    """The status of a channel, also of one that is no longer declared, which has no readers."""
    registered = mill.catalog.read_channel(name)
    declared = (c for c in read_status(mill.catalog).channels if c.registered.channel.name == name)
    return next(declared, ChannelStatus(registered, list_reflected_versions(registered.head.provenance), ()))
