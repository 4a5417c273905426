"""Declarations of windows."""

from __future__ import annotations

import pytest

from tidemill.model.window import Between, Extent, GroupKey, Unit, Window


@pytest.mark.parametrize(
    ("text", "unit", "amount"),
    [
        ("5 tokens", Unit.TOKENS, 5),
        ("1 token", Unit.TOKENS, 1),
        ("2 waves", Unit.WAVES, 2),
        (" 1 Wave ", Unit.WAVES, 1),
        ("10 minutes", Unit.TIME, 600_000_000),
        ("1.5s", Unit.TIME, 1_500_000),
    ],
)
def test_extents_are_parsed(text: str, unit: Unit, amount: int) -> None:
    assert Extent.from_text(text) == Extent(unit, amount)


@pytest.mark.parametrize("text", ["", "5", "five tokens", "-1 tokens", "1.5 tokens", "3 weeks of rain"])
def test_invalid_extents_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="write it like '30s', '5 tokens' or '2 waves'"):
        Extent.from_text(text)


@pytest.mark.parametrize(
    ("text", "row", "value"),
    [
        ("user", {"user": 7}, 7),
        ("/user/name", {"user": {"name": "ada"}}, "ada"),
        ("user.name", {"user": {"name": None}}, None),
        ("user.name", {"user": None}, None),
        ("tags/1", {"tags": ["a", "b"]}, "b"),
        ("tags/7", {"tags": ["a", "b"]}, None),
        ("tags", {"tags": ["a", "b"]}, ("a", "b")),
        ("as-set(tags)", {"tags": ["b", "a", "b"]}, ("a", "b")),
        ("as-set(tags)", {"tags": None}, None),
        ("lower(/user/name)", {"user": {"name": "Ada"}}, "ada"),
        ("length(tags)", {"tags": ["a", "b"]}, 2),
        ("user", {"user": {"b": [1], "a": 2}}, (("a", 2), ("b", (1,)))),
    ],
)
def test_group_keys_are_extracted(text: str, row: dict[str, object], value: object) -> None:
    key = GroupKey.from_text(text)
    assert key.extract_value(row[key.column_name]) == value
    hash(key.extract_value(row[key.column_name]))


@pytest.mark.parametrize("text", ["", "a b", "first(tags)", "/user//name", "as-set()"])
def test_invalid_group_keys_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="cannot group by"):
        GroupKey.from_text(text)


@pytest.mark.parametrize(
    ("window", "problem"),
    [
        (Window.from_text("0 waves", "1 token"), "size of a window must be greater than 0"),
        (Window.from_text("1 token", "0 s"), "step of a window must be greater than 0"),
        (Window.from_text("5 tokens", "1 token", timeout=2), "only a window whose step is in time can have a timeout"),
        (Window.from_text(Between("done"), timeout=2), "only a window whose step is in time can have a timeout"),
        (Window.from_text("5s", "1s", timeout=0.5), "a timeout is a number of steps from 1 on, not 0.5"),
        (Window.from_text("5s", "1s", at_least=0), "a window has at least 1 event, not 0"),
        (Window.from_text("2 tokens", "1s", at_least=3), "a window of 2 tokens never has 3"),
    ],
)
def test_invalid_windows_have_problems(window: Window, problem: str) -> None:
    assert [p for p in window.find_problems() if problem in p] == window.find_problems() != []


def test_valid_windows_have_no_problems() -> None:
    assert Window.from_text("30s", "1s", timeout=1.5, by=["user"]).find_problems() == []
    assert Window.from_text("10 minutes", at_least=2).find_problems() == []
    assert Window.from_text(Between("x")).find_problems() == []
