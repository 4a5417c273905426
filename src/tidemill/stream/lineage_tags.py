"""Operators on lineage tags: the start of waves, the end of events, and the barrier where branches join."""

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from tidemill.errors import BadInput
from tidemill.model.wave import LineageTag, RootGenerator, WaveBarrier
from tidemill.model.wave_steps import WAVE, WaveBarrierSpec, WaveEndSpec, WaveStartSpec
from tidemill.stream.operator import OperatorBatch, OperatorResult
from tidemill.stream.state_blocks import build_key_delta, list_live_keys

BRANCH, TAG = "branch", "tag"
WHAT, ROOT = "what", "root"


def read_tags(rows: pa.Table) -> list[str]:
    tags: list[str] = rows[WAVE].to_pylist()
    if None in tags:
        raise BadInput(f"expected the lineage tag of each event in the column {WAVE!r}, found NULL")
    return tags


class WaveStartOperator:
    """Gives each event a unique root: its arrival time, or the next free one."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._roots = RootGenerator()

    def restore(self, blocks: Mapping[str, Sequence[pa.Table]]) -> None:
        roots = [root for block in blocks[WaveStartSpec.LAST] for root in block[ROOT].to_pylist()]
        self._roots = RootGenerator(roots[-1]) if roots else RootGenerator()

    def run(self, batch: OperatorBatch) -> OperatorResult:
        pieces = batch.new[WaveStartSpec.ARGUMENT]
        roots = [str(self._roots.generate_tag(piece.arrived)) for piece in pieces for _ in range(piece.rows.num_rows)]
        if not roots:
            return OperatorResult({}, {})
        rows = pa.concat_tables([self._schema.empty_table(), *(p.rows.cast(self._schema) for p in pieces)])
        last = pa.table({WHAT: pa.array([0], pa.int32()), ROOT: [self._roots.last]})
        return OperatorResult(
            {WaveStartSpec.EVENTS: rows.append_column(WAVE, pa.array(roots))}, {WaveStartSpec.LAST: last}
        )


class WaveEndOperator:
    """Passes on the tags of ended events: those without results, and those that ended before."""

    def restore(self, blocks: Mapping[str, Sequence[pa.Table]]) -> None:
        """Do nothing: the results of an event are written in the same run."""

    def run(self, batch: OperatorBatch) -> OperatorResult:
        continued = {tag.rpartition(".")[0] for tag in read_tags(batch.concat_rows(WaveEndSpec.RESULTS))}
        ended = [tag for tag in read_tags(batch.concat_rows(WaveEndSpec.EVENTS)) if tag not in continued]
        before = read_tags(batch.concat_rows(WaveEndSpec.BEFORE)) if WaveEndSpec.BEFORE in batch.new else []
        return OperatorResult({WaveEndSpec.ENDED: pa.table({WAVE: pa.array([*before, *ended], pa.string())})}, {})


class WaveBarrierOperator:
    """Emits a wave when it is complete on all branches. Its state is the tags of incomplete waves."""

    def __init__(self, code: WaveBarrierSpec) -> None:
        self._branches = code.branches
        self._barrier = WaveBarrier(dict.fromkeys(code.branches.values()))
        self._pending: dict[int, list[tuple[str, str]]] = {}

    def restore(self, blocks: Mapping[str, Sequence[pa.Table]]) -> None:
        for branch, tag in list_live_keys(blocks[WaveBarrierSpec.TAGS], (BRANCH, TAG)):
            self._add_tag(branch, tag)

    def run(self, batch: OperatorBatch) -> OperatorResult:
        before = self._list_waiting()
        complete = [
            wave for branch, tag in self._iterate_new_tags(batch) if (wave := self._add_tag(branch, tag)) is not None
        ]
        waves = pa.table({WAVE: pa.array(map(str, complete), pa.string())})
        delta = build_key_delta((BRANCH, TAG), before, self._list_waiting())
        return OperatorResult({WaveBarrierSpec.WAVES: waves}, {WaveBarrierSpec.TAGS: delta})

    def _iterate_new_tags(self, batch: OperatorBatch) -> Iterator[tuple[str, str]]:
        """Yield branch and tag of new events, in order of arrival."""
        pieces = [(piece, branch) for name, branch in self._branches.items() for piece in batch.new[name]]
        for piece, branch in sorted(pieces, key=lambda pair: pair[0].arrived):
            yield from ((branch, tag) for tag in read_tags(piece.rows))

    def _add_tag(self, branch: str, text: str) -> int | None:
        """Add a tag; return its wave if that completes it."""
        tag = LineageTag.from_text(text)
        self._pending.setdefault(tag.root, []).append((branch, text))
        if not self._barrier.add_tag(branch, tag):
            return None
        del self._pending[tag.root]
        return tag.root

    def _list_waiting(self) -> dict[tuple[str, str], None]:
        return dict.fromkeys(pair for tags in self._pending.values() for pair in tags)
