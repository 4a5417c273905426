"""How near datasets are to what is worked with now, held to a plain reference."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidemill.retention.eviction.recency import RecencyClass, RecencyIndex


def plainly(parents: list[tuple[int, ...]], latest: list[frozenset[int]]) -> list[int]:
    """Every one anew, parents before children."""
    found: list[int] = []
    for number, above in enumerate(parents):
        if any(number in graph for graph in latest):
            found.append(RecencyClass.LATEST)
        elif above and all(found[p] for p in above):
            found.append(RecencyClass.BESIDE)
        else:
            found.append(RecencyClass.REPLACED)
    return found


@given(st.data())
def test_standings_are_those_of_the_latest_graphs_whatever_came_before(data: st.DataObject) -> None:
    parents: list[tuple[int, ...]] = []
    children: list[list[int]] = []
    standings, latest = RecencyIndex(parents, children), dict[str, frozenset[int]]()
    for _ in range(data.draw(st.integers(1, 8))):
        for _ in range(data.draw(st.integers(0, 3))):
            number = len(parents)
            above = data.draw(st.sets(st.integers(0, number - 1), max_size=2)) if number else set()
            parents.append(tuple(sorted(above)))
            children.append([])
            for parent in above:
                children[parent].append(number)
            standings.add_dataset(number)
            assert list(standings.classes) == plainly(parents, list(latest.values()))
        before = list(standings.classes)
        series = data.draw(st.sampled_from("ab"))
        latest[series] = frozenset(n for n in range(len(parents)) if data.draw(st.booleans()))
        changed = standings.replace_graph(series, latest[series])
        assert list(standings.classes) == plainly(parents, list(latest.values()))
        assert changed == {n: old for n, old in enumerate(before) if old != standings.classes[n]}


def test_another_choice_is_beside_and_what_was_made_from_older_data_is_replaced() -> None:
    parents: list[tuple[int, ...]] = [
        (),
        (0,),
        (0,),
        (2,),
        (),
    ]  # data; one choice; another, and what follows; newer data
    children = [[1, 2], [], [3], [], []]
    standings = RecencyIndex(parents, children)
    for number in range(5):
        standings.add_dataset(number)
    standings.replace_graph("s", frozenset({0, 1}))
    assert list(standings.classes) == [
        RecencyClass.LATEST,
        RecencyClass.LATEST,
        RecencyClass.BESIDE,
        RecencyClass.BESIDE,
        RecencyClass.REPLACED,
    ]
    standings.replace_graph("s", frozenset({4}))
    assert list(standings.classes) == [RecencyClass.REPLACED] * 4 + [RecencyClass.LATEST]
