"""What is wrong with declarations is said, with reasons."""

from __future__ import annotations

from dataclasses import replace

import pytest
from benchmarks.workflows import WORKFLOWS
from benchmarks.workflows.modes import MODES
from tests.planner.worlds import LINEAR, B, D, W

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


def said(channels: tuple[ChannelNode, ...] = CHANNELS, tasks: tuple[TaskNode, ...] = TASKS) -> list[tuple[str, str]]:
    return [(p.subject, p.reason) for p in find_problems(PlanningGraph(channels, tasks))]


def bounded(**bounds: ChannelBounds) -> tuple[ChannelNode, ...]:
    return tuple(replace(c, bounds=bounds.get(c.name, c.bounds)) for c in CHANNELS)


def test_a_sound_workflow_has_none() -> None:
    assert said() == []
    for scenario in WORKFLOWS:
        for change in MODES.values():
            assert find_problems(change(scenario).graph) == []


def test_a_bound_on_a_pathway_that_does_not_exist() -> None:
    channels = bounded(out=ChannelBounds({("a",): 5}))
    assert said(channels) == [("out", "its staleness is bounded by way of a, but there is no such pathway")]


def test_an_output_fresher_than_an_intermediate_may_be() -> None:
    channels = bounded(out=ChannelBounds({("a", "m"): 5}), m=ChannelBounds({("a",): 6}))
    (problem,) = said(channels)
    assert problem[0] == "out"
    assert "m on the way by 6" in problem[1]
    assert said(bounded(out=ChannelBounds({("a", "m"): 5}), m=ChannelBounds({("a",): 5}))) == []


@pytest.mark.parametrize("bounds", [ChannelBounds({("a", "m"): -1}), ChannelBounds(inconsistency=-1)])
def test_bounds_below_nothing(bounds: ChannelBounds) -> None:
    assert "cannot be negative" in said(bounded(out=bounds))[0][1]


@pytest.mark.parametrize(
    ("tasks", "word"),
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
def test_tasks_that_make_no_sense(tasks: tuple[TaskNode, ...], word: str) -> None:
    assert word in said(tasks=tasks)[0][1]


def test_an_output_of_which_nobody_makes_what_is_accepted() -> None:
    counting = (VariantNode("new", (PortRequirement(D),), (W,)),)
    assert said(tasks=(TASKS[0], TaskNode("u", ("m",), ("out",), counting))) == [
        ("out", "its readers accept base or strong, but only weak is written")
    ]
