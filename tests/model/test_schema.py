"""Schemas in Spark's DDL."""

from __future__ import annotations

import pytest

from tidemill.model.schema import Schema


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


def test_differences_are_described() -> None:
    assert Schema.from_ddl("a int, b int").describe_difference(Schema.from_ddl("a int, b string, c date")) == (
        "column b is INT, not STRING; column c is missing"
    )
