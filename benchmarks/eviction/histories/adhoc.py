"""Ad hoc: each user explores, step by step, mostly going on from what was found last, sometimes from further back."""

from __future__ import annotations

from random import Random

from benchmarks.eviction.submission import Submission, Workshop
from tidemill.retention.eviction.history import ProducedDataset

USUAL = {
    "source": (300.0, 600.0),
    "step": (120.0, 120.0),
    "combine": (240.0, 150.0),
    "look": (15.0, 1.0),
}
USERS = 8


def adhoc(random: Random, count: int) -> list[Submission]:
    shop = Workshop(random, USUAL, spread=1.0)
    found: list[list[ProducedDataset]] = [[shop.make("source", user)] for user in range(USERS)]
    return [_explored(random, shop, random.randrange(USERS), found, number) for number in range(count)]


def _explored(random: Random, shop: Workshop, user: int, found: list[list[ProducedDataset]], number: int) -> Submission:
    mine = found[user]
    at = mine[-1 - min(len(mine) - 1, int(random.expovariate(1 / 3)))]
    for step in range(random.randint(1, 3)):
        at = _step(random, shop, at, mine, f"{number}.{step}")
        mine.append(at)
    if random.random() < 0.05:
        mine.append(shop.make("source", f"{user}, {number}"))
    return shop.submission(f"user {user}", [shop.make("look", number, [at])])


def _step(
    random: Random, shop: Workshop, at: ProducedDataset, mine: list[ProducedDataset], name: str
) -> ProducedDataset:
    other = random.choice(mine)
    if other is not at and random.random() < 0.15:
        return shop.make("combine", name, [at, other])
    return shop.make("step", name, [at])
