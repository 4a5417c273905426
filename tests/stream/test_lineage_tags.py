"""Waves start, end and come together, whatever the batches and whatever is lost between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import pyarrow as pa
import pytest
from tests.stream.test_window_rows import at, contents

from tidemill.errors import BadInput
from tidemill.model.wave import LineageTag
from tidemill.model.wave_steps import WaveBarrierSpec, WaveEndSpec, WaveStartSpec
from tidemill.model.window import Window
from tidemill.stream.lineage_tags import WaveBarrierOperator, WaveEndOperator, WaveStartOperator
from tidemill.stream.operator import InputBlock, OperatorBatch, StatefulOperator
from tidemill.stream.waves import EndedEvent, WaveTracker
from tidemill.stream.windows.rows import EventBatch as Events
from tidemill.stream.windows.rows import WindowedInput


def tagged(*tags: str, arrived: int = 0) -> InputBlock:
    return InputBlock(pa.table({"wave": pa.array(tags, pa.string())}), arrived, 1)


def given(**pieces: Sequence[InputBlock]) -> OperatorBatch:
    return OperatorBatch(pieces, {}, 0)


def test_every_event_starts_a_wave_of_its_own() -> None:
    schema = pa.schema({"n": pa.int64()})

    def events(arrived: int, *numbers: int) -> InputBlock:
        return InputBlock(pa.table({"n": list(numbers)}, schema), arrived, 1)

    operator = WaveStartOperator(schema)
    first = operator.run(given(events=[events(10, 1, 2, 3), events(11, 4)]))
    assert first.outputs[WaveStartSpec.EVENTS]["wave"].to_pylist() == ["10", "11", "12", "13"]
    assert first.outputs[WaveStartSpec.EVENTS]["n"].to_pylist() == [1, 2, 3, 4]
    heir = WaveStartOperator(schema)
    heir.restore(first.deltas and {WaveStartSpec.LAST: [first.deltas[WaveStartSpec.LAST]]})
    assert heir.run(given(events=[events(12, 5)])).outputs[WaveStartSpec.EVENTS]["wave"].to_pylist() == ["14"]
    assert heir.run(given(events=[events(12)])).outputs == {}


def test_events_of_which_nothing_was_made_ended() -> None:
    batch = given(events=[tagged("1", "2.1", "2.2!")], results=[tagged("2.1.1", "2.1.2!")], before=[tagged("3")])
    assert WaveEndOperator().run(batch).outputs[WaveEndSpec.ENDED]["wave"].to_pylist() == ["3", "1", "2.2!"]


BRANCHES = WaveBarrierSpec({"billed": "billed", "shipped": "shipped", "shipped_ended": "shipped"})
STORY: Sequence[Mapping[str, str]] = (
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
def test_branches_come_together_whatever_is_lost_in_between(cuts: tuple[int, ...]) -> None:
    told: list[str] = []
    blocks: list[pa.Table] = []
    for begin, end in pairwise((0, *cuts, len(STORY))):
        operator: StatefulOperator = WaveBarrierOperator(BRANCHES)
        operator.restore({WaveBarrierSpec.TAGS: blocks})
        parts = list(enumerate(STORY))[begin:end]
        new = {name: [tagged(part[name], arrived=n) for n, part in parts if name in part] for name in BRANCHES.branches}
        made = operator.run(OperatorBatch({name: pieces or [tagged()] for name, pieces in new.items()}, {}, 0))
        told += made.outputs[WaveBarrierSpec.WAVES]["wave"].to_pylist()
        blocks.append(made.deltas[WaveBarrierSpec.TAGS])
    assert told == ["1", "2", "3"]


def test_a_row_without_a_tag_is_refused() -> None:
    with pytest.raises(BadInput, match="found NULL"):
        WaveEndOperator().run(
            given(events=[InputBlock(pa.table({"wave": pa.array([None], pa.string())}), 0, 1)], results=[tagged()])
        )


@pytest.mark.parametrize("by", [[], ["item"]])
@pytest.mark.parametrize("step", ["1 wave", "10s"])
def test_a_wave_is_complete_when_the_rest_of_it_ended(by: list[str], step: str) -> None:
    """Of the first wave one event came and two ended, the last word after it; of the second all ended."""
    (kept, lost, gone), rest = LineageTag(1).derive_tags(3), LineageTag(2).derive_tags(1)
    words = [EndedEvent(lost, 1), EndedEvent(gone, 3), EndedEvent(rest[0], 4)]
    found = WaveTracker().track_tags([kept], [2], words)
    assert not found.closes.any()
    assert [(end.wave, end.before) for end in found.ends] == [(1, 1), (2, 1)]
    content = pa.table({"item": ["tea"]})
    batch = Events(content, 0, at([2]), found.waves, found.closes, None, found.ends)
    made = WindowedInput(Window.from_text("1 wave", step, by=by), content.schema).run(batch, 4)
    assert contents(made.windows, "item") == [["tea"]]
    assert made.expired["item"].to_pylist() == ["tea"]


def test_a_wave_that_waits_is_completed_by_a_word_of_a_later_batch() -> None:
    kept, lost = LineageTag(1).derive_tags(2)
    content, window = pa.table({"item": ["tea"]}), Window.from_text("1 wave", "1 wave")
    first = WaveTracker()
    before = first.track_tags([kept], [1], [])
    inputs = WindowedInput(window, content.schema)
    waits = inputs.run(Events(content, 0, at([1]), before.waves, before.closes), 1)
    assert waits.windows.num_rows == 0
    heir = WindowedInput(window, content.schema)
    heir.restore_state([waits.state])
    after = WaveTracker(first.waiting_tags).track_tags([], [], [EndedEvent(lost, 5)])
    made = heir.run(Events(content.slice(0, 0), 1 << 62, at([]), after.waves, after.closes, None, after.ends), 5)
    assert contents(made.windows, "item") == [["tea"]]
    assert made.state.removed == {0}
