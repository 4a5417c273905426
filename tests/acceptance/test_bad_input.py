"""Bad input and failures of the environment: one clear error each, and no change."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlalchemy import create_engine, text

import tidemill as tm
from tidemill.app.project import Project
from tidemill.app.settings import CatalogSettings, Settings, StorageSettings
from tidemill.app.wiring import Tidemill
from tidemill.errors import BadInput, CatalogError, ConfigError, NotFound, StorageError, TidemillError


def workflow() -> Project:
    wf = tm.Workflow("w")
    wf.input("orders", "id int, price decimal(6, 2), at timestamp")
    wf.input("stock", "item string, left int", key="item")
    wf.sql("totals", "SELECT sum(price) AS total FROM orders")
    return Project((wf.build_spec(),))


@pytest.fixture
def mill(tmp_path: Path) -> Iterator[Tidemill]:
    with Tidemill(tmp_path, Settings(), workflow()) as mill:
        mill.apply()
        good = tmp_path / "good.csv"
        good.write_text("id,price,at\n1,2.50,2026-01-01T00:00:00Z\n")
        mill.insert("orders", good)
        yield mill


def read_state(mill: Tidemill) -> object:
    """Everything that an error must not change; the failed attempt itself may be recorded."""
    return (
        mill.catalog.channels.list(),
        [b for b in mill.catalog.blocks.list() if b.state == "filled"],
        mill.catalog.channels.read_cursors(),
        sorted(mill.store.list_all_files()),
    )


def check_rejected(mill: Tidemill, work: Callable[[], object], kind: type[TidemillError], *parts: str) -> None:
    before = read_state(mill)
    with pytest.raises(kind) as caught:
        work()
    for part in parts:
        assert part in str(caught.value)
    assert "\n" not in str(caught.value).strip(), "the message must be one sentence"
    mill.collect(grace="0s")
    assert read_state(mill) == before


@pytest.mark.parametrize(
    ("name", "content", "parts"),
    [
        ("a.csv", "id,price,at\n1,2.5,2026-01-01\n2,dear,2026-01-01\n", ["price", "row 2", "DECIMAL"]),
        ("a.csv", "id,price,at\n9999999999,2.5,2026-01-01\n", ["id", "row 1", "a whole number"]),
        ("a.csv", "id,price,at\n1,12345.67,2026-01-01\n", ["price", "row 1", "it does not fit"]),
        ("a.csv", "id,price,at\n1,2.5,yesterday\n", ["at", "row 1", "like 2024-01-31"]),
        ("a.csv", "id,price\n1,2.5\n", ["at", "missing"]),
        ("a.csv", "id,price,at,more\n1,2.5,2026-01-01,x\n", ["more", "unknown"]),
        ("a.csv", "", ["no header"]),
        ("a.jsonl", '{"id": 1, "price": 2.5, "at": "2026-01-01"}\n{"id": tru\n', ["row 2"]),
        ("a.jsonl", '{"id": "one", "price": 2.5, "at": "2026-01-01"}\n', ["id", "row 1"]),
        ("a.parquet", "PAR1 this is no Parquet file PAR1", ["a.parquet"]),
        ("a.xlsx", "x", ["format"]),
    ],
)
def test_a_bad_file_is_rejected(mill: Tidemill, tmp_path: Path, name: str, content: str, parts: list[str]) -> None:
    path = tmp_path / name
    path.write_text(content)
    check_rejected(mill, lambda: mill.insert("orders", path), BadInput, *parts)


def test_a_truncated_parquet_file_is_rejected(mill: Tidemill, tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"item": ["a", "b"], "left": pa.array([1, 2], pa.int32())}), path)
    path.write_bytes(path.read_bytes()[:-20])
    check_rejected(mill, lambda: mill.insert("stock", path), BadInput, "t.parquet")


def test_a_file_with_a_duplicate_key_is_rejected(mill: Tidemill, tmp_path: Path) -> None:
    path = tmp_path / "s.csv"
    path.write_text("item,left\na,1\nb,2\na,3\n")
    check_rejected(mill, lambda: mill.insert("stock", path), BadInput, "row 3", "row 1", "item")


def test_missing_files_and_channels_are_rejected(mill: Tidemill, tmp_path: Path) -> None:
    check_rejected(mill, lambda: mill.insert("orders", tmp_path), BadInput, str(tmp_path), "directory")
    check_rejected(mill, lambda: mill.insert("orders", tmp_path / "none.csv"), BadInput, "none.csv")
    check_rejected(mill, lambda: mill.insert("nowhere", tmp_path / "good.csv"), NotFound, "nowhere", "orders")
    check_rejected(mill, lambda: mill.insert("totals", tmp_path / "good.csv"), BadInput, "derived")
    check_rejected(mill, lambda: mill.run("nothing"), NotFound, "nothing", "totals")
    check_rejected(mill, lambda: mill.rows("orders", as_of="yesterday"), BadInput, "yesterday")


def test_an_insert_repeated_with_its_key_is_a_no_op(mill: Tidemill, tmp_path: Path) -> None:
    path = tmp_path / "good.csv"
    first = mill.insert("orders", path, key="monday")
    before = read_state(mill)
    again = mill.insert("orders", path, key="monday")
    assert (first.repeated, again.repeated) == (False, True)
    assert again.block == first.block
    assert read_state(mill) == before


def test_a_full_disk_is_reported(mill: Tidemill, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def raise_disk_full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", raise_disk_full)
    check_rejected(mill, lambda: mill.insert("orders", tmp_path / "good.csv"), StorageError, "the disk is full")


def test_storage_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    settings = Settings(storage=StorageSettings(url="file/blocks"))
    with pytest.raises(StorageError, match=r"file/blocks.*a part of the path is a file"):
        Tidemill(tmp_path, settings, workflow())


def test_a_catalog_of_a_newer_version_is_rejected(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'catalog.db'}"
    settings = Settings(catalog=CatalogSettings(url=url))
    with Tidemill(tmp_path, settings, workflow()) as mill:
        mill.apply()
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999_from_the_future'"))
    engine.dispose()
    before = (tmp_path / "catalog.db").read_bytes()
    with pytest.raises(CatalogError, match="9999_from_the_future"):
        Tidemill(tmp_path, settings, workflow())
    assert (tmp_path / "catalog.db").read_bytes() == before


def test_a_file_that_is_not_a_catalog_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "catalog.db").write_text("this is not a database at all, however long one reads in it" * 50)
    with pytest.raises(CatalogError, match="catalog.db"):
        Tidemill(tmp_path, Settings(catalog=CatalogSettings(url="sqlite:///catalog.db")), workflow())
    with pytest.raises((CatalogError, ConfigError), match="oracle"):
        Tidemill(tmp_path, Settings(catalog=CatalogSettings(url="oracle://somewhere/db")), workflow())
