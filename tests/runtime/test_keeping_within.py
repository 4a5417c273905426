"""Budgets, pins, leaves and readers on a real catalog: what must stay stays, and budgets are kept where they can be."""

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
from tidemill.model.states import DatasetState as D
from tidemill.model.store import StoreMarker
from tidemill.model.submission import StoredDataset
from tidemill.runtime.oneshot.eviction import DatasetEvictor
from tidemill.runtime.oneshot.storage_report import StorageBudget, StorageBudgets

WORKFLOWS = ("one", "two")


@pytest.fixture
def mill(tmp_path: Path, sqlite_template: Path) -> Iterator[Bench]:
    with bench(f"sqlite:///{shutil.copy(sqlite_template, tmp_path)}", tmp_path) as opened:
        yield opened


def within(mill: Bench, store: StorageBudget | None = None, **workflows: StorageBudget) -> DatasetEvictor:
    return replace(mill.shop, budgets=StorageBudgets(store, workflows)).build_evictor()


def test_nothing_is_evicted_from_a_store_that_is_anothers(mill: Bench) -> None:
    made = mill.run(chain("a", "b"))
    evictor = within(mill)
    evictor.free_bytes(1)
    mill.run(chain("c", "d"))
    mill.store.write_marker(StoreMarker("another", 0, 0.0))
    before = set(mill.store.list_all_files())
    with pytest.raises(StoreMismatch, match="belongs to another catalog"):
        evictor.free_bytes(1)
    assert set(mill.store.list_all_files()) == before
    assert mill.state(made, 1) is D.DELETED


# -- pins --------------------------------------------------------------------------------------------------------


def test_what_is_pinned_is_not_evicted_until_it_is_unpinned(mill: Bench) -> None:
    made = mill.run(chain("a", "b", "c"))
    pinned = mill.shop.pin_dataset("words/a1")
    assert pinned.pinned
    both = sum(mill.dataset(made, key).bytes for key in (1, 2))
    assert "unpin a dataset" in mill.shop.report_storage(both).problems[0]
    mill.shop.build_evictor().free_bytes(1)
    assert [mill.state(made, key) for key in (1, 2, 3)] == [D.STORED, D.DELETED, D.LEAF]
    mill.shop.dataset_catalog.evict_datasets([pinned.identity])  # as one that decided before it was pinned
    assert mill.state(made, 1) is D.STORED
    assert not mill.shop.pin_dataset("words/a1", pinned=False).pinned
    mill.shop.build_evictor().free_bytes(1)
    assert mill.state(made, 1) is D.DELETED


def test_pinning_rescues_what_was_chosen_to_go_and_refuses_what_is_gone(mill: Bench) -> None:
    made = mill.run(chain("a", "b", "c"))
    first, second = (mill.dataset(made, key).identity for key in (1, 2))
    mill.shop.dataset_catalog.evict_datasets([first, second])
    mill.shop.pin_dataset(first)
    assert mill.shop.build_evictor().delete_evicted() == 1
    assert (mill.state(made, 1), mill.state(made, 2)) == (D.STORED, D.DELETED)
    with pytest.raises(NotFound, match="0 datasets"):
        mill.shop.pin_dataset(second)
    with pytest.raises(IllegalTransition, match="recompute it"):
        mill.shop.dataset_catalog.pin_dataset(second, pinned=True)


def test_a_pinned_leaf_is_not_dropped(mill: Bench) -> None:
    made = mill.run(chain("a"))
    mill.shop.pin_dataset("words/a1")
    with pytest.raises(Conflict, match="unpin it first"):
        mill.shop.drop_dataset("words/a1")
    assert mill.shop.report_storage().retained[0].why == "pinned: it stays until it is unpinned"
    mill.shop.pin_dataset("words/a1", pinned=False)
    mill.shop.drop_dataset("words/a1")
    assert mill.state(made, 1) is D.DELETED


def test_an_action_says_that_its_output_is_pinned(mill: Bench) -> None:
    plain = workflow(action(1, "a"), action(2, "b", 1))
    pinning = workflow(action(1, "a", pinned=True), action(2, "b", 1))
    made = mill.run(plain)
    mill.shop.build_evictor().free_bytes(1)
    again = mill.run(pinning)  # what is to stay must be there
    assert verdicts(again) == {"1": "gone", "2": "reused"}
    assert (mill.dataset(made, 1).pinned, mill.state(made, 1)) == (True, D.STORED)
    mill.run(plain)
    assert mill.dataset(made, 1).pinned  # until somebody unpins it


# -- budgets -----------------------------------------------------------------------------------------------------


def test_a_workflows_budget_takes_of_its_own_datasets_alone(mill: Bench) -> None:
    one, two = mill.run(chain("a", "b", "c", name="one")), mill.run(chain("d", "e", "f", name="two"))
    each = mill.dataset(one, 1).bytes
    evictor = within(mill, one=StorageBudget(2 * each, 1.0))
    outlook = evictor.report_storage()
    assert [(s.workflow, s.used_bytes, s.excess_bytes) for s in outlook.shares.workflows] == [("one", 3 * each, each)]
    done = evictor.enforce_budgets()
    assert done is not None
    assert [g.dataset.workflow for g in done.evictions] == ["one"]
    assert [mill.state(two, key) for key in (1, 2, 3)] == [D.STORED, D.STORED, D.LEAF]
    assert evictor.enforce_budgets() is None


def test_a_workflow_that_cannot_be_kept_within_its_budget_does_not_keep_the_store_from_its_own(mill: Bench) -> None:
    one = mill.run(chain("a", name="one"))
    mill.run(chain("d", "e", "f", name="two"))
    each = mill.dataset(one, 1).bytes
    done = within(mill, StorageBudget(3 * each, 1.0), one=StorageBudget(1, 1.0)).enforce_budgets()
    assert done is not None
    assert [p.partition(":")[0] for p in done.problems] == ["workflow 'one'"]
    assert [g.dataset.workflow for g in done.evictions] == ["two"]


def test_a_budget_that_cannot_be_kept_takes_what_may_go_and_says_what_is_missing(mill: Bench) -> None:
    """The leaf alone holds more than the budget; the four others need not stay for that."""
    made = mill.run(chain("a", "b", "c", "d", "e"))
    each = mill.dataset(made, 5).bytes
    done = within(mill, StorageBudget(each - 1, 1.0)).enforce_budgets()
    assert done is not None
    assert done.freed_bytes == 4 * each
    assert [mill.state(made, key) for key in (1, 2, 3, 4, 5)] == [*[D.DELETED] * 4, D.LEAF]
    assert [p.partition(":")[0] for p in done.problems] == ["the store"]
    assert "1 bytes are missing" in done.problems[0]
    again = within(mill, StorageBudget(each - 1, 1.0)).enforce_budgets()
    assert again is not None
    assert (again.evictions, len(again.problems)) == ((), 1)


# -- random worlds -----------------------------------------------------------------------------------------------


@st.composite
def documents(draw: st.DrawFn) -> Json:
    made: list[Json] = []
    for n in range(1, draw(st.integers(1, 5)) + 1):
        parents = draw(st.lists(st.integers(1, n - 1), unique=True, max_size=2)) if n > 1 else []
        made.append(action(n, draw(st.sampled_from("abcd")), *parents))
    return workflow(*made, name=draw(st.sampled_from(WORKFLOWS)))


def must_stay(dataset: StoredDataset) -> bool:
    """The reference: leaves, pins, and what somebody reads, waits for or makes."""
    return dataset.pinned or dataset.claims > 0 or dataset.state is not D.STORED


def held(mill: Bench, workflow: str | None) -> int:
    return sum(
        d.bytes for d in mill.shop.dataset_catalog.list_datasets() if d.is_readable and workflow in (None, d.workflow)
    )


@settings(max_examples=12, phases=[Phase.generate])
@given(data=st.data())
def test_what_must_stay_stays_and_budgets_are_kept_where_they_can_be(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory, sqlite_template: Path
) -> None:
    root = tmp_path_factory.mktemp("world")
    with bench(f"sqlite:///{shutil.copy(sqlite_template, root)}", root) as mill:
        for _ in range(data.draw(st.integers(1, 3), label="submissions")):
            mill.submit(data.draw(documents()))
            mill.work(data.draw(st.integers(0, 6), label="runs"))  # what is left reads and waits
        for one in mill.shop.dataset_catalog.list_datasets():
            if one.is_readable and data.draw(st.integers(0, 3), label="pin") == 0:
                mill.shop.dataset_catalog.pin_dataset(one.identity, pinned=True)
        before = {d.identity: d for d in mill.shop.dataset_catalog.list_datasets()}
        sizes = {who: data.draw(st.integers(0, held(mill, who) + 1), label="budget") for who in (None, *WORKFLOWS)}
        budgets = {name: StorageBudget(sizes[name], 1.0) for name in WORKFLOWS}
        done = within(mill, StorageBudget(sizes[None], 1.0), **budgets).enforce_budgets()
        check(mill, before, sizes, () if done is None else done.problems)


def check(
    mill: Bench, before: dict[str, StoredDataset], sizes: dict[str | None, int], problems: tuple[str, ...]
) -> None:
    after = {d.identity: d for d in mill.shop.dataset_catalog.list_datasets()}
    for identity, was in before.items():
        if must_stay(was):
            assert after[identity] == was
    for who, most in sizes.items():
        stays = sum(d.bytes for d in before.values() if d.is_readable and must_stay(d) and who in (None, d.workflow))
        said = any(p.startswith("the store" if who is None else f"workflow {who!r}") for p in problems)
        assert (held(mill, who) <= most) == (stays <= most)
        assert said == (stays > most)
    assert mill.leftovers() == set()
