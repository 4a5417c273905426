"""Page checksums of Parquet files: verified without decoding the pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.errors import BlockDamaged
from tidemill.local.page_checksums import verify_checksums

ROWS = pa.table(
    {
        "number": pa.array([*range(2_000), None]),
        "text": pa.array([*(f"text {i % 7}" for i in range(2_000)), None]),
        "list": pa.array([*([i] * (i % 3) for i in range(2_000)), None]),
        "flag": pa.array([*(i % 2 == 0 for i in range(2_000)), None]),
    }
)


def write_file(directory: Path, **options: Any) -> Path:
    path = directory / "rows.parquet"
    pq.write_table(ROWS, path, **{"write_page_checksum": True, "data_page_size": 1_000, **options})
    return path


@pytest.mark.parametrize("compression", ["none", "zstd", "snappy"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("dictionary", [True, False], ids=["dictionary", "plain"])
def test_an_intact_file_is_accepted(tmp_path: Path, compression: str, version: str, dictionary: bool) -> None:
    path = write_file(tmp_path, compression=compression, data_page_version=version, use_dictionary=dictionary)
    verify_checksums(path, ROWS.column_names)


def test_a_file_without_checksums_is_accepted(tmp_path: Path) -> None:
    verify_checksums(write_file(tmp_path, write_page_checksum=False), ROWS.column_names)


def test_an_empty_file_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "empty.parquet"
    pq.write_table(ROWS.schema.empty_table(), path, write_page_checksum=True)
    verify_checksums(path, ROWS.column_names)


@given(data=st.data())
def test_every_flipped_bit_that_arrow_finds_by_a_checksum_is_found(tmp_path: Path, data: st.DataObject) -> None:
    path = write_file(tmp_path, compression="none", row_group_size=500)
    content = bytearray(path.read_bytes())
    footer = int.from_bytes(content[-8:-4], "little")
    position = data.draw(st.integers(4, len(content) - footer - 9), label="position")
    content[position] ^= 1 << data.draw(st.integers(0, 7), label="bit")
    path.write_bytes(content)
    try:
        verify_checksums(path, ROWS.column_names)
    except BlockDamaged:
        return
    assert "checksum" not in _find_problem(path)


def _find_problem(path: Path) -> str:
    """Arrow's message; a flipped bit of a page header, which no checksum covers, may cause others or none."""
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            file.read()
    except (pa.ArrowException, OSError) as error:
        return str(error)
    return ""


def test_a_flipped_bit_of_a_value_is_found(tmp_path: Path) -> None:
    path = write_file(tmp_path, compression="none", use_dictionary=False)
    content = bytearray(path.read_bytes())
    content[content.index(b"text 3")] ^= 1
    path.write_bytes(content)
    assert "checksum" in _find_problem(path)
    with pytest.raises(BlockDamaged, match="column text has a wrong checksum"):
        verify_checksums(path, ROWS.column_names)


def test_a_file_that_is_not_parquet_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "no.parquet"
    path.write_bytes(b"PAR1 no more")
    with pytest.raises(BlockDamaged, match=r"no\.parquet cannot be read"):
        verify_checksums(path, ROWS.column_names)


def test_a_missing_file_is_damaged(tmp_path: Path) -> None:
    with pytest.raises(BlockDamaged):
        verify_checksums(tmp_path / "missing.parquet", ROWS.column_names)
