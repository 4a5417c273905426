"""Quotas of workflows: refused inserts, runs that wait, and maintenance that frees space first."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.runtime.mill import Mill

import tidemill as tm
from tidemill.errors import QuotaExceeded
from tidemill.intake.loader import load_file
from tidemill.model.block import BlockKind
from tidemill.model.notice import AlarmReading
from tidemill.model.quota import QuotaUsage, WorkflowQuota
from tidemill.model.run import RunKind
from tidemill.model.store import GracePeriods
from tidemill.runtime.maintenance.compaction import Compactor
from tidemill.runtime.maintenance.service import MaintenanceRules, MaintenanceService
from tidemill.runtime.maintenance.vacuum import BlockBudget
from tidemill.runtime.oneshot.storage_report import list_quota_shares, read_storage_alarms
from tidemill.runtime.runs.dispatch import DispatchConfig, DispatchedRun, RunDispatcher
from tidemill.runtime.runs.insert import Inserter
from tidemill.runtime.runs.quotas import USAGE_SECONDS, QuotaGuard, measure_usage
from tidemill.runtime.runs.requests import request_flow_run

TABLES = ("a", "b", "c")


@pytest.fixture
def mill(tmp_path: Path) -> Iterator[Mill]:
    wf = tm.Workflow("shop")
    wf.input("orders", "id bigint, city string")
    for name in TABLES:
        wf.table(name, "id bigint")

        @wf.task(name=name, writes={name: tm.Delta})
        def copy(orders: tm.New, name: str = name) -> dict[str, tm.Delta]:
            return {name: [{"id": row["id"]} for row in orders]}

    mill = Mill(wf.build_spec(), tmp_path)
    yield mill
    mill.close()


def build_guard(mill: Mill, quota: WorkflowQuota) -> QuotaGuard:
    guard = QuotaGuard(mill.catalog.files, {"shop": quota}, clock=lambda: mill.now)
    mill.executor = dataclasses.replace(mill.executor, check_storage=guard.check_storage)
    return guard


def measure_bytes(mill: Mill) -> int:
    (usage,) = measure_usage({"shop": WorkflowQuota()}, mill.catalog.files)
    return usage.used_bytes


def start_runs(mill: Mill, dispatcher: RunDispatcher) -> list[DispatchedRun]:
    return dispatcher.start_runs(mill.catalog.runs.list_runnable(), mill.now)


def test_a_workflow_never_has_more_runs_than_its_quota(mill: Mill) -> None:
    guard = build_guard(mill, WorkflowQuota(tracks=1))
    dispatcher = RunDispatcher(mill.catalog.flows, DispatchConfig(tracks=3), limit_tracks=guard.limit_tracks)
    for name in TABLES:
        request_flow_run(mill.catalog, name)
    (first,) = start_runs(mill, dispatcher)
    assert start_runs(mill, dispatcher) == []
    dispatcher.finish_run(first, mill.now)
    assert len(start_runs(mill, dispatcher)) == 1


def test_actions_use_the_tracks_of_their_workflow(mill: Mill) -> None:
    guard = build_guard(mill, WorkflowQuota(tracks=1))
    dispatcher = RunDispatcher(mill.catalog.flows, DispatchConfig(tracks=3), limit_tracks=guard.limit_tracks)
    request_flow_run(mill.catalog, "a")
    (run,) = mill.catalog.runs.list_runnable()
    subjects = ("shop/first", "shop/second", "other/first")
    actions = [
        dataclasses.replace(run, id=run.id + number, kind=RunKind.ACTION, subject=subject)
        for number, subject in enumerate(subjects, 1)
    ]
    started = {job.run.subject for job in dispatcher.start_runs([run, *actions], mill.now)}
    assert len(started & {"a", "shop/first", "shop/second"}) == 1
    assert "other/first" in started


def test_inserts_beyond_the_storage_quota_are_refused(mill: Mill) -> None:
    mill.insert("orders", "1,Ghent")
    build_guard(mill, WorkflowQuota(storage=measure_bytes(mill)))
    mill.insert("orders", "2,Ghent")
    mill.now += USAGE_SECONDS
    with pytest.raises(QuotaExceeded, match=r"shop uses .* more than its storage quota of .*raise \[quotas.shop\]"):
        mill.insert("orders", "3,Ghent")
    assert mill.catalog.channels.read("orders").head.seq == 2


def test_runs_of_a_workflow_over_its_storage_quota_wait_until_there_is_space(mill: Mill) -> None:
    mill.insert("orders", "1,Ghent")
    guard = build_guard(mill, WorkflowQuota(storage=1))
    dispatcher = RunDispatcher(mill.catalog.flows, DispatchConfig(tracks=3), limit_tracks=guard.limit_tracks)
    request_flow_run(mill.catalog, "a")
    assert start_runs(mill, dispatcher) == []
    guard.quotas = {"shop": WorkflowQuota(storage=10**9)}
    mill.now += USAGE_SECONDS
    assert [s.run.subject for s in start_runs(mill, dispatcher)] == ["a"]


def test_maintenance_collects_older_contents_of_the_workflow_first(mill: Mill) -> None:
    path = mill.directory / "orders.csv"
    for number in range(8):
        path.write_text(f"id,city\n{number},Ghent\n")
        Inserter(mill.executor, load_file).insert_file("orders", path, kind=BlockKind.BASE)
    rules = MaintenanceRules(points=8, grace=GracePeriods(0.0, 0.0), budgets=(BlockBudget(0, "other"),))
    MaintenanceService(mill.executor, lambda: Compactor(mill.executor, {}), rules).maintain_channels()
    before = measure_bytes(mill)
    rules = dataclasses.replace(rules, budgets=(BlockBudget(before // 2, "shop"),))
    result = MaintenanceService(mill.executor, lambda: Compactor(mill.executor, {}), rules).maintain_channels()
    assert measure_bytes(mill) <= before // 2
    assert (result.collected.blocks > 0, result.problems) == (True, ())


def test_passing_the_threshold_of_a_quota_is_an_alarm() -> None:
    usage = [QuotaUsage("shop", WorkflowQuota(storage=100), 95), QuotaUsage("news", WorkflowQuota(tracks=1), 95)]
    alarms = read_storage_alarms(list_quota_shares(usage, threshold=0.9))
    assert alarms == {
        "blocks of channels of workflow shop": AlarmReading(
            True, {"used_bytes": 95, "budget_bytes": 100, "threshold_bytes": 90}
        )
    }


def test_without_quotas_nothing_is_measured(mill: Mill) -> None:
    guard = QuotaGuard(None, {"shop": WorkflowQuota(tracks=2)})  # type: ignore[arg-type]
    guard.check_storage("shop")
    assert guard.limit_tracks() == {"shop": 2}
