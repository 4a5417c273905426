"""A survey and a dozen astronomers at a running server: annotations are pushed, notices are followed.

python simulate.py --seconds 120
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from threading import Thread
from typing import Any

import tidemill as tm

Row = Mapping[str, Any]

KINDS = ("galaxy", "supernova")


@dataclass
class Survey:
    """Finds objects all over the sky."""

    chance: Random
    found: int = 0

    def annotation(self) -> Row:
        self.found += 1
        place = {"ra": self.chance.uniform(0, 360), "dec": self.chance.uniform(-60, 60)}
        return {"object": f"S{self.found}", "kind": self.chance.choice(KINDS), **place} | {
            "author": "survey",
            "text": "new in the sky",
        }


@dataclass
class Astronomer:
    """Watches some areas, has an opinion on what is found there, and says it once."""

    name: str
    chance: Random
    said: set[str] = field(default_factory=set)

    def interests(self, areas: int) -> Iterator[Row]:
        for number in range(areas):
            place = {"ra": self.chance.uniform(0, 360), "dec": self.chance.uniform(-60, 60)}
            area = {"area": f"{self.name}'s {number}", "kind": self.chance.choice(KINDS), **place}
            yield {"astronomer": self.name, **area, "radius": self.chance.uniform(20, 60)}

    def opinions(self, notices: Iterable[Row], at: str) -> Iterator[Row]:
        """On what somebody found; of what they all agree on, this one has heard enough."""
        for notice in notices:
            about = notice["object"]
            if notice["astronomer"] == self.name and notice["author"] != "consensus" and about not in self.said:
                self.said.add(about)
                yield {"object": about, "astronomer": self.name, "agrees": self.chance.random() < 0.8, "at": at}


def astronomers(count: int, seed: int) -> list[Astronomer]:
    return [Astronomer(f"astronomer-{n}", Random(f"{seed} {n}")) for n in range(count)]


class Night:
    """So much time, and who does what in it. Everyone is a thread with a name of their own as a producer."""

    def __init__(self, mill: tm.Client, seconds: float, wait: Callable[[float], None] = time.sleep) -> None:
        self._mill = mill
        self._over = time.monotonic() + seconds
        self._wait = wait

    def surveying(self, survey: Survey) -> None:
        self._mill.push("annotations", self._annotations(survey), producer="survey")

    def _annotations(self, survey: Survey) -> Iterator[Row]:
        """At random moments, two in a second on average, the last one when the night is over."""
        going_on = True
        while going_on:
            self._wait(survey.chance.expovariate(2.0))
            going_on = time.monotonic() < self._over
            yield survey.annotation()

    def watching(self, astronomer: Astronomer) -> None:
        for block in self._mill.subscribe("notices", where=[f"astronomer = {astronomer.name}"]):
            opinions = list(astronomer.opinions(block.rows, datetime.now(UTC).isoformat()))
            self._mill.push("opinions", opinions, producer=astronomer.name)


def main() -> None:
    given = argparse.ArgumentParser(description="A survey and astronomers at a running server.")
    given.add_argument("--url", default="http://127.0.0.1:8484")
    given.add_argument("--seconds", type=float, default=120.0)
    given.add_argument("--astronomers", type=int, default=12)
    given.add_argument("--seed", type=int, default=1)
    wish = given.parse_args()
    with tm.Client(wish.url) as mill:
        people = astronomers(wish.astronomers, wish.seed)
        mill.insert("interests", [area for one in people for area in one.interests(5)])
        night = Night(mill, wish.seconds)
        for one in people:
            Thread(target=night.watching, args=(one,), daemon=True).start()
        night.surveying(Survey(Random(wish.seed)))


if __name__ == "__main__":
    main()
