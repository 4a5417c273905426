"""Simulate a small web, its users and a crawler at a running server.

python simulate.py --rounds 10
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from random import Random
from typing import Any

import tidemill as tm

Rows = list[dict[str, Any]]

SITES = ("news.example", "shop.example", "wiki.example", "blog.example")
WORDS = ("tide", "mill", "pond", "sluice", "wheel", "grain", "moon", "salt", "gull", "reed")
MISSING = 404
PAGES_PER_SITE = 30


@dataclass
class Web:
    """Generates the rows of each round from its number and the seed."""

    seed: int = 1
    size: int = 20  # pages, clicks, searches and fetches a round

    def generate_round(self, number: int, at: int) -> dict[str, Rows]:
        """The rows for each input; `at` is the time of fetching, in seconds."""
        chance = Random(f"{self.seed} {number}")
        urls = sorted({_draw_url(chance) for _ in range(self.size)})
        return {
            "pages": [{"url": url, "body": _generate_body(chance)} for url in urls],
            "clicks": [{"user": chance.randrange(self.size), "url": _draw_url(chance)} for _ in range(self.size)],
            "log": [_generate_search(chance) for _ in range(self.size)],
            "fetched": [_generate_fetch(chance, url, at) for url in urls],
        }


def _draw_url(chance: Random) -> str:
    return f"{chance.choice(SITES)}/{int(PAGES_PER_SITE * chance.random() ** 2)}"


def _generate_body(chance: Random) -> str:
    """Words and links."""
    return " ".join([*chance.choices(WORDS, k=6), *(_draw_url(chance) for _ in range(2))])


def _generate_search(chance: Random) -> dict[str, Any]:
    links = [_draw_url(chance) for _ in range(2)]
    return {"query": chance.choice(WORDS), "links": links, "clicked": chance.choice([None, *links])}


def _generate_fetch(chance: Random, url: str, at: int) -> dict[str, Any]:
    if chance.random() < 0.1:
        return {"url": url, "at": at, "error": MISSING, "body": None}
    return {"url": url, "at": at, "error": None, "body": _generate_body(chance)}


def main() -> None:
    parser = argparse.ArgumentParser(description="A small web at a running server.")
    parser.add_argument("--url", default="http://127.0.0.1:8484")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=5.0, help="Seconds between two rounds.")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    web = Web(options.seed)
    with tm.Client(options.url) as mill:
        for number in range(options.rounds):
            for channel, rows in web.generate_round(number, int(time.time())).items():
                mill.insert(channel, rows)
            time.sleep(options.seconds)


if __name__ == "__main__":
    main()
