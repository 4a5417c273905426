"""Mixed users: many people ask new questions of shared tables, some of which are far more popular than others."""

from __future__ import annotations

from random import Random

from benchmarks.eviction.submission import Submission, Workshop, zipf
from tidemill.retention.eviction.history import ProducedDataset

USUAL = {
    "prepare": (300.0, 300.0),
    "join": (500.0, 400.0),
    "filter": (80.0, 60.0),
    "aggregate": (120.0, 10.0),
    "answer": (20.0, 1.0),
}
USERS, TABLES, FILTERS = 12, 40, 8
RENEWED = 0.1  # how often there are new data since a table was last read


def mixed(random: Random, count: int) -> list[Submission]:
    shop = Workshop(random, USUAL, spread=0.9)
    pairs = [(a, b) for a in range(TABLES) for b in range(a)]
    random.shuffle(pairs)
    loaded = [0] * TABLES
    return [_question(random, shop, pairs, loaded, n) for n in range(count)]


def _question(
    random: Random, shop: Workshop, pairs: list[tuple[int, int]], loaded: list[int], number: int
) -> Submission:
    user = zipf(random, USERS)
    parts = [_part(random, shop, pairs, loaded, user) for _ in range(random.randint(1, 2))]
    return shop.submission(f"user {user}", [shop.make("answer", number, parts)])


def _part(
    random: Random, shop: Workshop, pairs: list[tuple[int, int]], loaded: list[int], user: int
) -> ProducedDataset:
    """Something popular, as this user likes to look at it."""
    read = [zipf(random, TABLES)] if random.random() < 0.5 else pairs[zipf(random, 30)]
    for table in read:
        loaded[table] += random.random() < RENEWED
    tables = [shop.make("prepare", (table, loaded[table])) for table in read]
    source = tables[0] if len(tables) == 1 else shop.make("join", "", tables)
    narrowed = shop.make("filter", (user, zipf(random, FILTERS)), [source])
    return shop.make("aggregate", zipf(random, 50, skew=0.5), [narrowed])
