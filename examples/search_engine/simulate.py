"""A small web, those who search and click in it, and a crawler, at a running server.

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
MANY = 30  # pages of a site


@dataclass
class Web:
    """Everything that happens in a round follows from its number."""

    seed: int = 1
    size: int = 20  # pages, clicks, searches and fetches a round

    def round(self, number: int, at: int) -> dict[str, Rows]:
        """What arrives on each input; `at`, in seconds, is when it was fetched."""
        chance = Random(f"{self.seed} {number}")
        urls = sorted({_url(chance) for _ in range(self.size)})
        return {
            "pages": [{"url": url, "body": _body(chance)} for url in urls],
            "clicks": [{"user": chance.randrange(self.size), "url": _url(chance)} for _ in range(self.size)],
            "log": [_search(chance) for _ in range(self.size)],
            "fetched": [_fetch(chance, url, at) for url in urls],
        }


def _url(chance: Random) -> str:
    return f"{chance.choice(SITES)}/{int(MANY * chance.random() ** 2)}"


def _body(chance: Random) -> str:
    """Words and links."""
    return " ".join([*chance.choices(WORDS, k=6), *(_url(chance) for _ in range(2))])


def _search(chance: Random) -> dict[str, Any]:
    links = [_url(chance) for _ in range(2)]
    return {"query": chance.choice(WORDS), "links": links, "clicked": chance.choice([None, *links])}


def _fetch(chance: Random, url: str, at: int) -> dict[str, Any]:
    if chance.random() < 0.1:
        return {"url": url, "at": at, "error": MISSING, "body": None}
    return {"url": url, "at": at, "error": None, "body": _body(chance)}


def main() -> None:
    given = argparse.ArgumentParser(description="A small web at a running server.")
    given.add_argument("--url", default="http://127.0.0.1:8484")
    given.add_argument("--rounds", type=int, default=10)
    given.add_argument("--seconds", type=float, default=5.0, help="from one round to the next")
    given.add_argument("--seed", type=int, default=1)
    wish = given.parse_args()
    web = Web(wish.seed)
    with tm.Client(wish.url) as mill:
        for number in range(wish.rounds):
            for channel, rows in web.round(number, int(time.time())).items():
                mill.insert(channel, rows)
            time.sleep(wish.seconds)


if __name__ == "__main__":
    main()
