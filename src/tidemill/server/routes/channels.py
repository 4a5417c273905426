"""Channels: their state and their contents."""

from typing import Annotated

from fastapi import APIRouter, Query

from tidemill.app import inspection, serialization
from tidemill.server.dependencies import AS_VIEWER, AsOf, IncludeStates, Limit, Mill, Name, WaveTag
from tidemill.server.error_handlers import build_responses
from tidemill.wire import explain_schemas, schemas

router = APIRouter(tags=["channels"], dependencies=AS_VIEWER, responses=build_responses(404))


@router.get("/channels")
def list_channels(mill: Mill, every: IncludeStates = False) -> schemas.ChannelListDocument:
    """List the channels."""
    return schemas.ChannelListDocument.build(
        channels=inspection.read_visible_status(mill.catalog, every=every).channels
    )


@router.get("/channels/{name}")
def get_channel(mill: Mill, name: Name) -> schemas.ChannelDetailsDocument:
    """Show one channel with its schema and its readers."""
    return schemas.ChannelDetailsDocument.build(
        channel=inspection.find_channel_status(mill.catalog, name), compaction=mill.compaction(name)
    )


@router.get("/channels/{name}/schema")
def get_schema(mill: Mill, name: Name) -> schemas.ChannelSchemaDocument:
    """Show a channel's columns; null if the first block decides."""
    return schemas.ChannelSchemaDocument.build(channel=name, schema=mill.catalog.channels.read(name).channel.schema)


@router.get("/channels/{name}/blocks")
def list_blocks(mill: Mill, name: Name, limit: Limit = 20) -> schemas.BlockListDocument:
    """List a channel's blocks, the newest first."""
    return schemas.BlockListDocument.build(blocks=mill.catalog.blocks.list(name, limit))


@router.get("/channels/{name}/rows", responses=build_responses(400, 410))
def get_rows(
    mill: Mill,
    name: Name,
    limit: Annotated[int, Query(description="The maximum number of rows.", ge=0, le=10_000)] = 20,
    as_of: AsOf = None,
) -> schemas.RowsDocument:
    """Show rows of a channel, now or as of a sequence number or a time, in no particular order."""
    rows = mill.rows(name, as_of, limit + 1)  # one more, to find out whether there are others
    return serialization.serialize_rows(name, mill.catalog.channels.read(name).channel.schema, rows, limit)


@router.get("/channels/{name}/lineage", responses=build_responses(400))
def get_lineage(mill: Mill, name: Name, tag: WaveTag) -> explain_schemas.LineageDocument:
    """Show the events that an event derives from, and those derived from it, by the tag of its wave."""
    return serialization.serialize_lineage(mill.lineage(name, tag))


@router.get("/channels/{name}/explain")
def explain_channel(mill: Mill, name: Name) -> explain_schemas.ExplanationDocument:
    """Show how a table is refreshed: its operators, its state, its variants, and which would run now and why."""
    return explain_schemas.ExplanationDocument.model_validate(mill.explain(name))
