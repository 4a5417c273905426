"""When `bench growth` says that nothing grows."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from benchmarks.growth import Point, summarize_points

Size = Callable[[int], float]


def points(
    seconds: Size = lambda _: 1.0,
    files: Size = lambda _: 10,
    disk: Size = lambda _: 5000,
    catalog: Size = lambda _: 1000,
) -> list[Point]:
    return [Point(n, seconds(n), int(files(n)), int(disk(n)), int(catalog(n)), 1) for n in range(1, 501)]


def test_what_goes_up_and_down_is_flat() -> None:
    found = summarize_points(points(lambda n: 1 + n % 3 / 10, lambda n: 10 + n % 8, catalog=lambda n: min(n, 60) * 100))
    assert found["flat"] is True
    assert (found["refreshes"], found["compactions"]) == (500, 500)
    assert [p["refresh"] for p in found["along"]] == list(range(50, 501, 50))


def test_the_first_refreshes_are_not_judged() -> None:
    assert summarize_points(points(lambda n: 0.1 if n <= 50 else 1.0))["flat"] is True


@pytest.mark.parametrize("what", ["seconds", "files", "disk", "catalog"])
def test_what_grows_is_not_flat_and_is_named(what: str) -> None:
    found = summarize_points(points(**{what: lambda n: 100 + n}))
    growing = [m["measure"] for m in found["measures"] if not m["flat"]]
    assert found["flat"] is False
    assert len(growing) == 1
    assert what in growing[0] or growing == ["refresh_s"]
