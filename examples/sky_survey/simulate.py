"""Simulate a survey and a dozen astronomers at a running server: push annotations and opinions, subscribe to notices.

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
    """Finds objects at random positions in the sky."""

    chance: Random
    count: int = 0

    def create_annotation(self) -> Row:
        self.count += 1
        position = {"ra": self.chance.uniform(0, 360), "dec": self.chance.uniform(-60, 60)}
        return {"object": f"S{self.count}", "kind": self.chance.choice(KINDS), **position} | {
            "author": "survey",
            "text": "new in the sky",
        }


@dataclass
class Astronomer:
    """Is interested in some areas, and gives one opinion on each object that is found there."""

    name: str
    chance: Random
    answered: set[str] = field(default_factory=set)

    def create_interests(self, areas: int) -> Iterator[Row]:
        for number in range(areas):
            position = {"ra": self.chance.uniform(0, 360), "dec": self.chance.uniform(-60, 60)}
            area = {"area": f"{self.name}'s {number}", "kind": self.chance.choice(KINDS), **position}
            yield {"astronomer": self.name, **area, "radius": self.chance.uniform(20, 60)}

    def give_opinions(self, notices: Iterable[Row], at: str) -> Iterator[Row]:
        """One opinion on each object of the notices, except on those that come from a consensus."""
        for notice in notices:
            name = notice["object"]
            if notice["astronomer"] == self.name and notice["author"] != "consensus" and name not in self.answered:
                self.answered.add(name)
                yield {"object": name, "astronomer": self.name, "agrees": self.chance.random() < 0.8, "at": at}


def create_astronomers(count: int, seed: int) -> list[Astronomer]:
    return [Astronomer(f"astronomer-{n}", Random(f"{seed} {n}")) for n in range(count)]


class Night:
    """The actions of all participants for a number of seconds; each is a thread and pushes under its own name."""

    def __init__(self, mill: tm.Client, seconds: float, wait: Callable[[float], None] = time.sleep) -> None:
        self._mill = mill
        self._ends_at = time.monotonic() + seconds
        self._sleep = wait

    def push_annotations(self, survey: Survey) -> None:
        self._mill.push("annotations", self._generate_annotations(survey), producer="survey")

    def _generate_annotations(self, survey: Survey) -> Iterator[Row]:
        """Annotations at random times, two per second on average; the last one after the night has ended."""
        is_night = True
        while is_night:
            self._sleep(survey.chance.expovariate(2.0))
            is_night = time.monotonic() < self._ends_at
            yield survey.create_annotation()

    def push_opinions(self, astronomer: Astronomer) -> None:
        for block in self._mill.subscribe("notices", where=[f"astronomer = {astronomer.name}"]):
            opinions = list(astronomer.give_opinions(block.rows, datetime.now(UTC).isoformat()))
            self._mill.push("opinions", opinions, producer=astronomer.name)


def main() -> None:
    parser = argparse.ArgumentParser(description="A survey and astronomers at a running server.")
    parser.add_argument("--url", default="http://127.0.0.1:8484")
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--astronomers", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tm.Client(options.url) as mill:
        observers = create_astronomers(options.astronomers, options.seed)
        mill.insert("interests", [area for observer in observers for area in observer.create_interests(5)])
        night = Night(mill, options.seconds)
        for observer in observers:
            Thread(target=night.push_opinions, args=(observer,), daemon=True).start()
        night.push_annotations(Survey(Random(options.seed)))


if __name__ == "__main__":
    main()
