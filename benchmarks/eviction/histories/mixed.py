"""Mixed users: many users submit new queries on shared tables of very different popularity."""

from __future__ import annotations

from random import Random

from benchmarks.eviction.submission import DatasetFactory, Submission, zipf
from tidemill.retention.eviction.history import ProducedDataset

USUAL = {
    "prepare": (300.0, 300.0),
    "join": (500.0, 400.0),
    "filter": (80.0, 60.0),
    "aggregate": (120.0, 10.0),
    "answer": (20.0, 1.0),
}
USERS, TABLES, FILTERS = 12, 40, 8
RENEWAL_SHARE = 0.1  # probability of new data since the last read of a table


def generate_mixed(random: Random, count: int) -> list[Submission]:
    factory = DatasetFactory(random, USUAL, spread=0.9)
    pairs = [(a, b) for a in range(TABLES) for b in range(a)]
    random.shuffle(pairs)
    versions = [0] * TABLES
    return [_create_question(random, factory, pairs, versions, n) for n in range(count)]


def _create_question(
    random: Random, factory: DatasetFactory, pairs: list[tuple[int, int]], versions: list[int], number: int
) -> Submission:
    user = zipf(random, USERS)
    parts = [_create_part(random, factory, pairs, versions, user) for _ in range(random.randint(1, 2))]
    return factory.create_submission(f"user {user}", [factory.create_dataset("answer", number, parts)])


def _create_part(
    random: Random, factory: DatasetFactory, pairs: list[tuple[int, int]], versions: list[int], user: int
) -> ProducedDataset:
    """An aggregate of popular tables with a filter of this user."""
    table_numbers = [zipf(random, TABLES)] if random.random() < 0.5 else pairs[zipf(random, 30)]
    for table in table_numbers:
        versions[table] += random.random() < RENEWAL_SHARE
    tables = [factory.create_dataset("prepare", (table, versions[table])) for table in table_numbers]
    source = tables[0] if len(tables) == 1 else factory.create_dataset("join", "", tables)
    rows = factory.create_dataset("filter", (user, zipf(random, FILTERS)), [source])
    return factory.create_dataset("aggregate", zipf(random, 50, skew=0.5), [rows])
