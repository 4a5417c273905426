"""From a saved upload to a block. What is told, and kept with the run, names the upload and no path of the server's."""

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
from tidemill.model.block import Kind
from tidemill.model.change import Updates
from tidemill.model.schema import Schema
from tidemill.ports.engine import Progress
from tidemill.ports.storage import Loaded
from tidemill.runtime.runs.insert import Inserted, Inserter
from tidemill.server.body_limit import too_large
from tidemill.server.upload import Format

_FILE_MAGIC = b"ARROW1"


_TEXT = (Format.CSV, Format.JSON_LINES)


def insert(mill: Tidemill, channel: str, path: Path, format: Format, *, kind: Kind, key: str | None) -> Inserted:
    return Inserter(mill.executor, _load).file(channel, path, format=format, kind=kind, key=key)


def may_share(format: Format, kind: Kind) -> bool:
    """Small changes as text may wait in memory for others; how much a small binary file holds, nobody knows."""
    return kind is Kind.DELTA and format in _TEXT


@contextmanager
def as_file(sent: bytes | Path) -> Iterator[Path]:
    if isinstance(sent, Path):
        yield sent
        return
    with tempfile.TemporaryDirectory(prefix="tidemill-upload-") as directory:
        path = Path(directory, "upload")
        path.write_bytes(sent)
        yield path


@contextmanager
def _nameless(path: Path) -> Iterator[None]:
    try:
        yield
    except BadInput as error:
        raise BadInput(str(error).replace(str(path), "the upload")) from None


def _load(
    path: Path,
    *,
    format: str | None,
    schema: Schema,
    updates: Updates,
    kind: Kind,
    directory: Path,
    progress: Progress | None,
) -> Loaded:
    with _nameless(path):
        return load_file(
            path,
            format=format,
            schema=schema,
            updates=updates,
            kind=kind,
            directory=directory,
            progress=progress,
        )


def as_parquet(path: Path, limit: int) -> Path:
    """An Arrow stream or file as a Parquet file beside it, which `intake` can read."""
    made = path.with_suffix(".parquet")
    try:
        _convert(path, made, limit)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise BadInput(f"the upload cannot be read as Arrow ({_first_line(error)}). Nothing was inserted") from error
    return made


def _convert(path: Path, made: Path, limit: int) -> None:
    size = 0
    with pa.memory_map(str(path)) as source:
        is_file = source.read(len(_FILE_MAGIC)) == _FILE_MAGIC
        source.seek(0)
        opened = pa.ipc.open_file(source) if is_file else pa.ipc.open_stream(source)
        numbers = range(opened.num_record_batches) if is_file else None
        with pq.ParquetWriter(made, opened.schema) as writer:
            for batch in map(opened.get_batch, numbers) if numbers is not None else opened:
                batch.validate(full=True)
                size += batch.nbytes
                if size > limit:
                    raise too_large(limit)
                writer.write_batch(batch)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
