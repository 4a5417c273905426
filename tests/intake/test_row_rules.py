"""Rules for rows that follow from the kind of updates."""

from __future__ import annotations

import pytest
from tests.intake.file_loader import FileLoader

from tidemill.model.change import Append, Custom, Increment, Rows, Signed, Updates, Upsert
from tidemill.model.schema import Schema

UPSERT = Upsert(("k",))
INCREMENT = Increment(("k",), ("m", "n"))


def keep_rows(rows: Rows, _: Rows) -> Rows:
    return rows


CUSTOM = Custom(("k",), keep_rows, keep_rows, keep_rows, Schema.from_ddl("k int not null, op string"))


@pytest.mark.parametrize("updates", [Append(), Signed(), Upsert(("k",))])
def test_null_in_a_not_null_column_is_rejected(loader: FileLoader, updates: Updates) -> None:
    message = loader.expect_error("a.csv", "k,v\n1,x\n2,\n3,\n", "k int, v string not null", updates)
    assert "row 2 has NULL in column 'v', which is NOT NULL" in message


def test_signed_rows_count_once_by_default(loader: FileLoader) -> None:
    assert loader.rows("a.csv", "k\n1\n", "k int", Signed()) == [{"k": 1, "_count": 1}]


def test_signed_rows_keep_their_counts(loader: FileLoader) -> None:
    content = '{"k": 1, "_count": -2}\n{"k": 2}\n'
    assert loader.rows("a.jsonl", content, "k int", Signed()) == [{"k": 1, "_count": -2}, {"k": 2, "_count": 1}]


def test_a_count_of_zero_or_null_is_rejected(loader: FileLoader) -> None:
    assert "row 2 has 0 in column '_count'" in loader.expect_error("a.csv", "k,_count\n1,1\n1,0\n", "k int", Signed())
    assert "row 1 has NULL in column '_count'" in loader.expect_error("a.csv", "k,_count\n1,\n", "k int", Signed())
    assert "row 1 has NULL" in loader.expect_error("a.jsonl", '{"k": 1, "_count": null}', "k int", Signed())


def test_upserts_are_deletions_only_if_marked(loader: FileLoader) -> None:
    content = "_deleted,k\ntrue,1\nfalse,2\n,3\n"
    assert [row["_deleted"] for row in loader.rows("a.csv", content, "k int", UPSERT)] == [True, False, False]
    assert loader.rows("b.csv", "k\n1\n", "k int", UPSERT) == [{"k": 1, "_deleted": False}]


def test_a_deletion_needs_only_its_key(loader: FileLoader) -> None:
    rows = loader.rows("a.jsonl", '{"k": 1, "_deleted": true}', "k int not null, v string not null", UPSERT)
    assert rows == [{"k": 1, "v": None, "_deleted": True}]


def test_a_deletion_needs_its_key(loader: FileLoader) -> None:
    ddl = "k int not null, v string"
    assert "row 1 has NULL in column 'k'" in loader.expect_error("a.csv", "k,v,_deleted\n,x,true\n", ddl, UPSERT)
    assert "row 1 lacks the key column 'k'" in loader.expect_error("a.jsonl", '{"_deleted": true}', ddl, UPSERT)


def test_reserved_columns_are_unknown_where_they_have_no_meaning(loader: FileLoader) -> None:
    assert "column _deleted is unknown" in loader.expect_error("a.csv", "k,_deleted\n1,true\n", "k int", Append())
    assert "column _count is unknown" in loader.expect_error("a.csv", "k,_count\n1,1\n", "k int", UPSERT)


def test_increments_are_loaded(loader: FileLoader) -> None:
    content = "k,m,n,_deleted\n1,2,3,\n2,,,true\n3,4,5,true\n"
    assert loader.rows("a.csv", content, "k int, m int not null, n int", INCREMENT) == [
        {"k": 1, "m": 2, "n": 3, "_deleted": False},
        {"k": 2, "m": None, "n": None, "_deleted": True},
        {"k": 3, "m": 4, "n": 5, "_deleted": True},
    ]


def test_an_increment_without_an_amount_is_rejected(loader: FileLoader) -> None:
    message = loader.expect_error("a.csv", "k,m,n\n1,2,3\n2,4,\n", "k int, m int, n int", INCREMENT)
    assert "row 2 has NULL in column 'n'; only a deletion may omit the amount to add" in message


def test_a_deletion_with_some_amounts_is_rejected(loader: FileLoader) -> None:
    message = loader.expect_error("a.csv", "k,m,n,_deleted\n1,2,,true\n", "k int, m int, n int", INCREMENT)
    assert "row 1 is a deletion with some amounts only; give all of m, n or none" in message


def test_custom_deltas_have_separate_columns(loader: FileLoader) -> None:
    assert loader.rows("a.csv", "k,op\n1,x\n1,y\n", "k int, v string", CUSTOM) == [
        {"k": 1, "op": "x"},
        {"k": 1, "op": "y"},
    ]
