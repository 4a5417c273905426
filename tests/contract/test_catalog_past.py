"""Old submissions and events are forgotten, and never what something needs, on both databases."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.catalog.driver import WORKFLOW, Driver
from tests.runtime.oneshots import Bench, action, bench, chain, verdicts, workflow

from tidemill.catalog.dataset_catalog import SqlDatasetCatalog
from tidemill.errors import NotFound
from tidemill.model.block import BlockKind
from tidemill.model.run import RunKind
from tidemill.model.states import DatasetState as D
from tidemill.model.submission import ExpiredHistory, Submission
from tidemill.model.usage import UsagePeriod
from tidemill.retention.usage_history import TimeResolution, UsageFigures, compute_figures

DAY = 86_400.0
YEAR = 365 * DAY


@pytest.fixture
def mill(url: str, tmp_path: Path) -> Iterator[Bench]:
    with bench(url, tmp_path) as opened:
        yield opened


def remembered(mill: Bench) -> list[int]:
    return [s.id for s in mill.shop.dataset_catalog.list_submissions(limit=1000)]


def forgotten(mill: Bench, url: str, root: Path) -> ExpiredHistory:
    """A year later."""
    with bench(url, root, later=YEAR) as later:
        return later.shop.dataset_catalog.expire_submissions(90 * DAY)


def gone(mill: Bench, made: Submission) -> None:
    """Nothing of a submission is there any more."""
    for name in {a.identity for a in made.actions}:
        if mill.shop.find_dataset(name).state is D.LEAF:
            mill.shop.drop_dataset(name)
    stored = [d for d in mill.shop.dataset_catalog.list_datasets() if d.state is D.STORED]
    mill.shop.build_evictor().free_bytes(sum(d.bytes for d in stored))


def test_what_nobody_needs_is_forgotten_with_all_that_is_said_of_it(mill: Bench, url: str, tmp_path: Path) -> None:
    gone(mill, mill.run(chain("a", "b")))
    kept = mill.run(chain("c"))
    assert mill.shop.dataset_catalog.expire_submissions(90 * DAY) == ExpiredHistory()  # it is young
    found = forgotten(mill, url, tmp_path)
    assert (found.submissions, found.datasets, found.runs) == (1, 2, 2)
    assert remembered(mill) == [kept.id]
    assert [d.name for d in mill.shop.dataset_catalog.list_datasets()] == ["a1"]
    assert [r.subject for r in mill.catalog.list_runs()] == ["words/a1"]
    with pytest.raises(NotFound):
        mill.catalog.read_run(1)
    (month,) = mill.shop.compute_usage(UsagePeriod(0.0, time.time() + 1), TimeResolution.MONTH)
    assert (month.submissions, month.actions, month.computed) == (2, 3, 3)  # figures stay
    assert verdicts(mill.run(chain("a", "b"))) == {"1": "changed", "2": "new"}  # against what is remembered


def test_where_something_came_from_is_known_as_long_as_it_is_there(mill: Bench, url: str, tmp_path: Path) -> None:
    mill.run(chain("a", "b"))
    mill.run(chain("c"))
    assert forgotten(mill, url, tmp_path).submissions == 0
    mill.run(chain("a", "b", "d"))  # asks for the same again, and so the first can go
    assert forgotten(mill, url, tmp_path).submissions == 1
    assert remembered(mill) == [3, 2]


def test_eviction_still_knows_what_it_may_take(mill: Bench, url: str, tmp_path: Path) -> None:
    evictor = mill.shop.build_evictor()
    gone(mill, mill.run(chain("x", "y")))
    mill.run(chain("a", "b"))
    evictor.report_storage(1)
    assert forgotten(mill, url, tmp_path).datasets == 2
    for each in (evictor, mill.shop.build_evictor()):  # one that remembers what was forgotten, and one that never knew
        assert [g.dataset.name for g in each.report_storage(1).evictions] == ["a1"]


def test_the_newest_of_a_workflow_and_what_waits_or_is_pinned_stay(mill: Bench, url: str, tmp_path: Path) -> None:
    gone(mill, mill.run(chain("only", name="other")))
    waiting = mill.submit(chain("a", "b"))
    pinned = mill.run(workflow(action(1, "p", pinned=True), action(2, "q", 1)))
    mill.shop.drop_dataset(pinned.actions[1].identity)
    mill.shop.dataset_catalog.mark_lost(pinned.actions[0].identity)
    mill.run(chain("last"))
    assert forgotten(mill, url, tmp_path).submissions == 0
    assert waiting.id in remembered(mill)
    assert mill.work() == 2  # and can still be run


def test_what_was_forced_is_not_taken_for_what_was_before(mill: Bench, url: str, tmp_path: Path) -> None:
    plain, forced = chain("a"), workflow(action(1, "a", forceComputation=True))
    mill.run(plain)
    gone(mill, mill.run(forced))
    mill.run(chain("z"))
    forgotten(mill, url, tmp_path)
    assert verdicts(mill.run(plain)) == {"1": "gone"}


def test_events_of_no_run_go_by_age_and_their_numbers_are_not_given_again(
    mill: Bench, url: str, tmp_path: Path
) -> None:
    mill.run(chain("a"))
    mill.run(chain("b"))
    newest = mill.catalog.list_events(limit=1000)[-1].id
    found = forgotten(mill, url, tmp_path)
    assert found.events == 2  # that something was submitted; what else happened is said of runs
    assert {e.run for e in mill.catalog.list_events(limit=1000)} == {1, 2}
    mill.run(chain("c"))
    assert mill.catalog.list_events(after=newest, limit=1000)[0].id == newest + 1


def test_refreshes_that_are_forgotten_still_count(driver: Driver) -> None:
    ledger = SqlDatasetCatalog(driver.catalog)
    for _ in range(6):
        driver.insert(kind=BlockKind.BASE)
        driver.run_flow()
        for channel in ("a", "d"):
            blocks = driver.catalog.list_filled_blocks(channel)
            driver.catalog.collect_blocks(b.id for b in blocks if 0 < b.seq < driver.head(channel))
        driver.purge()

    def known(**only: str) -> UsageFigures:
        wanted = UsagePeriod(0.0, driver.catalog.read_time() + 1, **only)
        (found,) = compute_figures(ledger.read_usage(wanted), ledger.read_tallies(wanted), TimeResolution.MONTH)
        return found

    before = known()
    assert before.refreshes == 6
    assert driver.catalog.expire_runs("copy", keep=2).runs == 4
    assert len([r for r in driver.catalog.list_runs(limit=100) if r.kind is RunKind.FLOW]) == 2
    assert known() == before
    assert known(workflow=WORKFLOW.name) == before
    assert ledger.read_tallies(UsagePeriod(0.0, driver.catalog.read_time() + 1, user="ada")) == []
