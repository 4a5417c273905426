"""Recency classes of datasets, compared with a plain reference."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidemill.retention.eviction.recency import RecencyClass, RecencyIndex


def classify_plainly(parents: list[tuple[int, ...]], latest: list[frozenset[int]]) -> list[int]:
    """Classify every dataset from scratch, parents before children."""
    classes: list[int] = []
    for number, above in enumerate(parents):
        if any(number in graph for graph in latest):
            classes.append(RecencyClass.LATEST)
        elif above and all(classes[p] for p in above):
            classes.append(RecencyClass.BESIDE)
        else:
            classes.append(RecencyClass.REPLACED)
    return classes


@given(st.data())
def test_recency_classes_depend_only_on_the_latest_graphs(data: st.DataObject) -> None:
    parents: list[tuple[int, ...]] = []
    children: list[list[int]] = []
    index, latest = RecencyIndex(parents, children), dict[str, frozenset[int]]()
    for _ in range(data.draw(st.integers(1, 8))):
        for _ in range(data.draw(st.integers(0, 3))):
            number = len(parents)
            above = data.draw(st.sets(st.integers(0, number - 1), max_size=2)) if number else set()
            parents.append(tuple(sorted(above)))
            children.append([])
            for parent in above:
                children[parent].append(number)
            index.add_dataset(number)
            assert list(index.classes) == classify_plainly(parents, list(latest.values()))
        before = list(index.classes)
        series = data.draw(st.sampled_from("ab"))
        latest[series] = frozenset(n for n in range(len(parents)) if data.draw(st.booleans()))
        changed = index.replace_graph(series, latest[series])
        assert list(index.classes) == classify_plainly(parents, list(latest.values()))
        assert changed == {n: old for n, old in enumerate(before) if old != index.classes[n]}


def test_an_alternative_is_beside_and_datasets_of_older_data_are_replaced() -> None:
    parents: list[tuple[int, ...]] = [
        (),
        (0,),
        (0,),
        (2,),
        (),
    ]  # data; one alternative; another one with a descendant; newer data
    children = [[1, 2], [], [3], [], []]
    index = RecencyIndex(parents, children)
    for number in range(5):
        index.add_dataset(number)
    index.replace_graph("s", frozenset({0, 1}))
    assert list(index.classes) == [
        RecencyClass.LATEST,
        RecencyClass.LATEST,
        RecencyClass.BESIDE,
        RecencyClass.BESIDE,
        RecencyClass.REPLACED,
    ]
    index.replace_graph("s", frozenset({4}))
    assert list(index.classes) == [RecencyClass.REPLACED] * 4 + [RecencyClass.LATEST]
