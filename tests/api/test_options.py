"""Options of declarations: values, their short forms, and both together."""

from __future__ import annotations

from typing import Any

import pytest

import tidemill as tm
from tidemill.errors import WorkflowError
from tidemill.model.flow import BoundFlow
from tidemill.model.freshness_target import ALL_PATHWAYS, FreshnessTarget
from tidemill.model.resource_limits import ResourceLimits
from tidemill.model.task import Command, RetryPolicy, Task
from tidemill.model.workflow import WorkflowSpec

TRIGGER = tm.on("orders", rows=10)


def build(**options: Any) -> WorkflowSpec:
    wf = tm.Workflow("shop")
    wf.input("orders", "city string, amount bigint")
    wf.sql("totals", "SELECT city, sum(amount) AS total FROM orders GROUP BY city", **options)
    return wf.build_spec()


def read_binding(spec: WorkflowSpec) -> BoundFlow:
    (binding,) = spec.bindings
    return binding


@pytest.mark.parametrize(
    ("value", "short_forms"),
    [
        ({"schedule": tm.Schedule("1 hour", [TRIGGER], 3)}, {"every": "1 hour", "triggers": [TRIGGER], "priority": 3}),
        ({"retry": tm.Retry(3, "10s", "5 minutes")}, {"attempts": 3, "backoff": "10s", "time_limit": "5 minutes"}),
        (
            {"freshness": tm.Freshness({"orders": "1 day"}, "strict", ["base"])},
            {"target_lag": {"orders": "1 day"}, "consistency": "strict", "accepts": ["base"]},
        ),
    ],
)
def test_a_value_and_its_short_forms_declare_the_same(value: dict[str, Any], short_forms: dict[str, Any]) -> None:
    by_value, by_keyword, default = build(**value), build(**short_forms), build()
    assert read_binding(by_value).triggers == read_binding(by_keyword).triggers
    assert read_binding(by_value).priority == read_binding(by_keyword).priority
    tasks = [read_binding(spec).tasks[0] for spec in (by_value, by_keyword)]
    assert len({(task.retry, task.time_limit) for task in tasks}) == 1
    assert by_value.channels == by_keyword.channels
    assert by_value != default


def test_dependencies_are_part_of_a_result() -> None:
    identities = []
    for options in (
        {},
        {"dependencies": tm.Dependencies("2", ["REGION"])},
        {"version": "2", "environment": ["REGION"]},
    ):
        wf = tm.Workflow("shop")
        wf.input("orders", "city string")
        wf.command("copies", ["cp"], reads={"orders": tm.All}, writes={"copies": tm.Base}, **options)
        identities.append(wf.build_spec().bindings[0].tasks[0].compute_identity())
    assert identities[0] != identities[1] == identities[2]


@pytest.mark.parametrize(
    "options",
    [
        {"limits": tm.Limits("2 GB", "10 minutes", 8, "1 hour"), "retry": tm.Retry(time_limit="2 hours")},
        {"memory": "2 GB", "cpu": "10 minutes", "processes": 8, "time_limit": "1 hour"},
    ],
)
def test_a_command_takes_limits_which_do_not_change_its_identity(options: dict[str, Any]) -> None:
    task, plain = build_command(**options), build_command()
    code = task.variant.code
    assert isinstance(code, Command)
    assert code.limits == ResourceLimits(2_000_000_000, 600.0, 8)
    assert task.time_limit == 3600.0
    assert task.compute_identity() == plain.compute_identity()


def build_command(**options: Any) -> Task:
    wf = tm.Workflow("shop")
    wf.input("orders", "city string")
    wf.command("copies", ["cp"], reads={"orders": tm.All}, writes={"copies": tm.Base}, **options)
    return read_binding(wf.build_spec()).tasks[0]


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (tm.Limits(memory="much"), r"test_options.py:\d+: not a size: 'much'"),
        (tm.Limits(cpu="long"), "not a duration: 'long'"),
        (tm.Limits(processes=0), "expected the limit processes to be positive, found 0"),
        (tm.Limits(time_limit=-1), "expected the limit time_limit to be positive, found -1"),
    ],
)
def test_wrong_limits_are_reported(limits: tm.Limits, message: str) -> None:
    with pytest.raises(WorkflowError, match=message):
        build_command(limits=limits)


def test_only_commands_have_limits() -> None:
    with pytest.raises(TypeError, match="there is no option 'limits'"):
        build(limits=tm.Limits("2 GB"))


def test_a_keyword_replaces_a_field_of_a_shared_value() -> None:
    often = tm.Schedule(triggers=[TRIGGER], priority=5)
    patient = tm.Retry(attempts=4, time_limit="1 hour")
    binding = read_binding(build(schedule=often, priority=7, retry=patient, backoff=2))
    assert (binding.triggers, binding.priority) == ((TRIGGER,), 7.0)
    assert binding.tasks[0].retry == RetryPolicy(4, 2.0)
    assert binding.tasks[0].time_limit == 3600.0
    assert often.priority == 5


def test_a_bound_flow_takes_a_schedule() -> None:
    flow = tm.Flow("copying")
    flow.sql("copies", "SELECT * FROM orders")
    wf = tm.Workflow("shop")
    wf.input("orders", "city string")
    wf.bind(flow, schedule=tm.Schedule("1 day", priority=2), triggers=[TRIGGER])
    assert read_binding(wf.build_spec()).triggers == (tm.every("1 day"), TRIGGER)
    assert read_binding(wf.build_spec()).priority == 2.0


def test_stream_declarations_take_the_same_options() -> None:
    wf = tm.Workflow("shop")
    wf.input("orders", "city string, at timestamp")
    wf.waves("placed", "orders", retry=tm.Retry(2))
    wf.watermark("complete", "orders", at="at", freshness=tm.Freshness("1 minute"), attempts=3)
    spec = wf.build_spec()
    assert {task.name: task.retry.attempts for task in spec.list_tasks()} == {"placed": 2, "complete": 3}
    targets = {channel.name: channel.freshness_target for channel in spec.channels}
    assert targets["complete"] == FreshnessTarget({ALL_PATHWAYS: 60.0})


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"attemps": 3},
            TypeError,
            r"test_options.py:\d+: there is no option 'attemps'; the options here are accepts, ",
        ),
        ({"version": "2"}, TypeError, "there is no option 'version'"),
        ({"retry": 3}, WorkflowError, r"test_options.py:\d+: expected retry to be a tm.Retry, found 3"),
        ({"retry": tm.Retry(0)}, WorkflowError, "expected attempts to be at least 1, found 0"),
        ({"freshness": tm.Freshness("soon")}, WorkflowError, r"test_options.py:\d+: "),
        ({"freshness": tm.Freshness(accepts=["rows"])}, WorkflowError, "expected accepts to contain base, "),
    ],
)
def test_wrong_options_are_reported_where_they_are_given(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        build(**options)
