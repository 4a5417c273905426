"""Errors about inserted data name the position and never contain values, because errors are stored and sent."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.intake.file_loader import FileLoader

from tidemill.model.change import Append, Updates, Upsert

SECRET = "4711"
KEYED = Upsert(("a",))
FILES: dict[str, tuple[str, bytes, str, Updates]] = {
    "a number in CSV": ("f.csv", b"a,b\n1,x4711\n", "a int, b int", Append()),
    "a value too many in CSV": ("f.csv", b"a,b\n1,2,4711\n", "a int, b int", Append()),
    "a quote in CSV": ("f.csv", b'a,b\n1,"4711\n', "a int, b string", Append()),
    "bytes in CSV": ("f.csv", b"a,b\n1,4711\xff\n", "a int, b string", Append()),
    "a number in JSON": ("f.jsonl", b'{"a": 1, "b": "4711"}\n', "a int, b int", Append()),
    "a list in JSON": ("f.jsonl", b'{"a": 1, "b": [4711]}\n', "a int, b int", Append()),
    "a list in place of an object": ("f.jsonl", b"[4711]\n", "a int", Append()),
    "a line that is no JSON": ("f.jsonl", b'{"a": 4711', "a int", Append()),
    "a line that is no text": ("f.jsonl", b'{"a": "4711\xff"}\n', "a string", Append()),
    "a date": ("f.jsonl", b'{"a": "4711-99-99"}\n', "a date", Append()),
    "a key twice": ("f.jsonl", b'{"a": 4711}\n{"a": 4711}\n', "a int", KEYED),
    "a key twice in CSV": ("f.csv", b"a\n4711\n4711\n", "a int", KEYED),
}


@pytest.mark.parametrize("case", FILES)
def test_messages_contain_no_values(loader: FileLoader, case: str) -> None:
    name, data, columns, updates = FILES[case]
    path = loader.file(name, data)
    message = loader.expect_rejection(path, columns, updates)
    assert SECRET not in message.replace(str(path), "")
    assert "row " in message


def test_messages_about_parquet_files_contain_no_values(loader: FileLoader) -> None:
    path = loader.folder / "f.parquet"
    pq.write_table(pa.table({"a": pa.array([4711_000_000_000_000_001], pa.timestamp("ns"))}), path)
    assert SECRET not in loader.expect_rejection(path, "a timestamp", Append()).replace(str(path), "")
