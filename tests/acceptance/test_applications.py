"""The two applications of examples/ with their simulated users, on real Spark; the test acts as the server."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from random import Random
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

from tidemill.app.project import Project
from tidemill.app.serving import build_deliveries
from tidemill.app.settings import Settings, load_settings
from tidemill.app.wiring import Tidemill
from tidemill.server.routes.push import PRODUCER

EXAMPLES = Path(__file__).parents[2] / "examples"
AT = "2026-01-01T00:00:00Z"

Row = Mapping[str, Any]
OpenApplication = Callable[[str], "Application"]


class Application:
    """An opened example: insert rows, run flows, read the new rows."""

    def __init__(self, mill: Tidemill, people: ModuleType, directory: Path) -> None:
        self.mill = mill
        self.people = people
        self._directory = directory
        self._seen: dict[str, int] = {}

    def insert(self, channel: str, rows: list[Any]) -> None:
        path = self._directory / "rows.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        self.mill.insert(channel, path)

    def run(self, *flows: str) -> None:
        for flow in flows:
            self.mill.run(flow)

    def new(self, channel: str) -> list[Row]:
        feed = self.mill.change_feed(channel, from_start=True)
        feed.position, self._seen[channel] = (
            self._seen.get(channel, 0),
            self.mill.catalog.channels.read(channel).head.seq,
        )
        return [row.asDict() for row in feed.read_new().collect()]

    def rows(self, channel: str, *names: str) -> list[Any]:
        return sorted(tuple(row[n] for n in names) for row in self.mill.rows(channel))


def load_module(application: str, name: str) -> ModuleType:
    spec = spec_from_file_location(f"{application}_{name}", EXAMPLES / application / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = module_from_spec(spec)  # dataclasses look up their module there
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def application(spark: SparkSession, tmp_path: Path) -> Iterator[OpenApplication]:
    mills: list[Tidemill] = []

    def start(name: str) -> Application:
        workflow = load_module(name, "workflow").wf.build_spec()
        deliver = load_settings(EXAMPLES / name, {}).deliver
        mills.append(Tidemill(tmp_path, Settings(deliver=deliver), Project((workflow,))))
        mills[-1].apply()
        return Application(mills[-1], load_module(name, "simulate"), tmp_path)

    yield start
    for mill in mills:
        mill.close()


@pytest.mark.long
def test_every_order_of_the_supply_chain_is_fulfilled_or_rejected(application: OpenApplication) -> None:
    shop = application("supply_chain")
    people = shop.people
    customers, warehouses = people.create_customers(5, seed=1), people.create_warehouses(seed=1)
    shop.insert("stock", people.create_stock())
    orders = [customer.order() for customer in customers for _ in range(3)]
    orders.append({"customer": "customer-0", "items": [people.UNKNOWN]})
    shop.insert("orders", orders)
    shop.run("placed", "requests", "orders_a_second")
    placed, requests = shop.new("placed"), shop.new("requests")
    for warehouse in warehouses:
        warehouse.take(requests)
        shop.insert("shipments", warehouse.ship(len(warehouse.requests) // 2))
    shop.insert("payments", [bill for customer in customers for bill in customer.pay(placed)])
    shop.run("shipped", "complete")
    early = shop.rows("complete", "wave")
    assert 0 < len(early) < len(orders) - 1, "some orders are complete, some are not"
    shop.insert("shipments", [shipment for warehouse in warehouses for shipment in warehouse.ship(100)])
    shop.run("shipped", "complete", "fulfilled", "refused", "shipments_a_second", "volume")

    possible = [order for order in orders if set(order["items"]) & set(people.PRODUCTS)]
    assert shop.rows("fulfilled", "customer", "items") == sorted((o["customer"], o["items"]) for o in possible)
    assert shop.rows("refused", "customer", "items") == [("customer-0", [people.UNKNOWN])]
    for order in placed:
        requested = [r["item"] for r in requests if r["wave"].split(".")[0] == order["wave"]]
        assert sorted(requested) == sorted(set(order["items"]) & set(people.PRODUCTS))
    waves = {row["_window"]: row["wave"].split(".")[0] for row in shop.mill.rows("shipped")}
    assert sorted(waves.values()) == sorted(o["wave"] for o in placed if set(o["items"]) & set(people.PRODUCTS))
    assert sum(n for what, n in shop.rows("volume", "what", "events") if what == "orders") in (0, len(orders))


class Server:
    """Records pushed events and returns one block to every subscriber."""

    def __init__(self, *rows: Row) -> None:
        self.pushed: dict[str, list[Any]] = {}
        self._rows = rows

    def push(self, channel: str, events: Iterable[Any], producer: str) -> None:
        assert re.fullmatch(PRODUCER, producer)
        self.pushed.setdefault(channel, []).extend(events)

    def subscribe(self, _channel: str, where: Sequence[str] = ()) -> Iterator[Any]:
        yield SimpleNamespace(rows=self._rows)


def test_users_of_the_supply_chain_push_and_subscribe() -> None:
    people = load_module("supply_chain", "simulate")
    (customer,), (house, *_) = people.create_customers(1, seed=1), people.create_warehouses(seed=1)
    row = {"customer": customer.name, "items": ["tea"], "item": "tea", "warehouse": house.name, "wave": "17.1!"}
    server = Server(row)
    day = people.Day(server, seconds=1e-9, wait=lambda _: None)
    day.push_payments([customer])
    day.receive_requests(house)
    for act, who in ((day.push_orders, customer), (day.push_shipments, house), (day.push_shortages, house)):
        act(who)
    assert server.pushed["payments"] == [{"amount": 10, "wave": "17.1!"}]
    assert [len(server.pushed[channel]) for channel in ("orders", "shipments", "shortages")] == [1, 1, 1]
    assert server.pushed["shipments"] == [{"item": "tea", "wave": "17.1!"}]


def test_users_of_the_sky_survey_push_and_subscribe() -> None:
    people = load_module("sky_survey", "simulate")
    (one,) = people.create_astronomers(1, seed=1)
    server = Server({"astronomer": one.name, "object": "S1", "author": "survey"})
    night = people.Night(server, seconds=1e-9, wait=lambda _: None)
    night.push_opinions(one)
    night.push_annotations(people.Survey(Random(1)))
    assert [o["object"] for o in server.pushed["opinions"]] == ["S1"]
    assert [a["object"] for a in server.pushed["annotations"]] == ["S1"]


def test_the_manager_is_alerted_of_an_item_that_is_missing_twice(application: OpenApplication) -> None:
    shop = application("supply_chain")
    reports = [("tea", "Bremen", 0), ("salt", "Trieste", 1), ("tea", "Bremen", 9), ("salt", "Trieste", 20)]
    for item, warehouse, minute in reports:
        shop.insert("shortages", [{"item": item, "warehouse": warehouse, "at": f"2026-01-01T00:{minute:02}:00Z"}])
    shop.run("again", "alerts")
    assert shop.rows("alerts", "item", "reports") == [("tea", 2)]


@pytest.mark.long
def test_astronomers_are_notified_by_interest_and_agree(application: OpenApplication) -> None:
    sky = application("sky_survey")
    people, survey = sky.people.create_astronomers(12, seed=2), sky.people.Survey(Random(2))
    interests = [area for one in people for area in one.create_interests(5)]
    annotations = [survey.create_annotation() for _ in range(20)]
    sky.run("notices", "consensus")  # before any insert
    sky.insert("interests", interests)
    sky.insert("annotations", annotations)
    sky.run("zones", "notices", "places")
    (feedback,) = build_deliveries(
        sky.mill.settings.deliver, sky.mill.catalog, sky.mill.store.open_file, sky.mill.insert_batcher
    )
    feedback()  # from now on their consensus is fed back
    notices = sky.new("notices")
    notified = {(n["astronomer"], n["object"]) for n in notices}
    assert notified == {(i["astronomer"], a["object"]) for a in annotations for i in interests if _is_within(i, a)}
    opinions = [opinion for one in people for opinion in one.give_opinions(notices, AT)]
    sky.insert("opinions", opinions)
    sky.run("heard", "consensus")
    agreed = sky.rows("consensus", "object", "text")
    votes = {o: [v["agrees"] for v in opinions if v["object"] == o] for o in {v["object"] for v in opinions}}
    assert agreed == sorted(
        (o, _format_verdict(three)) for o, voices in votes.items() for three in _split_into_threes(voices)
    )
    assert agreed
    feedback()
    sky.run("notices")
    repeated = {(n["object"], n["text"]) for n in sky.new("notices")}
    assert repeated == set(agreed), "each notified astronomer is notified of the consensus"


def _split_into_threes(voices: list[bool]) -> Iterator[list[bool]]:
    """Groups of three opinions in arrival order; an incomplete group waits."""
    return (voices[n : n + 3] for n in range(0, len(voices) - 2, 3))


def _is_within(interest: Row, annotation: Row) -> bool:
    """By the chord between two points of a sphere, a different formula from the workflow's."""
    return interest["kind"] == annotation["kind"] and _compute_distance(interest, annotation) <= interest["radius"]


def _compute_distance(one: Row, other: Row) -> float:
    chord = np.linalg.norm(_to_vector(one) - _to_vector(other))
    return float(np.degrees(2 * np.arcsin(chord / 2)))


def _to_vector(position: Row) -> Any:
    ra, dec = np.radians(position["ra"]), np.radians(position["dec"])
    return np.array([np.cos(dec) * np.cos(ra), np.cos(dec) * np.sin(ra), np.sin(dec)])


def _format_verdict(votes: list[bool]) -> str:
    return f"{'confirmed' if sum(votes) > 1 else 'doubted'} by {len(votes)}"
