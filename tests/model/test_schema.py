"""Schemas in Spark's DDL."""

from __future__ import annotations

import pytest

from tidemill.model.schema import Schema, _parse_fields, _read_plain_fields


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a int", "a INTEGER"),
        ("a long", "a bigint"),
        ("a decimal", "a decimal(10, 0)"),
        ("a decimal(5)", "a decimal(5, 0)"),
        ("a array<decimal>", "a array<decimal(10,0)>"),
        ("a struct<x: int, y: decimal(3)>", "a struct<x int, y decimal(3, 0)>"),
        ("a struct<x: int comment 'why'>", "a struct<x: int>"),
        ("a map<string, array<int>>", "a map< string , array<integer> >"),
    ],
)
def test_equivalent_types_are_equal(one: str, other: str) -> None:
    assert Schema.from_ddl(one) == Schema.from_ddl(other)
    assert Schema.from_ddl(str(Schema.from_ddl(one))) == Schema.from_ddl(one)


@pytest.mark.parametrize(
    "ddl", ["", "a", "a foo", "a int; drop table x", "a int, A int", "a decimal(39)", "a decimal(3, 5)", "a varchar(3)"]
)
def test_invalid_schemas_are_rejected(ddl: str) -> None:
    with pytest.raises(ValueError, match="schema|unsupported|twice|decimal"):
        Schema.from_ddl(ddl)


@pytest.mark.parametrize(
    ("ddl", "is_plain"),
    [
        ("a int, `b c` string not null, d timestamp, e double", True),
        ("a boolean, b tinyint, c smallint, d bigint, e float, f binary, g date", True),
        ("a int, b decimal(3, 1)", False),
        ("a array<int>, b struct<x: int, y: string>", False),
        ("`a``b` int", False),
        ("a string collate utf8_lcase, b int", False),
        ("`a` int, `, b` int", True),
    ],
)
def test_plain_columns_are_read_as_they_are_parsed(ddl: str, is_plain: bool) -> None:
    canonical = str(Schema.from_ddl(ddl))
    plain = _read_plain_fields(canonical)
    assert bool(plain) == is_plain
    assert Schema.from_ddl(canonical).fields == tuple(_parse_fields(canonical))
    assert plain in ((), Schema.from_ddl(ddl).fields)


def test_differences_are_described() -> None:
    assert Schema.from_ddl("a int, b int").describe_difference(Schema.from_ddl("a int, b string, c date")) == (
        "column b is INT, not STRING; column c is missing"
    )
