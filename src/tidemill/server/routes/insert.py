"""Inserts into input channels."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from tidemill.app.wiring import Tidemill
from tidemill.errors import InsertInProgress
from tidemill.model.block import BlockKind
from tidemill.runtime.runs.insert import POLL_SECONDS, InsertResult
from tidemill.runtime.runs.insert_batcher import InsertRequest, InsertSuccess, SmallInsert
from tidemill.server import upload, upload_loading
from tidemill.server.batching import RequestBatcher
from tidemill.server.dependencies import AS_CHANNEL_OPERATOR, Mill, Name, TheInsertBatcher, TheOptions, Wake
from tidemill.server.error_handlers import Responses, build_responses
from tidemill.server.options import ApiOptions
from tidemill.server.upload import UploadFormat
from tidemill.wire import schemas

router = APIRouter(tags=["channels"])

Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        description="An idempotency key: an insert that is repeated with the same key does nothing.",
        pattern=r"^[\x21-\x7e]{1,200}$",
    ),
]
_BODY = upload.describe_body(
    "The file itself: CSV with a header, JSON lines, Parquet or Arrow IPC; optionally gzipped.",
    *(*upload.FORMATS_BY_MEDIA_TYPE, "application/octet-stream"),
)
_REPEATED: Responses = {200: {"model": schemas.InsertDocument, "description": "Already inserted under this key"}}


@router.post(
    "/channels/{name}/blocks",
    status_code=201,
    responses=_REPEATED | build_responses(400, 404, 409, 413, 415),
    openapi_extra=_BODY,
    dependencies=AS_CHANNEL_OPERATOR,
)
async def insert_file(
    request: Request,
    response: Response,
    mill: Mill,
    options: TheOptions,
    wake: Wake,
    small: TheInsertBatcher,
    name: Name,
    format: Annotated[UploadFormat | None, Query(description="The format; by default that of the media type.")] = None,
    kind: Annotated[BlockKind, Query(description="base: the full content, not a change to it.")] = BlockKind.DELTA,
    key: Key = None,
) -> schemas.InsertDocument:
    """Insert a file into an input channel: all of its rows, or none."""
    file_format = upload.find_format(request, format)
    async with upload.receive_upload(
        request, memory_limit=options.max_shared_bytes, limit=options.max_upload_bytes
    ) as content:
        if isinstance(content, bytes) and upload_loading.can_share_block(file_format, kind):
            result = await _insert_small(mill, small, SmallInsert(name, content, file_format, key))
            assert isinstance(result, InsertResult)  # a duplicate message may lack its block, an insert does not
        else:
            result = await run_in_threadpool(_load_upload, mill, options, name, content, file_format, kind, key)
            wake()
    if result.repeated:
        response.status_code = 200
    return schemas.InsertDocument.model_validate(result)


async def _insert_small(
    mill: Tidemill, small: RequestBatcher[InsertRequest, InsertSuccess], insert: SmallInsert
) -> InsertSuccess:
    """Insert in a shared batch. While another process inserts under the same key, wait for its result."""
    clock = asyncio.get_running_loop().time
    deadline = clock() + mill.executor.busy_timeout
    while True:
        try:
            return await small.process_item(insert)
        except InsertInProgress:
            if clock() > deadline:
                raise
            await asyncio.sleep(POLL_SECONDS)
            await run_in_threadpool(mill.catalog.runs.reclaim_expired)  # the other process may have died


def _load_upload(
    mill: Tidemill,
    options: ApiOptions,
    channel: str,
    sent: bytes | Path,
    format: UploadFormat,
    kind: BlockKind,
    key: str | None,
) -> InsertResult:
    with upload_loading.to_file(sent) as path:
        if format is UploadFormat.ARROW:
            path, format = upload_loading.to_parquet(path, options.max_upload_bytes), UploadFormat.PARQUET
        return upload_loading.insert_upload(mill, channel, path, format, kind=kind, key=key)
