"""Invalid declarations are reported with reasons."""

from __future__ import annotations

from dataclasses import replace

import pytest
from benchmarks.workflows import WORKFLOWS
from benchmarks.workflows.modes import MODES
from tests.planner.random_workflows import LINEAR, B, D, W

from tidemill.planner.graph import (
    NOTHING,
    ChannelBounds,
    ChannelNode,
    PlanningGraph,
    PortRequirement,
    TaskNode,
    VariantNode,
)
from tidemill.planner.validation import find_problems

CHANNELS = (ChannelNode("a"), ChannelNode("m"), ChannelNode("out", accepts=frozenset([B, D])))
TASKS = (TaskNode("t", ("a",), ("m",), LINEAR), TaskNode("u", ("m",), ("out",), LINEAR))


def list_problems(
    channels: tuple[ChannelNode, ...] = CHANNELS, tasks: tuple[TaskNode, ...] = TASKS
) -> list[tuple[str, str]]:
    return [(p.subject, p.reason) for p in find_problems(PlanningGraph(channels, tasks))]


def set_bounds(**bounds: ChannelBounds) -> tuple[ChannelNode, ...]:
    return tuple(replace(c, bounds=bounds.get(c.name, c.bounds)) for c in CHANNELS)


def test_a_valid_workflow_has_no_problems() -> None:
    assert list_problems() == []
    for scenario in WORKFLOWS:
        for change in MODES.values():
            assert find_problems(change(scenario).graph) == []


def test_a_bound_on_an_unknown_pathway_is_reported() -> None:
    channels = set_bounds(out=ChannelBounds({("a",): 5}))
    assert list_problems(channels) == [("out", "its staleness is bounded by way of a, but there is no such pathway")]


def test_a_bound_tighter_than_that_of_an_intermediate_is_reported() -> None:
    channels = set_bounds(out=ChannelBounds({("a", "m"): 5}), m=ChannelBounds({("a",): 6}))
    (problem,) = list_problems(channels)
    assert problem[0] == "out"
    assert "m on the way by 6" in problem[1]
    assert list_problems(set_bounds(out=ChannelBounds({("a", "m"): 5}), m=ChannelBounds({("a",): 5}))) == []


@pytest.mark.parametrize("bounds", [ChannelBounds({("a", "m"): -1}), ChannelBounds(inconsistency=-1)])
def test_negative_bounds_are_reported(bounds: ChannelBounds) -> None:
    assert "cannot be negative" in list_problems(set_bounds(out=bounds))[0][1]


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        ((TaskNode("t", ("x",), ("m",), LINEAR),), "no channel x"),
        ((TASKS[1], TASKS[0]), "form a cycle"),
        ((*TASKS, TaskNode("v", ("a",), ("m",), LINEAR)), "several tasks write it"),
        (
            (TaskNode("t", ("a", "a"), ("m",), (VariantNode("v", (PortRequirement(B), PortRequirement(B)), (B,)),)),),
            "twice",
        ),
        ((TaskNode("t", ("a",), ("m",), ()),), "no variant"),
        ((TaskNode("t", ("a",), ("m",), (VariantNode("v", (), (B,)),)),), "declare 1 inputs"),
        ((TaskNode("t", ("a",), ("m",), (VariantNode("v", (NOTHING,), (B,)),)),), "reads no channel"),
        ((TaskNode("t", ("a",), ("m",), (VariantNode("v", (PortRequirement(D),), (B,)),)),), "if it reads a delta"),
        ((TaskNode("t", ("a",), ("m",), (VariantNode("v", (PortRequirement(B),), (D,)),)),), "if it reads a delta"),
    ],
)
def test_invalid_tasks_are_reported(tasks: tuple[TaskNode, ...], message: str) -> None:
    assert message in list_problems(tasks=tasks)[0][1]


def test_an_output_without_an_accepted_shape_is_reported() -> None:
    counting = (VariantNode("new", (PortRequirement(D),), (W,)),)
    assert list_problems(tasks=(TASKS[0], TaskNode("u", ("m",), ("out",), counting))) == [
        ("out", "its readers accept base or strong, but only weak is written")
    ]
