"""Where waves start, where events end, and where branches come together: steps that know tags and nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from tidemill.errors import BadInput
from tidemill.model.change import DELETED
from tidemill.model.wave import Roots, Synch, Tag
from tidemill.model.wave_steps import WAVE, Ended, Started, Synched
from tidemill.stream.operator import Batch, Made, Piece
from tidemill.stream.state_blocks import standing

BRANCH, TAG = "branch", "tag"
WHAT, ROOT = "what", "root"


def tags_of(rows: pa.Table) -> list[str]:
    tags: list[str] = rows[WAVE].to_pylist()
    if None in tags:
        raise BadInput(f"a wave is known by the tag of each event in the column {WAVE!r}, but a row has NULL")
    return tags


class Starting:
    """Gives each event a root of its own: when it arrived, or the next that is free."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._roots = Roots()

    def restore(self, blocks: Mapping[str, Sequence[pa.Table]]) -> None:
        given = [root for block in blocks[Started.LAST] for root in block[ROOT].to_pylist()]
        self._roots = Roots(given[-1]) if given else Roots()

    def run(self, batch: Batch) -> Made:
        pieces = batch.new[Started.ARGUMENT]
        roots = [str(self._roots.next(piece.arrived)) for piece in pieces for _ in range(piece.rows.num_rows)]
        if not roots:
            return Made({}, {})
        rows = pa.concat_tables([self._schema.empty_table(), *(p.rows.cast(self._schema) for p in pieces)])
        last = pa.table({WHAT: pa.array([0], pa.int32()), ROOT: [self._roots.last]})
        return Made({Started.EVENTS: rows.append_column(WAVE, pa.array(roots))}, {Started.LAST: last})


class Ending:
    """Passes on that events ended: of which nothing was made, or which had ended before."""

    def restore(self, blocks: Mapping[str, Sequence[pa.Table]]) -> None:
        """All that counts is in the batch: what is made of an event is made in one run."""

    def run(self, batch: Batch) -> Made:
        went_on = {tag.rpartition(".")[0] for tag in tags_of(batch.rows(Ended.RESULTS))}
        fruitless = [tag for tag in tags_of(batch.rows(Ended.EVENTS)) if tag not in went_on]
        before = tags_of(batch.rows(Ended.BEFORE)) if Ended.BEFORE in batch.new else []
        return Made({Ended.ENDED: pa.table({WAVE: pa.array([*before, *fruitless], pa.string())})}, {})


class Synching:
    """Tells of a wave when it is complete on all branches. Its state is the tags of those that are not."""

    def __init__(self, code: Synched) -> None:
        self._branches = code.branches
        self._synch = Synch(dict.fromkeys(code.branches.values()))
        self._came: dict[int, list[tuple[str, str]]] = {}

    def restore(self, blocks: Mapping[str, Sequence[pa.Table]]) -> None:
        for branch, tag in standing(blocks[Synched.TAGS], (BRANCH, TAG)):
            self._add(branch, tag)

    def run(self, batch: Batch) -> Made:
        before = self._waiting()
        complete = [wave for branch, tag in self._new(batch) if (wave := self._add(branch, tag)) is not None]
        waves = pa.table({WAVE: pa.array(map(str, complete), pa.string())})
        return Made({Synched.WAVES: waves}, {Synched.TAGS: _changes(before, self._waiting())})

    def _new(self, batch: Batch) -> Iterator[tuple[str, str]]:
        """Branch and tag of what is new, as it arrived."""
        pieces = [(piece, branch) for name, branch in self._branches.items() for piece in batch.new[name]]
        for piece, branch in sorted(pieces, key=_arrived):
            yield from ((branch, tag) for tag in tags_of(piece.rows))

    def _add(self, branch: str, text: str) -> int | None:
        """The wave that is complete with this, if it is."""
        tag = Tag.parse(text)
        self._came.setdefault(tag.root, []).append((branch, text))
        if not self._synch.add(branch, tag):
            return None
        del self._came[tag.root]
        return tag.root

    def _waiting(self) -> dict[tuple[str, str], None]:
        return dict.fromkeys(came for tags in self._came.values() for came in tags)


def _arrived(pair: tuple[Piece, str]) -> int:
    return pair[0].arrived


def _changes(before: Mapping[tuple[str, str], None], now: Mapping[tuple[str, str], None]) -> pa.Table:
    came, gone = [c for c in now if c not in before], [c for c in before if c not in now]
    every = [*came, *gone]
    deleted = pa.array([None] * len(came) + [True] * len(gone), pa.bool_())
    columns = {BRANCH: [branch for branch, _ in every], TAG: [tag for _, tag in every]}
    return pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()} | {DELETED: deleted})
