"""Incremental chains: each state is made from the one before and new data; now and then somebody branches off."""

from __future__ import annotations

from random import Random

from benchmarks.eviction.submission import Submission, Workshop
from tidemill.retention.eviction.history import ProducedDataset

USUAL = {
    "parse": (60.0, 50.0),
    "state": (100.0, 300.0),
    "report": (30.0, 1.0),
}
CHAINS = 5
BRANCH = 0.06
BACK = 12  # steps that a branch goes back, on average


def chains(random: Random, count: int) -> list[Submission]:
    shop = Workshop(random, USUAL, spread=0.5)
    states: list[list[ProducedDataset]] = [[] for _ in range(CHAINS)]
    made: list[Submission] = []
    while len(made) < count:
        chain = random.randrange(CHAINS)
        if states[chain] and random.random() < BRANCH:
            made.append(_branch(random, shop, chain, states[chain], len(made)))
        else:
            states[chain].append(_next(shop, chain, states[chain], len(states[chain]), "main"))
            made.append(shop.submission(f"chain {chain}", [shop.make("report", "", [states[chain][-1]])]))
    return made


def _next(shop: Workshop, chain: int, before: list[ProducedDataset], step: int, name: str) -> ProducedDataset:
    return shop.make("state", name, [*before[-1:], shop.make("parse", (chain, step))])


def _branch(random: Random, shop: Workshop, chain: int, states: list[ProducedDataset], number: int) -> Submission:
    """What would be, had something been decided otherwise some steps ago."""
    first = max(0, len(states) - 1 - int(random.expovariate(1 / BACK)))
    other = states[:first]
    for step in range(first, len(states)):
        other.append(_next(shop, chain, other, step, f"branch {number}"))
    return shop.submission(f"branches of {chain}", [shop.make("report", "", [other[-1]])])
