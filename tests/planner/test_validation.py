"""Invalid declarations are reported with reasons."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.workflows import WORKFLOWS
from benchmarks.workflows.modes import MODES
from tests.planner.random_workflows import LINEAR, B, D, W

from tidemill.planner.graph import (
    ChannelBounds,
    ChannelNode,
    PlanningGraph,
    PortRequirement,
    TaskNode,
    VariantNode,
)
from tidemill.planner.validation import find_target_problems

CHANNELS = (ChannelNode("a"), ChannelNode("m"), ChannelNode("out", accepts=frozenset([B, D])))
TASKS = (TaskNode("t", ("a",), ("m",), LINEAR), TaskNode("u", ("m",), ("out",), LINEAR))


def list_problems(
    channels: tuple[ChannelNode, ...] = CHANNELS, tasks: tuple[TaskNode, ...] = TASKS
) -> list[tuple[str, str]]:
    return [(p.subject, p.reason) for p in find_target_problems(PlanningGraph(channels, tasks))]


def set_bounds(**bounds: ChannelBounds) -> tuple[ChannelNode, ...]:
    return tuple(replace(c, bounds=bounds.get(c.name, c.bounds)) for c in CHANNELS)


def test_a_valid_workflow_has_no_problems() -> None:
    assert list_problems() == []
    for scenario in WORKFLOWS:
        for change in MODES.values():
            assert find_target_problems(change(scenario).graph) == []


def test_a_bound_tighter_than_that_of_an_intermediate_is_reported() -> None:
    channels = set_bounds(out=ChannelBounds({("a", "m"): 5_000_000}), m=ChannelBounds({("a",): 6_000_000}))
    (problem,) = list_problems(channels)
    assert problem[0] == "out"
    assert "m on the way by 6 s" in problem[1]
    assert list_problems(set_bounds(out=ChannelBounds({("a", "m"): 5}), m=ChannelBounds({("a",): 5}))) == []


def test_several_writers_of_a_channel_upstream_are_reported() -> None:
    (problem,) = list_problems(tasks=(*TASKS, TaskNode("v", ("a",), ("m",), LINEAR)))
    assert problem[0] == "m"
    assert "several tasks write it" in problem[1]


def test_an_output_without_an_accepted_shape_is_reported() -> None:
    counting = (VariantNode("new", (PortRequirement(D),), (W,)),)
    assert list_problems(tasks=(TASKS[0], TaskNode("u", ("m",), ("out",), counting))) == [
        ("out", "its readers accept base or strong, but only weak is written")
    ]
