"""Which events complete their waves: what the window operator must know, found from tags."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from tidemill.model.wave import Progress, Tag


class Completion:
    """The waves of a channel that are not complete. Its state is the tags that came of them."""

    def __init__(self, came: Iterable[Tag] = ()) -> None:
        self._progress: dict[int, Progress] = {}
        self._came: dict[int, list[Tag]] = {}
        self.run(list(came))

    def run(self, tags: Sequence[Tag]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """The wave of each event, and whether it is complete with it."""
        waves = np.array([tag.root for tag in tags], np.int64)
        return waves, np.array([self._add(tag) for tag in tags], bool)

    def _add(self, tag: Tag) -> bool:
        complete = self._progress.setdefault(tag.root, Progress()).add(tag)
        self._came.setdefault(tag.root, []).append(tag)
        if complete:
            del self._progress[tag.root], self._came[tag.root]
        return complete

    @property
    def waiting(self) -> list[Tag]:
        return [tag for tags in self._came.values() for tag in tags]
