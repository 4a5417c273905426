"""Waves start, end and come together, whatever the batches and whatever is lost between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import pyarrow as pa
import pytest
from tests.stream.test_window_rows import at, contents

from tidemill.errors import BadInput
from tidemill.model.wave import Tag
from tidemill.model.wave_steps import Ended, Started, Synched
from tidemill.model.window import Window
from tidemill.stream.lineage_tags import Ending, Starting, Synching
from tidemill.stream.operator import Batch, Operator, Piece
from tidemill.stream.waves import Completion, Word
from tidemill.stream.windows.rows import Batch as Events
from tidemill.stream.windows.rows import WindowedInput


def tagged(*tags: str, arrived: int = 0) -> Piece:
    return Piece(pa.table({"wave": pa.array(tags, pa.string())}), arrived, 1)


def given(**pieces: Sequence[Piece]) -> Batch:
    return Batch(pieces, {}, 0)


def test_every_event_starts_a_wave_of_its_own() -> None:
    schema = pa.schema({"n": pa.int64()})

    def events(arrived: int, *numbers: int) -> Piece:
        return Piece(pa.table({"n": list(numbers)}, schema), arrived, 1)

    operator = Starting(schema)
    first = operator.run(given(events=[events(10, 1, 2, 3), events(11, 4)]))
    assert first.outputs[Started.EVENTS]["wave"].to_pylist() == ["10", "11", "12", "13"]
    assert first.outputs[Started.EVENTS]["n"].to_pylist() == [1, 2, 3, 4]
    heir = Starting(schema)
    heir.restore(first.deltas and {Started.LAST: [first.deltas[Started.LAST]]})
    assert heir.run(given(events=[events(12, 5)])).outputs[Started.EVENTS]["wave"].to_pylist() == ["14"]
    assert heir.run(given(events=[events(12)])).outputs == {}


def test_events_of_which_nothing_was_made_ended() -> None:
    batch = given(events=[tagged("1", "2.1", "2.2!")], results=[tagged("2.1.1", "2.1.2!")], before=[tagged("3")])
    assert Ending().run(batch).outputs[Ended.ENDED]["wave"].to_pylist() == ["3", "1", "2.2!"]


BRANCHES = Synched({"billed": "billed", "shipped": "shipped", "shipped_ended": "shipped"})
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
        operator: Operator = Synching(BRANCHES)
        operator.restore({Synched.TAGS: blocks})
        parts = list(enumerate(STORY))[begin:end]
        new = {name: [tagged(part[name], arrived=n) for n, part in parts if name in part] for name in BRANCHES.branches}
        made = operator.run(Batch({name: pieces or [tagged()] for name, pieces in new.items()}, {}, 0))
        told += made.outputs[Synched.WAVES]["wave"].to_pylist()
        blocks.append(made.deltas[Synched.TAGS])
    assert told == ["1", "2", "3"]


def test_a_row_without_a_tag_is_refused() -> None:
    with pytest.raises(BadInput, match="a row has NULL"):
        Ending().run(given(events=[Piece(pa.table({"wave": pa.array([None], pa.string())}), 0, 1)], results=[tagged()]))


@pytest.mark.parametrize("by", [[], ["item"]])
@pytest.mark.parametrize("step", ["1 wave", "10s"])
def test_a_wave_is_complete_when_the_rest_of_it_ended(by: list[str], step: str) -> None:
    """Of the first wave one event came and two ended, the last word after it; of the second all ended."""
    (kept, lost, gone), rest = Tag(1).derived(3), Tag(2).derived(1)
    words = [Word(lost, 1), Word(gone, 3), Word(rest[0], 4)]
    found = Completion().run([kept], [2], words)
    assert not found.closes.any()
    assert [(end.wave, end.before) for end in found.ends] == [(1, 1), (2, 1)]
    content = pa.table({"item": ["tea"]})
    batch = Events(content, 0, at([2]), found.waves, found.closes, None, found.ends)
    made = WindowedInput(Window.of("1 wave", step, by=by), content.schema).run(batch, 4)
    assert contents(made.windows, "item") == [["tea"]]
    assert made.expired["item"].to_pylist() == ["tea"]


def test_a_wave_that_waits_is_completed_by_a_word_of_a_later_batch() -> None:
    kept, lost = Tag(1).derived(2)
    content, window = pa.table({"item": ["tea"]}), Window.of("1 wave", "1 wave")
    first = Completion()
    before = first.run([kept], [1], [])
    inputs = WindowedInput(window, content.schema)
    waits = inputs.run(Events(content, 0, at([1]), before.waves, before.closes), 1)
    assert waits.windows.num_rows == 0
    heir = WindowedInput(window, content.schema)
    heir.restore([waits.state])
    after = Completion(first.waiting).run([], [], [Word(lost, 5)])
    made = heir.run(Events(content.slice(0, 0), 1 << 62, at([]), after.waves, after.closes, None, after.ends), 5)
    assert contents(made.windows, "item") == [["tea"]]
    assert made.state.left == {0}
