"""Inserting into input channels."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from tidemill.app import serialization
from tidemill.app.wiring import Tidemill
from tidemill.errors import InsertUnderWay
from tidemill.model.access import Role
from tidemill.model.block import Kind
from tidemill.model.codec import Json
from tidemill.runtime.runs.insert import LOOK, Inserted
from tidemill.runtime.runs.insert_batcher import Small, Taken, Wanted
from tidemill.server import upload, upload_loading
from tidemill.server.batching import Batches
from tidemill.server.dependencies import Mill, Name, Smalls, TheOptions, Wake, channels_workflow, needs
from tidemill.server.error_handlers import Responses, answers
from tidemill.server.options import Options
from tidemill.server.upload import Format
from tidemill.wire import schemas

router = APIRouter(tags=["channels"])

Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        description="A name for this insert: repeated with the same one, it does nothing.",
        pattern=r"^[\x21-\x7e]{1,200}$",
    ),
]
_BYTES: Json = {"schema": {"type": "string", "format": "binary"}}
_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "The file itself: CSV with a header, JSON lines, Parquet or Arrow IPC; perhaps gzipped.",
        "content": dict.fromkeys((*upload.TYPES, "application/octet-stream"), _BYTES),
    }
}

_REPEATED: Responses = {200: {"model": schemas.Inserted, "description": "Inserted before under this key"}}


@router.post(
    "/channels/{name}/blocks",
    status_code=201,
    response_model=schemas.Inserted,
    responses=_REPEATED | answers(400, 404, 409, 413, 415),
    openapi_extra=_BODY,
    dependencies=[needs(Role.OPERATOR, of=channels_workflow)],
)
async def insert(
    request: Request,
    response: Response,
    mill: Mill,
    options: TheOptions,
    wake: Wake,
    small: Smalls,
    name: Name,
    format: Annotated[Format | None, Query(description="Else as the media type says.")] = None,
    kind: Annotated[Kind, Query(description="base: the whole content, not a change to it.")] = Kind.DELTA,
    key: Key = None,
) -> Json:
    """Insert a file into an input channel: all of its rows, or none."""
    chosen = upload.format_of(request, format)
    async with upload.received(request, small=options.small, limit=options.upload) as sent:
        if isinstance(sent, bytes) and upload_loading.may_share(chosen, kind):
            done = await _add(mill, small, Small(name, sent, chosen, key))
            assert isinstance(done, Inserted)  # a message may be known without its block, an insert is not
        else:
            done = await run_in_threadpool(_load, mill, options, name, sent, chosen, kind, key)
            wake()
    if done.repeated:
        response.status_code = 200
    return {"block": serialization.block(done.block), "repeated": done.repeated}


async def _add(mill: Tidemill, small: Batches[Wanted, Taken], wanted: Small) -> Taken:
    """Insert with others. While another process inserts under the same key, wait for what becomes of that."""
    clock = asyncio.get_running_loop().time
    deadline = clock() + mill.executor.busy
    while True:
        try:
            return await small.add(wanted)
        except InsertUnderWay:
            if clock() > deadline:
                raise
            await asyncio.sleep(LOOK)
            await run_in_threadpool(mill.catalog.reclaim)  # the other process may have died


def _load(
    mill: Tidemill, options: Options, channel: str, sent: bytes | Path, format: Format, kind: Kind, key: str | None
) -> Inserted:
    with upload_loading.as_file(sent) as path:
        if format is Format.ARROW:
            path, format = upload_loading.as_parquet(path, options.upload), Format.PARQUET
        return upload_loading.insert(mill, channel, path, format, kind=kind, key=key)
