"""Twenty customers and three warehouses at a running server: orders are pushed, requests are followed.

python simulate.py --seconds 120
"""

from __future__ import annotations

import argparse
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from threading import Thread
from typing import Any

import tidemill as tm

Row = Mapping[str, Any]

PRODUCTS = {
    "tea": "Bremen", "coffee": "Bremen", "sugar": "Bremen", "rice": "Trieste", "pepper": "Trieste",
    "salt": "Trieste", "cotton": "Porto", "cork": "Porto", "wine": "Porto",
}  # fmt: skip
"""By product, the warehouse that has it."""

UNKNOWN = "saffron"
"""Customers ask for it, and nobody has it."""


def stock() -> list[Row]:
    return [{"item": item, "warehouse": warehouse} for item, warehouse in PRODUCTS.items()]


@dataclass
class Customer:
    """Orders a few products at random, and pays what was placed."""

    name: str
    chance: Random

    def order(self) -> Row:
        wanted = self.chance.sample([*PRODUCTS, UNKNOWN], self.chance.randint(1, 4))
        return {"customer": self.name, "items": wanted}

    def pay(self, placed: Iterable[Row]) -> Iterator[Row]:
        for order in placed:
            if order["customer"] == self.name:
                yield {"amount": 10 * len(order["items"]), "wave": order["wave"]}


@dataclass
class Warehouse:
    """Has a work list, of which it ships some at a time, in an order of its own; and runs out of things."""

    name: str
    chance: Random
    asked: deque[Row] = field(default_factory=deque)  # one thread puts requests in, another takes them out
    waiting: list[Row] = field(default_factory=list)

    def take(self, requests: Iterable[Row]) -> None:
        self.asked.extend(r for r in requests if r["warehouse"] == self.name)

    def ship(self, most: int) -> list[Row]:
        while self.asked:
            self.waiting.append(self.asked.popleft())
        self.chance.shuffle(self.waiting)
        going, self.waiting = self.waiting[:most], self.waiting[most:]
        return [{"item": request["item"], "wave": request["wave"]} for request in going]

    def run_out(self, at: str) -> Row:
        item = self.chance.choice([item for item, place in PRODUCTS.items() if place == self.name])
        return {"item": item, "warehouse": self.name, "at": at}


def customers(count: int, seed: int) -> list[Customer]:
    return [Customer(f"customer-{n}", Random(f"{seed} {n}")) for n in range(count)]


def warehouses(seed: int) -> list[Warehouse]:
    return [Warehouse(name, Random(f"{seed} {name}")) for name in dict.fromkeys(PRODUCTS.values())]


class Day:
    """So much time, and who does what in it. Everyone is a thread with a name of their own as a producer."""

    def __init__(self, mill: tm.Client, seconds: float, wait: Callable[[float], None] = time.sleep) -> None:
        self._mill = mill
        self._over = time.monotonic() + seconds
        self._wait = wait

    def beats(self, seconds: float, chance: Random) -> Iterator[None]:
        """At random moments that are so far apart on average, the last one when the day is over."""
        going_on = True
        while going_on:
            self._wait(chance.expovariate(1 / seconds))
            going_on = time.monotonic() < self._over
            yield

    def buying(self, customer: Customer) -> None:
        orders = (customer.order() for _ in self.beats(2.0, customer.chance))
        self._mill.push("orders", orders, producer=customer.name)

    def paying(self, everybody: Iterable[Customer]) -> None:
        people = list(everybody)
        for block in self._mill.subscribe("placed"):
            bills = [bill for customer in people for bill in customer.pay(block.rows)]
            self._mill.push("payments", bills, producer="bank")

    def listening(self, warehouse: Warehouse) -> None:
        for block in self._mill.subscribe("requests", where=[f"warehouse = {warehouse.name}"]):
            warehouse.take(block.rows)

    def shipping(self, warehouse: Warehouse) -> None:
        shipments = (shipment for _ in self.beats(1.0, warehouse.chance) for shipment in warehouse.ship(20))
        self._mill.push("shipments", shipments, producer=warehouse.name)

    def complaining(self, warehouse: Warehouse) -> None:
        reports = (warehouse.run_out(datetime.now(UTC).isoformat()) for _ in self.beats(10.0, warehouse.chance))
        self._mill.push("shortages", reports, producer=warehouse.name)


def main() -> None:
    given = argparse.ArgumentParser(description="Customers and warehouses at a running server.")
    given.add_argument("--url", default="http://127.0.0.1:8484")
    given.add_argument("--seconds", type=float, default=120.0)
    given.add_argument("--customers", type=int, default=20)
    given.add_argument("--seed", type=int, default=1)
    wish = given.parse_args()
    with tm.Client(wish.url) as mill:
        mill.insert("stock", stock())
        day = Day(mill, wish.seconds)
        buyers, houses = customers(wish.customers, wish.seed), warehouses(wish.seed)
        ears = [Thread(target=day.paying, args=(buyers,), daemon=True)]
        ears += [Thread(target=day.listening, args=(house,), daemon=True) for house in houses]
        hands = [Thread(target=day.buying, args=(buyer,)) for buyer in buyers]
        hands += [Thread(target=act, args=(house,)) for house in houses for act in (day.shipping, day.complaining)]
        for thread in (*ears, *hands):
            thread.start()
        for thread in hands:
            thread.join()


if __name__ == "__main__":
    main()
