"""Inserts into input channels."""

import asyncio
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import pyarrow.parquet as pq
from fastapi import APIRouter, Header, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from tidemill.app.wiring import Tidemill
from tidemill.display.formatting import take_first_line
from tidemill.errors import BadInput, InsertInProgress
from tidemill.intake.loader import load_file
from tidemill.model.block import BlockKind
from tidemill.model.error_summary import mask_values
from tidemill.ports.storage import LoadRequest, LoadResult
from tidemill.processes.scratch import open_scratch
from tidemill.runtime.runs.insert import POLL_SECONDS, Inserter, InsertResult
from tidemill.runtime.runs.insert_batcher import InsertRequest, InsertSuccess, SmallInsert
from tidemill.server import upload
from tidemill.server.batching import RequestBatcher
from tidemill.server.dependencies import AS_CHANNEL_OPERATOR, ApiOptions, Mill, Name, TheInsertBatcher, TheOptions, Wake
from tidemill.server.error_handlers import Responses, build_responses
from tidemill.server.upload import UploadFormat, build_too_large_error
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
_TEXT = (UploadFormat.CSV, UploadFormat.JSON_LINES)
_FILE_MAGIC = b"ARROW1"
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
        # Small text deltas may wait in memory for others; the decoded size of a small binary file is unknown.
        if isinstance(content, bytes) and kind is BlockKind.DELTA and file_format in _TEXT:
            result = await _insert_small(mill, small, SmallInsert(name, content, file_format, key))
            assert isinstance(result, InsertResult)  # a duplicate message may lack its block, an insert does not
        else:
            result = await run_in_threadpool(_insert_upload, mill, options, name, content, file_format, kind, key)
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
            return await small.enqueue_item(insert)
        except InsertInProgress:
            if clock() > deadline:
                raise
            await asyncio.sleep(POLL_SECONDS)
            await run_in_threadpool(mill.catalog.runs.reclaim_expired)  # the other process may have died


def _insert_upload(
    mill: Tidemill,
    options: ApiOptions,
    channel: str,
    sent: bytes | Path,
    format: UploadFormat,
    kind: BlockKind,
    key: str | None,
) -> InsertResult:
    with _to_file(sent) as path:
        if format is UploadFormat.ARROW:
            path, format = _to_parquet(path, options.max_upload_bytes), UploadFormat.PARQUET
        load = partial(_load_upload, max_bytes=options.max_upload_bytes)
        return Inserter(mill.executor, load).insert_file(channel, path, format=format, kind=kind, key=key)


@contextmanager
def _to_file(content: bytes | Path) -> Iterator[Path]:
    if isinstance(content, Path):
        yield content
        return
    with tempfile.TemporaryDirectory(dir=open_scratch().path) as directory:
        path = Path(directory, "upload")
        path.write_bytes(content)
        yield path


def _load_upload(path: Path, request: LoadRequest, *, max_bytes: int) -> LoadResult:
    """Load a file; messages and the stored run name the upload, not a path of the server."""
    try:
        return load_file(path, request, max_bytes)
    except BadInput as error:
        raise type(error)(str(error).replace(str(path), "the upload")) from None


def _to_parquet(path: Path, limit: int) -> Path:
    """An Arrow stream or file as a Parquet file beside it, which `intake` can read."""
    converted = path.with_suffix(".parquet")
    try:
        _convert_arrow(path, converted, limit)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise BadInput(
            f"the upload cannot be read as Arrow ({mask_values(take_first_line(str(error)))}). Nothing was inserted"
        ) from error
    return converted


def _convert_arrow(path: Path, target: Path, limit: int) -> None:
    size = 0
    with pa.memory_map(str(path)) as source:
        is_file = source.read(len(_FILE_MAGIC)) == _FILE_MAGIC
        source.seek(0)
        reader = pa.ipc.open_file(source) if is_file else pa.ipc.open_stream(source)
        numbers = range(reader.num_record_batches) if is_file else None
        with pq.ParquetWriter(target, reader.schema) as writer:
            for batch in map(reader.get_batch, numbers) if numbers is not None else reader:
                batch.validate(full=True)
                size += batch.nbytes
                if size > limit:
                    raise build_too_large_error(limit)
                writer.write_batch(batch)
