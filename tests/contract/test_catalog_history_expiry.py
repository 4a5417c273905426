"""Old submissions and events expire unless something needs them, on both databases."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.catalog.driver import WORKFLOW, Driver
from tests.runtime.oneshots import Bench, action, bench, chain, verdicts, workflow

from tidemill.errors import NotFound
from tidemill.model.block import BlockKind
from tidemill.model.run import RunKind
from tidemill.model.states import DatasetState as D
from tidemill.model.submission import ExpiredHistory, Submission
from tidemill.model.usage import UsageFigures, UsagePeriod
from tidemill.retention.usage_history import TimeResolution, compute_figures

DAY = 86_400.0
YEAR = 365 * DAY


@pytest.fixture
def mill(url: str, tmp_path: Path) -> Iterator[Bench]:
    with bench(url, tmp_path) as mill:
        yield mill


def list_submission_ids(mill: Bench) -> list[int]:
    return [s.id for s in mill.catalog.datasets.list_submissions(limit=1000)]


def expire_after_a_year(mill: Bench, url: str, root: Path) -> ExpiredHistory:
    """Expire submissions older than 90 days, a year later."""
    with bench(url, root, later=YEAR) as later:
        return later.catalog.datasets.expire_submissions(90 * DAY)


def evict_all(mill: Bench, submission: Submission) -> None:
    """Delete every dataset of a submission."""
    for name in {a.identity for a in submission.actions}:
        if mill.shop.find_dataset(name).state is D.LEAF:
            mill.shop.drop_dataset(name)
    stored = [d for d in mill.catalog.datasets.list() if d.state is D.STORED]
    mill.shop.build_evictor().free_bytes(sum(d.bytes for d in stored))


def test_unneeded_submissions_expire_with_their_datasets_and_runs(mill: Bench, url: str, tmp_path: Path) -> None:
    evict_all(mill, mill.run(chain("a", "b")))
    retained = mill.run(chain("c"))
    assert mill.catalog.datasets.expire_submissions(90 * DAY) == ExpiredHistory()  # it is too recent
    expired = expire_after_a_year(mill, url, tmp_path)
    assert (expired.submissions, expired.datasets, expired.runs) == (1, 2, 2)
    assert list_submission_ids(mill) == [retained.id]
    assert [d.name for d in mill.catalog.datasets.list()] == ["a1"]
    assert [r.subject for r in mill.catalog.runs.list()] == ["words/a1"]
    with pytest.raises(NotFound):
        mill.catalog.runs.read(1)
    (month,) = mill.shop.compute_usage(UsagePeriod(0.0, time.time() + 1), TimeResolution.MONTH)
    assert (month.submissions, month.actions, month.computed) == (2, 3, 3)  # usage figures are kept
    assert verdicts(mill.run(chain("a", "b"))) == {"1": "changed", "2": "new"}  # compared with the retained submissions


def test_the_submission_of_an_existing_dataset_does_not_expire(mill: Bench, url: str, tmp_path: Path) -> None:
    mill.run(chain("a", "b"))
    mill.run(chain("c"))
    assert expire_after_a_year(mill, url, tmp_path).submissions == 0
    mill.run(chain("a", "b", "d"))  # needs the same datasets, so that the first submission can expire
    assert expire_after_a_year(mill, url, tmp_path).submissions == 1
    assert list_submission_ids(mill) == [3, 2]


def test_eviction_works_after_expiry(mill: Bench, url: str, tmp_path: Path) -> None:
    evictor = mill.shop.build_evictor()
    evict_all(mill, mill.run(chain("x", "y")))
    mill.run(chain("a", "b"))
    evictor.report_storage(1)
    assert expire_after_a_year(mill, url, tmp_path).datasets == 2
    for candidate in (evictor, mill.shop.build_evictor()):  # one from before the expiry, and a new one
        assert [g.dataset.name for g in candidate.report_storage(1).evictions] == ["a1"]


def test_the_newest_the_waiting_and_the_pinned_submissions_do_not_expire(mill: Bench, url: str, tmp_path: Path) -> None:
    evict_all(mill, mill.run(chain("only", name="other")))
    waiting = mill.submit(chain("a", "b"))
    pinned = mill.run(workflow(action(1, "p", pinned=True), action(2, "q", 1)))
    mill.shop.drop_dataset(pinned.actions[1].identity)
    mill.catalog.datasets.mark_lost(pinned.actions[0].identity)
    mill.run(chain("last"))
    assert expire_after_a_year(mill, url, tmp_path).submissions == 0
    assert waiting.id in list_submission_ids(mill)
    assert mill.work() == 2  # it can still be run


def test_a_forced_dataset_is_not_mistaken_for_the_previous_one(mill: Bench, url: str, tmp_path: Path) -> None:
    plain, forced = chain("a"), workflow(action(1, "a", forceComputation=True))
    mill.run(plain)
    evict_all(mill, mill.run(forced))
    mill.run(chain("z"))
    expire_after_a_year(mill, url, tmp_path)
    assert verdicts(mill.run(plain)) == {"1": "gone"}


def test_events_without_a_run_expire_by_age_and_their_ids_are_not_reused(mill: Bench, url: str, tmp_path: Path) -> None:
    mill.run(chain("a"))
    mill.run(chain("b"))
    newest = mill.catalog.events.list(limit=1000)[-1].id
    expired = expire_after_a_year(mill, url, tmp_path)
    assert expired.events == 2  # the submissions; all other events belong to runs
    assert {e.run for e in mill.catalog.events.list(limit=1000)} == {1, 2}
    mill.run(chain("c"))
    assert mill.catalog.events.list(after=newest, limit=1000)[0].id == newest + 1


def test_expired_refreshes_still_count_in_usage(driver: Driver) -> None:
    datasets = driver.catalog.datasets
    for _ in range(6):
        driver.insert(kind=BlockKind.BASE)
        driver.run_flow()
        for channel in ("a", "d"):
            blocks = driver.catalog.blocks.list_filled(channel)
            driver.catalog.blocks.collect([b.id for b in blocks if 0 < b.seq < driver.head(channel)])
        driver.purge()

    def compute_usage(**only: str) -> UsageFigures:
        period = UsagePeriod(0.0, driver.catalog.read_time() + 1, **only)
        (figures,) = compute_figures(datasets.read_usage(period), datasets.read_tallies(period), TimeResolution.MONTH)
        return figures

    before = compute_usage()
    assert before.refreshes == 6
    assert driver.catalog.runs.expire("copy", retain=2).runs == 4
    assert len([r for r in driver.catalog.runs.list(limit=100) if r.kind is RunKind.FLOW]) == 2
    assert compute_usage() == before
    assert compute_usage(workflow=WORKFLOW.name) == before
    assert datasets.read_tallies(UsagePeriod(0.0, driver.catalog.read_time() + 1, user="ada")) == []
