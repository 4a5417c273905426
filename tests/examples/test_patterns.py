"""The six patterns of event streams: each example is executed unchanged."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tidemill.app.project import Project
from tidemill.app.settings import Settings
from tidemill.app.wiring import Tidemill

PATTERNS = Path(__file__).parents[2] / "examples" / "patterns"

Played = Callable[[str], "Play"]


class Play:
    """An example, opened: rows go in, all its flows run."""

    def __init__(self, module: ModuleType, mill: Tidemill, directory: Path) -> None:
        self.module = module
        self.mill = mill
        self._directory = directory
        self._flows = [b.name for b in module.wf.build_spec().bindings]

    def insert(self, channel: str, *rows: dict[str, Any]) -> None:
        path = self._directory / "rows.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        self.mill.insert(channel, path)

    def run(self) -> None:
        for flow in self._flows:
            self.mill.run(flow)

    def rows(self, channel: str, *names: str) -> list[Any]:
        return sorted(tuple(row[n] for n in names) for row in self.mill.rows(channel))


@pytest.fixture
def play(spark: SparkSession, tmp_path: Path) -> Iterator[Played]:
    opened: list[Tidemill] = []

    def start(name: str) -> Play:
        spec = spec_from_file_location(name, PATTERNS / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        opened.append(Tidemill(tmp_path, Settings(), Project((module.wf.build_spec(),))))
        opened[-1].apply()
        return Play(module, opened[-1], tmp_path)

    yield start
    for mill in opened:
        mill.close()


def test_sequential_aggregate(play: Played) -> None:
    example = play("sequential_aggregate")
    for value in (1, 10, 100, 1000):
        example.insert("readings", {"sensor": "a", "value": value}, {"sensor": "b", "value": -value})
        example.run()
    found = example.rows("last_three", "_group", "_window", "_events", "value")
    assert found == [("('a',)", 0, 3, 111), ("('a',)", 1, 3, 1110), ("('b',)", 0, 3, -111), ("('b',)", 1, 3, -1110)]


def test_stream_join(play: Played) -> None:
    """Order 1 is paid later, payment 2 comes before its order, 3 is never paid."""
    example = play("stream_join")
    example.insert("orders", {"number": 1, "price": 5}, {"number": 3, "price": 7})
    example.insert("payments", {"number": 2, "paid": 6})
    example.run()
    assert example.rows("matched", "number") == []
    example.insert("payments", {"number": 1, "paid": 5})
    example.insert("orders", {"number": 2, "price": 6})
    example.run()
    example.run()
    assert example.rows("matched", "number", "price", "paid") == [(1, 5, 5), (2, 6, 6)]


def test_stream_barrier(play: Played) -> None:
    """Two orders are split, and their items are shipped mixed; each is confirmed when it is complete."""
    example = play("stream_barrier")
    example.insert("orders", {"number": 17, "items": ["tea", "milk"]}, {"number": 18, "items": ["rice"]})
    for flow in ("placed", "items"):
        example.mill.run(flow)
    waves = dict(example.rows("items", "item", "wave"))
    assert {item: wave.partition(".")[2] for item, wave in waves.items()} == {"tea": "1", "milk": "2!", "rice": "1!"}
    example.insert("shipped", {"item": "milk", "wave": waves["milk"]})
    example.run()
    assert example.rows("confirmed", "number", "item") == []
    example.insert("shipped", *({"item": item, "wave": waves[item]} for item in ("rice", "tea")))
    example.run()
    assert example.rows("confirmed", "number", "item") == [(17, "milk"), (17, "tea"), (18, "rice")]


def test_case_cancellation(play: Played) -> None:
    """The second case is withdrawn after all was made of it; downstream it is as if it had never been."""
    example = play("case_cancellation")
    example.insert("cases", {"number": 1, "city": "Bonn", "amount": 60}, {"number": 2, "city": "Bonn", "amount": 50})
    example.run()
    assert example.rows("large", "city", "amount") == [("Bonn", 110)]
    example.insert("cases", {"number": 2, "_deleted": True})
    example.run()
    assert example.rows("by_city", "city", "cases", "amount") == [("Bonn", 1, 60)]
    assert example.rows("large", "city", "amount") == []


def test_data_view(play: Played) -> None:
    """A change feed starts when it is opened, returns the new rows of each read, and does not affect the workflow."""
    example = play("data_view")
    example.insert("events", {"id": 1, "level": "error", "text": "before"})
    example.run()
    tap = example.mill.change_feed("parsed")
    example.insert("events", {"id": 2, "level": "info", "text": "fine"}, {"id": 3, "level": "error", "text": "disk"})
    example.run()
    assert [row["id"] for row in example.module.read_new_errors(tap)] == [3]
    assert example.module.read_new_errors(tap) == []
    from_start = example.mill.change_feed("parsed", from_start=True)
    assert [row["id"] for row in example.module.read_new_errors(from_start)] == [1, 3]


def test_window_expiration(play: Played) -> None:
    """Two reports of tea within ten minutes are an alarm; the milk stayed alone."""
    example = play("window_expiration")
    reports = [("tea", 0), ("milk", 1), ("tea", 8), ("milk", 30)]
    for product, minute in reports:
        example.insert("reports", {"product": product, "at": f"2026-01-01T00:{minute:02}:00Z"})
        example.run()
    assert example.rows("alarms", "product", "_window") == [("tea", 0), ("tea", 0)]
    assert [product for product, _ in example.rows("left_alone", "product", "at")] == ["milk"]
