"""Budgets, pins, leaves and readers on a real catalog: required datasets are retained, and budgets met if possible."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.runtime.oneshots import Bench, Json, action, bench, chain, verdicts, workflow

from tidemill.errors import Conflict, IllegalTransition, NotFound, StoreMismatch
from tidemill.model.notice import AlarmKind, build_notice
from tidemill.model.states import DatasetState as D
from tidemill.model.store import StoreMarker
from tidemill.model.submission import StoredDataset
from tidemill.ports.records import Event
from tidemill.runtime.oneshot.eviction import DatasetEvictor
from tidemill.runtime.oneshot.storage_report import StorageBudget, StorageBudgets, read_storage_alarms

WORKFLOWS = ("one", "two")


@pytest.fixture
def mill(tmp_path: Path, sqlite_template: Path) -> Iterator[Bench]:
    with bench(f"sqlite:///{shutil.copy(sqlite_template, tmp_path)}", tmp_path) as mill:
        yield mill


def build_evictor(mill: Bench, store: StorageBudget | None = None, **workflows: StorageBudget) -> DatasetEvictor:
    return replace(mill.shop, budgets=StorageBudgets(store, workflows)).build_evictor()


def test_nothing_is_evicted_from_a_store_of_another_catalog(mill: Bench) -> None:
    submission = mill.run(chain("a", "b"))
    evictor = build_evictor(mill)
    evictor.free_bytes(1)
    mill.run(chain("c", "d"))
    mill.store.write_marker(StoreMarker("another", 0, 0.0))
    before = set(mill.store.list_all_files())
    with pytest.raises(StoreMismatch, match="belongs to another catalog"):
        evictor.free_bytes(1)
    assert set(mill.store.list_all_files()) == before
    assert mill.state(submission, 1) is D.DELETED


# -- pins --------------------------------------------------------------------------------------------------------


def test_a_pinned_dataset_is_not_evicted_until_it_is_unpinned(mill: Bench) -> None:
    submission = mill.run(chain("a", "b", "c"))
    pinned = mill.shop.pin_dataset("words/a1")
    assert pinned.pinned
    both = sum(mill.dataset(submission, key).bytes for key in (1, 2))
    assert "unpin a dataset" in mill.shop.report_storage(both).problems[0]
    mill.shop.build_evictor().free_bytes(1)
    assert [mill.state(submission, key) for key in (1, 2, 3)] == [D.STORED, D.DELETED, D.LEAF]
    mill.catalog.datasets.evict([pinned.identity])  # as an evictor that chose it before it was pinned
    assert mill.state(submission, 1) is D.STORED
    assert not mill.shop.pin_dataset("words/a1", pinned=False).pinned
    mill.shop.build_evictor().free_bytes(1)
    assert mill.state(submission, 1) is D.DELETED


def test_pinning_cancels_an_eviction_and_rejects_a_deleted_dataset(mill: Bench) -> None:
    submission = mill.run(chain("a", "b", "c"))
    first, second = (mill.dataset(submission, key).identity for key in (1, 2))
    mill.catalog.datasets.evict([first, second])
    mill.shop.pin_dataset(first)
    assert mill.shop.build_evictor().delete_evicted() == 1
    assert (mill.state(submission, 1), mill.state(submission, 2)) == (D.STORED, D.DELETED)
    with pytest.raises(NotFound, match="0 datasets"):
        mill.shop.pin_dataset(second)
    with pytest.raises(IllegalTransition, match="recompute it"):
        mill.catalog.datasets.pin(second, pinned=True)


def test_a_pinned_leaf_is_not_dropped(mill: Bench) -> None:
    submission = mill.run(chain("a"))
    mill.shop.pin_dataset("words/a1")
    with pytest.raises(Conflict, match="unpin it first"):
        mill.shop.drop_dataset("words/a1")
    assert mill.shop.report_storage().retained[0].why == "pinned: it stays until it is unpinned"
    mill.shop.pin_dataset("words/a1", pinned=False)
    mill.shop.drop_dataset("words/a1")
    assert mill.state(submission, 1) is D.DELETED


def test_an_action_may_pin_its_output(mill: Bench) -> None:
    plain = workflow(action(1, "a"), action(2, "b", 1))
    pinning = workflow(action(1, "a", pinned=True), action(2, "b", 1))
    submission = mill.run(plain)
    mill.shop.build_evictor().free_bytes(1)
    again = mill.run(pinning)  # a pinned dataset must exist
    assert verdicts(again) == {"1": "gone", "2": "reused"}
    assert (mill.dataset(submission, 1).pinned, mill.state(submission, 1)) == (True, D.STORED)
    mill.run(plain)
    assert mill.dataset(submission, 1).pinned  # until it is unpinned


# -- budgets -----------------------------------------------------------------------------------------------------


def test_a_workflows_budget_evicts_only_its_datasets(mill: Bench) -> None:
    one, two = mill.run(chain("a", "b", "c", name="one")), mill.run(chain("d", "e", "f", name="two"))
    size = mill.dataset(one, 1).bytes
    evictor = build_evictor(mill, one=StorageBudget(2 * size, 1.0))
    report = evictor.report_storage()
    assert [(s.workflow, s.used_bytes, s.excess_bytes) for s in report.shares.workflows] == [("one", 3 * size, size)]
    result = evictor.enforce_budgets()
    assert result is not None
    assert [g.dataset.workflow for g in result.evictions] == ["one"]
    assert [mill.state(two, key) for key in (1, 2, 3)] == [D.STORED, D.STORED, D.LEAF]
    assert evictor.enforce_budgets() is None


def test_a_budget_is_reported_once_per_crossing_of_its_threshold(mill: Bench) -> None:
    submission = mill.run(chain("a", "b"))
    size = mill.dataset(submission, 1).bytes
    budgets = {"words": StorageBudget(4 * size, 0.5)}  # the two datasets reach the threshold

    def check_storage() -> None:
        shares = build_evictor(mill, **budgets).measure_shares()
        mill.catalog.alarms.update(AlarmKind.STORAGE_EXCEEDED, read_storage_alarms(shares.listed_shares))

    check_storage()
    assert list_storage_events(mill) == []
    mill.run(chain("c", "d"))
    check_storage()
    check_storage()
    (event,) = list_storage_events(mill)
    assert event.subject == "datasets of workflow words"
    assert event.detail == {
        "used_bytes": 4 * size,
        "budget_bytes": 4 * size,
        "threshold_bytes": 2 * size,
    }
    notice = build_notice(event.kind, event.subject, event.detail, event.at)
    assert notice is not None
    assert notice.text.startswith("datasets of workflow words use ")
    build_evictor(mill, **budgets).enforce_budgets()  # down to the threshold, where an alarm neither begins nor ends
    check_storage()
    assert [e.kind for e in list_storage_events(mill)] == ["storage.exceeded"]
    for leaf in [d for d in mill.catalog.datasets.list() if d.state is D.LEAF]:
        mill.shop.drop_dataset(leaf.identity)
    check_storage()
    mill.run(chain("e", "f", "g"))
    check_storage()
    assert [e.kind for e in list_storage_events(mill)] == ["storage.exceeded", "storage.reduced", "storage.exceeded"]


def list_storage_events(mill: Bench) -> list[Event]:
    return [e for e in mill.catalog.events.list(limit=1000) if e.kind.startswith("storage.")]


def test_a_workflow_over_budget_does_not_prevent_the_store_from_meeting_its_budget(mill: Bench) -> None:
    one = mill.run(chain("a", name="one"))
    mill.run(chain("d", "e", "f", name="two"))
    size = mill.dataset(one, 1).bytes
    result = build_evictor(mill, StorageBudget(3 * size, 1.0), one=StorageBudget(1, 1.0)).enforce_budgets()
    assert result is not None
    assert [p.partition(":")[0] for p in result.problems] == ["workflow 'one'"]
    assert [g.dataset.workflow for g in result.evictions] == ["two"]


def test_a_budget_that_cannot_be_met_evicts_all_it_can_and_reports_the_rest(mill: Bench) -> None:
    """The leaf alone exceeds the budget; the four other datasets are evicted anyway."""
    submission = mill.run(chain("a", "b", "c", "d", "e"))
    size = mill.dataset(submission, 5).bytes
    result = build_evictor(mill, StorageBudget(size - 1, 1.0)).enforce_budgets()
    assert result is not None
    assert result.freed_bytes == 4 * size
    assert [mill.state(submission, key) for key in (1, 2, 3, 4, 5)] == [*[D.DELETED] * 4, D.LEAF]
    assert [p.partition(":")[0] for p in result.problems] == ["the store"]
    assert "1 bytes are missing" in result.problems[0]
    again = build_evictor(mill, StorageBudget(size - 1, 1.0)).enforce_budgets()
    assert again is not None
    assert (again.evictions, len(again.problems)) == ((), 1)


# -- random histories --------------------------------------------------------------------------------------------


@st.composite
def documents(draw: st.DrawFn) -> Json:
    actions: list[Json] = []
    for n in range(1, draw(st.integers(1, 5)) + 1):
        parents = draw(st.lists(st.integers(1, n - 1), unique=True, max_size=2)) if n > 1 else []
        actions.append(action(n, draw(st.sampled_from("abcd")), *parents))
    return workflow(*actions, name=draw(st.sampled_from(WORKFLOWS)))


def is_required(dataset: StoredDataset) -> bool:
    """The reference: leaves, pinned datasets, and datasets that are claimed or not stored yet."""
    return dataset.pinned or dataset.claims > 0 or dataset.state is not D.STORED


def sum_bytes(mill: Bench, workflow: str | None) -> int:
    return sum(d.bytes for d in mill.catalog.datasets.list() if d.is_readable and workflow in (None, d.workflow))


@settings(max_examples=12, phases=[Phase.generate])
@given(data=st.data())
def test_required_datasets_are_retained_and_budgets_met_if_possible(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory, sqlite_template: Path
) -> None:
    root = tmp_path_factory.mktemp("world")
    with bench(f"sqlite:///{shutil.copy(sqlite_template, root)}", root) as mill:
        for _ in range(data.draw(st.integers(1, 3), label="submissions")):
            mill.submit(data.draw(documents()))
            mill.work(data.draw(st.integers(0, 6), label="runs"))  # the remaining runs read or wait
        for dataset in mill.catalog.datasets.list():
            if dataset.is_readable and data.draw(st.integers(0, 3), label="pin") == 0:
                mill.catalog.datasets.pin(dataset.identity, pinned=True)
        before = {d.identity: d for d in mill.catalog.datasets.list()}
        sizes = {
            name: data.draw(st.integers(0, sum_bytes(mill, name) + 1), label="budget") for name in (None, *WORKFLOWS)
        }
        budgets = {name: StorageBudget(sizes[name], 1.0) for name in WORKFLOWS}
        result = build_evictor(mill, StorageBudget(sizes[None], 1.0), **budgets).enforce_budgets()
        check(mill, before, sizes, () if result is None else result.problems)


def check(
    mill: Bench, before: dict[str, StoredDataset], sizes: dict[str | None, int], problems: tuple[str, ...]
) -> None:
    after = {d.identity: d for d in mill.catalog.datasets.list()}
    for identity, dataset in before.items():
        if is_required(dataset):
            assert after[identity] == dataset
    for name, limit in sizes.items():
        required = sum(
            d.bytes for d in before.values() if d.is_readable and is_required(d) and name in (None, d.workflow)
        )
        is_reported = any(p.startswith("the store" if name is None else f"workflow {name!r}") for p in problems)
        assert (sum_bytes(mill, name) <= limit) == (required <= limit)
        assert is_reported == (required > limit)
    assert mill.find_inconsistencies() == set()
