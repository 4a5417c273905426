"""Windows of rows: the paper's worked examples, grouping, and state stored as blocks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.errors import BadInput
from tidemill.model.wave import LineageTag
from tidemill.model.window import Between, Window
from tidemill.stream.waves import WaveTracker
from tidemill.stream.windows.rows import (
    END,
    EVENT,
    FORMED,
    GROUP,
    START,
    WINDOW,
    EventBatch,
    WindowedInput,
    WindowState,
)

MINUTE = 60_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def to_microseconds(minutes: list[float]) -> np.ndarray:
    return np.array([round(m * MINUTE) for m in minutes], np.int64)


def list_windows(windows: pa.Table, column: str) -> list[list[object]]:
    """The windows in order, each as the values of a column."""
    windows_by_key: dict[tuple[object, object], list[object]] = {}
    for row in windows.to_pylist():
        windows_by_key.setdefault((row[GROUP], row[WINDOW]), []).append(row[column])
    return list(windows_by_key.values())


def letters(text: str, minutes: list[float], **marks: np.ndarray) -> EventBatch:
    return EventBatch(pa.table({"letter": list(text)}), 0, to_microseconds(minutes), **marks)


def test_windows_of_size_5_and_step_3() -> None:
    """Figure 8 of the paper."""
    window = Window.from_text("5 tokens", "3 tokens")
    batch = letters("abcdefghijk", [*range(11)])
    result = WindowedInput(window, batch.content.schema).run(batch, 0)
    assert ["".join(map(str, w)) for w in list_windows(result.windows, "letter")] == ["abcde", "defgh", "ghijk"]
    assert result.expired["letter"].to_pylist() == list("abcdefghi")


def test_two_events_within_five_minutes() -> None:
    """Figure 9 of the paper: a arrives alone and expires unused at 5, b and c arrive in one window and are used.

    Windows begin and end at full minutes, so the first window of b at 6 and c at 8 is [4, 9), formed at 9.
    """
    window = Window.from_text("5 minutes", "1 minute", timeout=1, delete_used=True, at_least=2)
    queue = WindowedInput(window, pa.schema({"letter": pa.string()}))
    first = queue.run(letters("a", [0]), 5 * MINUTE - 1)
    assert first.windows.num_rows == first.expired.num_rows == 0
    second = queue.run(EventBatch(pa.table({"letter": pa.array([], pa.string())}), 1, to_microseconds([])), 5 * MINUTE)
    assert second.expired.to_pylist() == [{"letter": "a", "_used": False}]
    third = queue.run(EventBatch(pa.table({"letter": ["b", "c"]}), 1, to_microseconds([6, 8])), 20 * MINUTE)
    assert list_windows(third.windows, "letter") == [["b", "c"]]
    assert third.windows[START][0].as_py() == EPOCH + timedelta(minutes=4)
    assert third.windows[FORMED][0].as_py() == EPOCH + timedelta(minutes=9)
    assert third.expired.num_rows == third.late.num_rows == 0


def test_two_reports_of_one_product_within_ten_minutes() -> None:
    """Figure 12 of the paper: without a step each event forms a window that ends with it; two reports are an alarm."""
    window = Window.from_text("10 minutes", by=["product"], at_least=2, time="reported")
    reported = [EPOCH + timedelta(minutes=m) for m in (0, 1, 8, 12, 30)]
    batch = EventBatch(
        pa.table({"product": ["tea", "milk", "tea", "milk", "tea"], "reported": reported}), 0, to_microseconds([0] * 5)
    )
    result = WindowedInput(window, batch.content.schema).run(batch, 0)
    alarms = [[t.minute for t in w if isinstance(t, datetime)] for w in list_windows(result.windows, "reported")]
    assert alarms == [[0, 8]]
    assert {(e["product"], e["reported"].minute, e["_used"]) for e in result.expired.to_pylist()} == {
        ("tea", 0, True),
        ("tea", 8, True),
        ("milk", 1, False),
    }


def test_the_minimum_number_of_events_is_a_parameter() -> None:
    minutes = [0, 4, 8]
    for at_least, alarms in ((2, 2), (3, 1), (4, 0)):
        window = Window.from_text("10 minutes", at_least=at_least)
        batch = letters("abc", minutes)
        assert len(list_windows(WindowedInput(window, batch.content.schema).run(batch, 0).windows, "letter")) == alarms


def test_the_first_value_of_each_second_is_a_window() -> None:
    """The paper's case for a step in time and a size in tokens: the first token of each second, immediately."""
    window = Window.from_text("1 token", "1s")
    batch = EventBatch(pa.table({"letter": list("abcd")}), 0, np.array([100_000, 200_000, 1_900_000, 1_950_000]))
    result = WindowedInput(window, batch.content.schema).run(batch, 1_950_000)
    assert list_windows(result.windows, "letter") == [["a"], ["c"]]
    assert result.windows[FORMED].cast(pa.int64()).to_pylist() == [100_000, 1_900_000]


def test_a_window_of_one_wave_has_all_its_events() -> None:
    """The paper's case for waves by waves: the items of two orders arrive mixed."""
    tea, milk = LineageTag(1).derive_tags(3), LineageTag(2).derive_tags(2)
    tags = [tea[0], milk[1], tea[2], milk[0], tea[1]]
    tracked = WaveTracker().track_tags(tags)
    batch = EventBatch(
        pa.table({"item": list(map(str, tags))}), 0, to_microseconds([*range(5)]), tracked.waves, tracked.closes
    )
    result = WindowedInput(Window.from_text("1 wave", "1 wave"), batch.content.schema).run(batch, 0)
    assert list_windows(result.windows, "item") == [["2.2!", "2.1"], ["1.1", "1.3!", "1.2"]]


def test_the_time_of_waves_begins_with_the_earliest_event() -> None:
    """Each wave, 4 minutes from its earliest event: earlier events of a later wave are in no window of the first."""
    waves, closes = np.array([1, 1, 2, 2]), np.array([False, True, False, True])
    table = pa.table({"minute": [5, 6, 2, 20], "time": to_microseconds([5, 6, 2, 20])})
    window = Window.from_text("4 minutes", "1 wave", time="time")
    result = WindowedInput(window, table.schema).run(
        EventBatch(table, 0, to_microseconds([*range(4)]), waves, closes), 0
    )
    assert list_windows(result.windows, "minute") == [[5, 6], [2]]


def test_waiting_tags_are_sufficient_to_continue() -> None:
    items = [t for wave in (LineageTag(1), LineageTag(2)) for t in wave.derive_tags(3)]
    for cut in range(len(items) + 1):
        first = WaveTracker()
        before = first.track_tags(items[:cut]).closes
        after = WaveTracker(first.waiting_tags).track_tags(items[cut:]).closes
        assert [*before, *after] == [False, False, True] * 2


def test_a_punctuation_ends_a_window_and_is_not_part_of_it() -> None:
    window = Window.from_text(Between("letter = '.'", punctuation=True))
    batch = letters("ab.c..de", [*range(8)])
    closes = np.array([letter == "." for letter in batch.content["letter"].to_pylist()])
    result = WindowedInput(window, batch.content.schema).run(letters("ab.c..de", [*range(8)], closes=closes), 0)
    assert list_windows(result.windows, "letter") == [["a", "b"], ["c"]]
    assert result.expired["letter"].to_pylist() == ["a", "b", "c"]


def test_events_are_grouped_by_columns_paths_and_functions() -> None:
    window = Window.from_text("2 tokens", "2 tokens", by=["/user/id", "as-set(/entities/hashtags)"])
    tweets = [
        {"text": "a", "user": {"id": 1}, "entities": {"hashtags": ["x", "y"]}},
        {"text": "b", "user": {"id": 2}, "entities": {"hashtags": ["x", "y"]}},
        {"text": "c", "user": {"id": 1}, "entities": {"hashtags": ["y", "x", "x"]}},
        {"text": "d", "user": {"id": 2}, "entities": {"hashtags": ["x"]}},
        {"text": "e", "user": {"id": 2}, "entities": {"hashtags": ["x"]}},
    ]
    batch = EventBatch(pa.Table.from_pylist(tweets), 0, to_microseconds([0] * 5))
    result = WindowedInput(window, batch.content.schema).run(batch, 0)
    assert list_windows(result.windows, "text") == [["a", "c"], ["d", "e"]]


def test_an_event_without_a_time_is_rejected() -> None:
    table = pa.table({"at": pa.array([1, None], pa.int64())})
    with pytest.raises(BadInput, match="expected the time of each event in column 'at', found NULL"):
        WindowedInput(Window.from_text("1s", "1s", time="at"), table.schema).run(
            EventBatch(table, 0, to_microseconds([0, 0])), 0
        )


@given(st.lists(st.integers(0, 12), max_size=5), st.sampled_from(["5s", "2 tokens", "1 wave"]), st.booleans())
def test_restored_state_continues_like_uninterrupted_state(cuts: list[int], size: str, delete_used: bool) -> None:
    """The state, with the content of waiting events, is stored in blocks of deltas."""
    window = Window.from_text(size, "2 tokens", by=["group"], time="time", delete_used=delete_used)
    table = pa.table(
        {"group": list("abbabaabbaba"), "time": [n * 1_500_000 for n in range(12)], "text": list("lmnopqrstuvw")}
    )
    waves = np.repeat([1, 2, 3, 4], 3)
    whole = WindowedInput(window, table.schema).run(EventBatch(table, 0, to_microseconds([*range(12)]), waves), 0)
    blocks: list[WindowState] = []
    parts = []
    for begin, end in zip([0, *sorted(cuts)], [*sorted(cuts), 12], strict=True):
        queue = WindowedInput(window, table.schema)
        queue.restore_state(blocks)
        part = EventBatch(
            table.slice(begin, end - begin), begin, to_microseconds([*range(begin, end)]), waves[begin:end]
        )
        parts.append(queue.run(part, 0))
        blocks.append(parts[-1].state)
    windows = pa.concat_tables([p.windows for p in parts])
    assert windows.sort_by([(GROUP, "ascending"), (WINDOW, "ascending")]) == whole.windows.sort_by(
        [(GROUP, "ascending"), (WINDOW, "ascending")]
    )
    expired = pa.concat_tables([p.expired for p in parts])
    assert sorted(expired["text"].to_pylist()) == sorted(whole.expired["text"].to_pylist())
    assert EVENT in blocks[0].queue.column_names
    assert END in windows.column_names
