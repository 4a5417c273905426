"""The rule by which `growth` decides that nothing grows."""

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


def test_oscillating_figures_are_flat() -> None:
    document = summarize_points(
        points(lambda n: 1 + n % 3 / 10, lambda n: 10 + n % 8, catalog=lambda n: min(n, 60) * 100)
    )
    assert document["flat"] is True
    assert (document["refreshes"], document["compactions"]) == (500, 500)
    assert [p["refresh"] for p in document["along"]] == list(range(50, 501, 50))


def test_the_first_refreshes_do_not_count() -> None:
    assert summarize_points(points(lambda n: 0.1 if n <= 50 else 1.0))["flat"] is True


@pytest.mark.parametrize("figure", ["seconds", "files", "disk", "catalog"])
def test_a_growing_figure_is_not_flat_and_is_named(figure: str) -> None:
    document = summarize_points(points(**{figure: lambda n: 100 + n}))
    growing = [m["measure"] for m in document["measures"] if not m["flat"]]
    assert document["flat"] is False
    assert len(growing) == 1
    assert figure in growing[0] or growing == ["refresh_s"]
