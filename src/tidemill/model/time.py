"""Logical time.

A version is the reading of the catalog's clock when an update of an input channel became visible: microseconds
since the epoch, advanced where necessary so that versions strictly increase over the whole catalog.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Version = int


def compute_next_version(last: Version, now: float) -> Version:
    """The clock's next reading: the time of day, or just after the last reading if that is later.

    >>> compute_next_version(last=0, now=1.5)
    1500000
    >>> compute_next_version(last=2_000_000, now=1.5)
    2000001
    """
    return max(last + 1, int(now * 1_000_000))


@dataclass(frozen=True, slots=True)
class Timeline:
    """The versions of each input channel, and the current time.

    A version is valid from its time until the channel's next version: its *end*. The newest version's end is `now`.
    """

    versions: Mapping[str, Sequence[Version]]  # per input channel, ascending
    now: Version

    def find_end(self, channel: str, version: Version) -> Version:
        versions = self.versions.get(channel, ())
        i = bisect_right(versions, version)
        return versions[i] if i < len(versions) else self.now
