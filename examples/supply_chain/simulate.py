"""Simulate customers and warehouses at a running server: push orders and shipments, subscribe to requests.

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
"""The warehouse of each product."""

UNKNOWN = "saffron"
"""A product that customers order and no warehouse has."""


def create_stock() -> list[Row]:
    return [{"item": item, "warehouse": warehouse} for item, warehouse in PRODUCTS.items()]


@dataclass
class Customer:
    """Orders a few products at random, and pays the orders that were placed."""

    name: str
    chance: Random

    def order(self) -> Row:
        items = self.chance.sample([*PRODUCTS, UNKNOWN], self.chance.randint(1, 4))
        return {"customer": self.name, "items": items}

    def pay(self, orders: Iterable[Row]) -> Iterator[Row]:
        for order in orders:
            if order["customer"] == self.name:
                yield {"amount": 10 * len(order["items"]), "wave": order["wave"]}


@dataclass
class Warehouse:
    """Ships its pending requests in random order, some at a time, and reports products that are out of stock."""

    name: str
    chance: Random
    requests: deque[Row] = field(default_factory=deque)  # appended by one thread, removed by another
    pending: list[Row] = field(default_factory=list)

    def take(self, requests: Iterable[Row]) -> None:
        self.requests.extend(r for r in requests if r["warehouse"] == self.name)

    def ship(self, limit: int) -> list[Row]:
        while self.requests:
            self.pending.append(self.requests.popleft())
        self.chance.shuffle(self.pending)
        shipped, self.pending = self.pending[:limit], self.pending[limit:]
        return [{"item": request["item"], "wave": request["wave"]} for request in shipped]

    def run_out(self, at: str) -> Row:
        item = self.chance.choice([item for item, warehouse in PRODUCTS.items() if warehouse == self.name])
        return {"item": item, "warehouse": self.name, "at": at}


def create_customers(count: int, seed: int) -> list[Customer]:
    return [Customer(f"customer-{n}", Random(f"{seed} {n}")) for n in range(count)]


def create_warehouses(seed: int) -> list[Warehouse]:
    return [Warehouse(name, Random(f"{seed} {name}")) for name in dict.fromkeys(PRODUCTS.values())]


class Day:
    """The actions of all participants for a number of seconds; each is a thread and pushes under its own name."""

    def __init__(self, mill: tm.Client, seconds: float, wait: Callable[[float], None] = time.sleep) -> None:
        self._mill = mill
        self._ends_at = time.monotonic() + seconds
        self._sleep = wait

    def wait_at_random(self, seconds: float, chance: Random) -> Iterator[None]:
        """Wait for random times with this mean, until the first one after the day has ended."""
        is_day = True
        while is_day:
            self._sleep(chance.expovariate(1 / seconds))
            is_day = time.monotonic() < self._ends_at
            yield

    def push_orders(self, customer: Customer) -> None:
        orders = (customer.order() for _ in self.wait_at_random(2.0, customer.chance))
        self._mill.push("orders", orders, producer=customer.name)

    def push_payments(self, customers: Iterable[Customer]) -> None:
        payers = list(customers)
        for block in self._mill.subscribe("placed"):
            bills = [bill for customer in payers for bill in customer.pay(block.rows)]
            self._mill.push("payments", bills, producer="bank")

    def receive_requests(self, warehouse: Warehouse) -> None:
        for block in self._mill.subscribe("requests", where=[f"warehouse = {warehouse.name}"]):
            warehouse.take(block.rows)

    def push_shipments(self, warehouse: Warehouse) -> None:
        shipments = (shipment for _ in self.wait_at_random(1.0, warehouse.chance) for shipment in warehouse.ship(20))
        self._mill.push("shipments", shipments, producer=warehouse.name)

    def push_shortages(self, warehouse: Warehouse) -> None:
        reports = (
            warehouse.run_out(datetime.now(UTC).isoformat()) for _ in self.wait_at_random(10.0, warehouse.chance)
        )
        self._mill.push("shortages", reports, producer=warehouse.name)


def main() -> None:
    parser = argparse.ArgumentParser(description="Customers and warehouses at a running server.")
    parser.add_argument("--url", default="http://127.0.0.1:8484")
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--customers", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tm.Client(options.url) as mill:
        mill.insert("stock", create_stock())
        day = Day(mill, options.seconds)
        buyers, depots = create_customers(options.customers, options.seed), create_warehouses(options.seed)
        subscribers = [Thread(target=day.push_payments, args=(buyers,), daemon=True)]
        subscribers += [Thread(target=day.receive_requests, args=(depot,), daemon=True) for depot in depots]
        producers = [Thread(target=day.push_orders, args=(buyer,)) for buyer in buyers]
        producers += [
            Thread(target=action, args=(depot,))
            for depot in depots
            for action in (day.push_shipments, day.push_shortages)
        ]
        for thread in (*subscribers, *producers):
            thread.start()
        for thread in producers:
            thread.join()


if __name__ == "__main__":
    main()
