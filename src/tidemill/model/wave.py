"""Waves: all that derives from one event that came from outside, marked so that it can be brought together again.

An event from outside starts a wave and has its root as a tag. What a task makes of an event with tag `t` has the tags
`t.1`, `t.2`, … and the last of them is marked as such. So a tag tells the way that an event has come, and a set of tags
tells whether something is still missing. Tags are counted within a channel: what a task writes to two channels is
numbered in each, and where it writes nothing to a channel, that an event *ended* there is passed on instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import takewhile

from tidemill.errors import BadInput


@dataclass(frozen=True, slots=True, order=True)
class LineageStep:
    """One task's work: which of its results this is, and whether it is the last."""

    serial: int  # from 1
    last: bool = False

    def __str__(self) -> str:
        return f"{self.serial}!" if self.last else str(self.serial)


@dataclass(frozen=True, slots=True, order=True)
class LineageTag:
    """Where an event belongs in its wave. Tags of a wave sort as the events were made, results in their place."""

    root: int  # the time of the event from outside in microseconds, made unique
    path: tuple[LineageStep, ...] = ()

    @classmethod
    def from_text(cls, text: str) -> LineageTag:
        """Read a tag as it is written.

        >>> str(LineageTag.from_text("17.3!.1")), LineageTag.from_text("17").path
        ('17.3!.1', ())
        """
        if not _TAG.fullmatch(text):
            raise BadInput(f"not a wave tag: {text!r}; expected a root and serial numbers from 1 on, such as '17.3!.1'")
        root, *steps = text.split(".")
        return cls(int(root), tuple(LineageStep(int(s.rstrip("!")), s.endswith("!")) for s in steps))

    def __str__(self) -> str:
        return ".".join(map(str, (self.root, *self.path)))

    @property
    def serials(self) -> tuple[int, ...]:
        return tuple(step.serial for step in self.path)

    def derive_tags(self, count: int) -> list[LineageTag]:
        """The tags of what a task makes of this event. If it makes nothing, the event ended.

        >>> [str(t) for t in LineageTag(17).derive_tags(2)]
        ['17.1', '17.2!']
        """
        return [LineageTag(self.root, (*self.path, LineageStep(n, n == count))) for n in range(1, count + 1)]

    def list_ancestors(self) -> list[LineageTag]:
        """The tags of the events that this one derives from, beginning with the one from outside.

        >>> [str(t) for t in LineageTag.from_text("17.3!.1").list_ancestors()]
        ['17', '17.3!']
        """
        return [LineageTag(self.root, self.path[:depth]) for depth in range(len(self.path))]

    def is_derived_from(self, other: LineageTag) -> bool:
        return other in self.list_ancestors()


_TAG = re.compile(r"-?\d+(\.[1-9]\d*!?)*")


def merge_tags(tags: Iterable[LineageTag]) -> LineageTag:
    """The tag from which a result of several events derives: what they have in common, if they are of one wave.

    If they are of several waves, the result belongs to the newest event: that is the one that made it due.

    >>> tags = (["17.2.1", "17.2.3!"], ["17.2", "18.1", "18"])
    >>> [str(merge_tags(map(LineageTag.from_text, texts))) for texts in tags]
    ['17.2', '18.1']
    """
    ordered = sorted(tags)
    first, last = ordered[0], ordered[-1]
    if first.root != last.root:
        return last
    steps = zip(first.path, last.path, strict=False)
    return LineageTag(first.root, tuple(a for a, _ in takewhile(lambda pair: pair[0] == pair[1], steps)))


@dataclass(slots=True)
class _EventNode:
    """An event that was worked on, as far as its results are known."""

    results: int | None = None  # so many there are, once the last is known
    complete: set[int] = field(default_factory=set)  # results that miss nothing


class WaveProgress:
    """What has come of one wave on one channel. It is complete when every event has come or its results have."""

    def __init__(self) -> None:
        self._nodes: dict[tuple[int, ...], _EventNode] = {}
        self._done = False

    @property
    def is_complete(self) -> bool:
        return self._done

    def add_tag(self, tag: LineageTag) -> bool:
        """An event has come, or the word that it ended; is the wave complete with it, and was not before?"""
        if self._done:
            return False
        for depth, step in enumerate(tag.path):
            node = self._nodes.setdefault(tag.serials[:depth], _EventNode())
            if step.last:
                node.results = step.serial
        self._done = self._complete_ancestors(tag.serials)
        return self._done

    def _complete_ancestors(self, serials: tuple[int, ...]) -> bool:
        """An event misses nothing any more; go on with the one that it derives from as long as the same holds there."""
        while serials:
            *above, serial = serials
            serials = tuple(above)
            node = self._nodes[serials]
            node.complete.add(serial)
            if node.results is None or len(node.complete) < node.results:
                return False
        return True


class WaveBarrier:
    """Brings branches together: tells when a wave is complete on all of them."""

    def __init__(self, branches: Iterable[str]) -> None:
        self._branches = tuple(branches)
        self._waves: dict[int, dict[str, WaveProgress]] = {}

    def add_tag(self, branch: str, tag: LineageTag) -> bool:
        """An event has come on a branch, or the word that it ended; are now all branches complete?"""
        waves = self._waves.setdefault(tag.root, {name: WaveProgress() for name in self._branches})
        if not waves[branch].add_tag(tag) or not all(p.is_complete for p in waves.values()):
            return False
        del self._waves[tag.root]
        return True

    @property
    def incomplete_waves(self) -> frozenset[int]:
        """The waves of which something has come, and something is missing."""
        return frozenset(self._waves)


class RootGenerator:
    """Gives each event from outside a root of its own: its time, or the next that is free."""

    def __init__(self, last: int = -(2**62)) -> None:
        self.last = last

    def generate_tag(self, time: int) -> LineageTag:
        self.last = max(time, self.last + 1)
        return LineageTag(self.last)
