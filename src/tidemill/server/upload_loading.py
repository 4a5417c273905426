"""Loading a saved upload as a block. Messages and the stored run name the upload, not a path of the server."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tidemill.app.wiring import Tidemill
from tidemill.errors import BadInput
from tidemill.intake import load_file
from tidemill.model.block import BlockKind
from tidemill.ports.storage import LoadRequest, LoadResult
from tidemill.runtime.runs.insert import Inserter, InsertResult
from tidemill.server.body_limit import build_too_large_error
from tidemill.server.upload import UploadFormat

_FILE_MAGIC = b"ARROW1"


_TEXT = (UploadFormat.CSV, UploadFormat.JSON_LINES)


def insert_upload(
    mill: Tidemill, channel: str, path: Path, format: UploadFormat, *, kind: BlockKind, key: str | None
) -> InsertResult:
    return Inserter(mill.executor, _load_upload).insert_file(channel, path, format=format, kind=kind, key=key)


def can_share_block(format: UploadFormat, kind: BlockKind) -> bool:
    """Small text deltas may wait in memory for others; the decoded size of a small binary file is unknown."""
    return kind is BlockKind.DELTA and format in _TEXT


@contextmanager
def to_file(content: bytes | Path) -> Iterator[Path]:
    if isinstance(content, Path):
        yield content
        return
    with tempfile.TemporaryDirectory(prefix="tidemill-upload-") as directory:
        path = Path(directory, "upload")
        path.write_bytes(content)
        yield path


@contextmanager
def _hide_path(path: Path) -> Iterator[None]:
    try:
        yield
    except BadInput as error:
        raise BadInput(str(error).replace(str(path), "the upload")) from None


def _load_upload(path: Path, request: LoadRequest) -> LoadResult:
    with _hide_path(path):
        return load_file(path, request)


def to_parquet(path: Path, limit: int) -> Path:
    """An Arrow stream or file as a Parquet file beside it, which `intake` can read."""
    converted = path.with_suffix(".parquet")
    try:
        _convert_arrow(path, converted, limit)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise BadInput(
            f"the upload cannot be read as Arrow ({_take_first_line(error)}). Nothing was inserted"
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


def _take_first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
