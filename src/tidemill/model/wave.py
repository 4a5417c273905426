"""Waves: all events derived from one external event, tagged so that a barrier can wait for all of them.

An external event starts a wave; its tag is the wave's root. The results that a task derives from an event with tag `t`
have the tags `t.1`, `t.2`, … and the last of them is marked. So a tag records the lineage of an event, and from a set
of tags follows whether an event is missing. Tags are numbered per channel: the results that a task writes to two
channels are numbered in each, and where it writes none to a channel, a record that the event *ended* is passed on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from tidemill.errors import BadInput


@dataclass(frozen=True, slots=True, order=True)
class LineageStep:
    """One derivation step: the number of the result, and whether it is the last one."""

    serial: int  # from 1
    last: bool = False

    def __str__(self) -> str:
        return f"{self.serial}!" if self.last else str(self.serial)


@dataclass(frozen=True, slots=True, order=True)
class LineageTag:
    """The position of an event in its wave. Tags of a wave sort in the order of derivation."""

    root: int  # the time of the external event in microseconds, made unique
    path: tuple[LineageStep, ...] = ()

    @classmethod
    def from_text(cls, text: str) -> LineageTag:
        """Parse the text form of a tag.

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
        """The tags of the results that a task derives from this event. Without results, the event ended.

        >>> [str(t) for t in LineageTag(17).derive_tags(2)]
        ['17.1', '17.2!']
        """
        return [LineageTag(self.root, (*self.path, LineageStep(n, n == count))) for n in range(1, count + 1)]

    def list_ancestors(self) -> list[LineageTag]:
        """The tags of the events that this one derives from, beginning with the external event.

        >>> [str(t) for t in LineageTag.from_text("17.3!.1").list_ancestors()]
        ['17', '17.3!']
        """
        return [LineageTag(self.root, self.path[:depth]) for depth in range(len(self.path))]

    def is_derived_from(self, other: LineageTag) -> bool:
        return other in self.list_ancestors()


_TAG = re.compile(r"-?\d+(\.[1-9]\d*!?)*")


@dataclass(slots=True)
class _EventNode:
    """An event that was processed, with the known facts about its results."""

    results: int | None = None  # their number, once the last one is known
    complete: set[int] = field(default_factory=set)  # results from which no event is missing


class WaveProgress:
    """The progress of one wave on one channel. It is complete when every event or all its results have arrived."""

    def __init__(self) -> None:
        self._nodes: dict[tuple[int, ...], _EventNode] = {}
        self.is_complete = False

    def add_tag(self, tag: LineageTag) -> bool:
        """Record that an event arrived or ended; returns True if this completes the wave."""
        if self.is_complete:
            return False
        for depth, step in enumerate(tag.path):
            node = self._nodes.setdefault(tag.serials[:depth], _EventNode())
            if step.last:
                node.results = step.serial
        self.is_complete = self._complete_ancestors(tag.serials)
        return self.is_complete

    def _complete_ancestors(self, serials: tuple[int, ...]) -> bool:
        """Mark an event as complete, then its ancestors as far as they become complete; True if the root does."""
        while serials:
            *ancestor, serial = serials
            serials = tuple(ancestor)
            node = self._nodes[serials]
            node.complete.add(serial)
            if node.results is None or len(node.complete) < node.results:
                return False
        return True


class WaveBarrier:
    """Detects when a wave is complete on all of several branches."""

    def __init__(self, branches: Iterable[str]) -> None:
        self._branches = tuple(branches)
        self._waves: dict[int, dict[str, WaveProgress]] = {}

    def add_tag(self, branch: str, tag: LineageTag) -> bool:
        """Record that an event arrived or ended on a branch; True if this completes the wave on all branches."""
        progress = self._waves.setdefault(tag.root, {name: WaveProgress() for name in self._branches})
        if not progress[branch].add_tag(tag) or not all(p.is_complete for p in progress.values()):
            return False
        del self._waves[tag.root]
        return True


class RootGenerator:
    """Assigns each external event a unique root: its time, or the next free microsecond."""

    def __init__(self, last: int = -(2**62)) -> None:
        self.last = last

    def generate_tag(self, time: int) -> LineageTag:
        self.last = max(time, self.last + 1)
        return LineageTag(self.last)
