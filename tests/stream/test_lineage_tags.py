"""Waves start, end and pass barriers, for any batches and with state restored between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import pyarrow as pa
import pytest
from tests.stream.test_window_rows import list_windows, to_microseconds

from tidemill.errors import BadInput
from tidemill.model.wave import LineageTag
from tidemill.model.wave_steps import WaveBarrierSpec, WaveEndSpec, WaveStartSpec
from tidemill.model.window import Window
from tidemill.stream.lineage_tags import WaveBarrierOperator, WaveEndOperator, WaveStartOperator
from tidemill.stream.operator import InputBlock, OperatorBatch, StatefulOperator
from tidemill.stream.waves import EndedEvent, WaveTracker
from tidemill.stream.windows.rows import EventBatch as Events
from tidemill.stream.windows.rows import WindowedInput


def build_block(*tags: str, arrived: int = 0) -> InputBlock:
    return InputBlock(pa.table({"wave": pa.array(tags, pa.string())}), arrived, 1)


def build_batch(**pieces: Sequence[InputBlock]) -> OperatorBatch:
    return OperatorBatch(pieces, {}, 0)


def test_every_event_starts_a_new_wave() -> None:
    schema = pa.schema({"n": pa.int64()})

    def events(arrived: int, *numbers: int) -> InputBlock:
        return InputBlock(pa.table({"n": list(numbers)}, schema), arrived, 1)

    operator = WaveStartOperator(schema)
    first = operator.run(build_batch(events=[events(10, 1, 2, 3), events(11, 4)]))
    assert first.outputs[WaveStartSpec.EVENTS]["wave"].to_pylist() == ["10", "11", "12", "13"]
    assert first.outputs[WaveStartSpec.EVENTS]["n"].to_pylist() == [1, 2, 3, 4]
    restored = WaveStartOperator(schema)
    restored.restore(first.deltas and {WaveStartSpec.LAST: [first.deltas[WaveStartSpec.LAST]]})
    assert restored.run(build_batch(events=[events(12, 5)])).outputs[WaveStartSpec.EVENTS]["wave"].to_pylist() == ["14"]
    assert restored.run(build_batch(events=[events(12)])).outputs == {}


def test_events_without_results_have_ended() -> None:
    batch = build_batch(
        events=[build_block("1", "2.1", "2.2!")], results=[build_block("2.1.1", "2.1.2!")], before=[build_block("3")]
    )
    assert WaveEndOperator().run(batch).outputs[WaveEndSpec.ENDED]["wave"].to_pylist() == ["3", "1", "2.2!"]


BRANCHES = WaveBarrierSpec({"billed": "billed", "shipped": "shipped", "shipped_ended": "shipped"})
ARRIVALS: Sequence[Mapping[str, str]] = (
    {"billed": "1.1!"},
    {"shipped": "1.1"},
    {"shipped": "2.1!"},
    {"shipped_ended": "1.2!"},
    {"billed": "3.1"},
    {"billed": "2.1!"},
    {"billed": "3.2!"},
    {"shipped_ended": "3"},
)


@pytest.mark.parametrize("cuts", [(), (4,), (1, 2, 3, 4, 5, 6, 7), (3, 6)])
def test_a_barrier_is_passed_after_any_restarts(cuts: tuple[int, ...]) -> None:
    waves: list[str] = []
    blocks: list[pa.Table] = []
    for begin, end in pairwise((0, *cuts, len(ARRIVALS))):
        operator: StatefulOperator = WaveBarrierOperator(BRANCHES)
        operator.restore({WaveBarrierSpec.TAGS: blocks})
        parts = list(enumerate(ARRIVALS))[begin:end]
        new = {
            name: [build_block(part[name], arrived=n) for n, part in parts if name in part]
            for name in BRANCHES.branches
        }
        result = operator.run(OperatorBatch({name: pieces or [build_block()] for name, pieces in new.items()}, {}, 0))
        waves += result.outputs[WaveBarrierSpec.WAVES]["wave"].to_pylist()
        blocks.append(result.deltas[WaveBarrierSpec.TAGS])
    assert waves == ["1", "2", "3"]


def test_a_row_without_a_tag_is_rejected() -> None:
    with pytest.raises(BadInput, match="found NULL"):
        WaveEndOperator().run(
            build_batch(
                events=[InputBlock(pa.table({"wave": pa.array([None], pa.string())}), 0, 1)], results=[build_block()]
            )
        )


@pytest.mark.parametrize("by", [[], ["item"]])
@pytest.mark.parametrize("step", ["1 wave", "10s"])
def test_a_wave_is_complete_when_its_remaining_events_ended(by: list[str], step: str) -> None:
    """One event of the first wave arrived and two ended, the last one after it; all events of the second wave ended."""
    (arrived, first, last), rest = LineageTag(1).derive_tags(3), LineageTag(2).derive_tags(1)
    ended = [EndedEvent(first, 1), EndedEvent(last, 3), EndedEvent(rest[0], 4)]
    tracked = WaveTracker().track_tags([arrived], [2], ended)
    assert not tracked.closes.any()
    assert [(end.wave, end.before) for end in tracked.ends] == [(1, 1), (2, 1)]
    content = pa.table({"item": ["tea"]})
    batch = Events(content, 0, to_microseconds([2]), tracked.waves, tracked.closes, None, tracked.ends)
    result = WindowedInput(Window.from_text("1 wave", step, by=by), content.schema).run(batch, 4)
    assert list_windows(result.windows, "item") == [["tea"]]
    assert result.expired["item"].to_pylist() == ["tea"]


def test_a_waiting_wave_is_completed_by_an_end_in_a_later_batch() -> None:
    arrived, missing = LineageTag(1).derive_tags(2)
    content, window = pa.table({"item": ["tea"]}), Window.from_text("1 wave", "1 wave")
    first = WaveTracker()
    before = first.track_tags([arrived], [1], [])
    inputs = WindowedInput(window, content.schema)
    waiting = inputs.run(Events(content, 0, to_microseconds([1]), before.waves, before.closes), 1)
    assert waiting.windows.num_rows == 0
    restored = WindowedInput(window, content.schema)
    restored.restore_state([waiting.state])
    after = WaveTracker(first.waiting_tags).track_tags([], [], [EndedEvent(missing, 5)])
    result = restored.run(
        Events(content.slice(0, 0), 1 << 62, to_microseconds([]), after.waves, after.closes, None, after.ends), 5
    )
    assert list_windows(result.windows, "item") == [["tea"]]
    assert result.state.removed == {0}
