"""What is wrong with declarations is said, with reasons."""

from __future__ import annotations

from dataclasses import replace

import pytest
from benchmarks.workflows import WORKFLOWS
from benchmarks.workflows.modes import MODES
from tests.planner.worlds import LINEAR, B, D, W

from tidemill.planner.graph import NOTHING, Bounds, Channel, Graph, Take, Task, Variant
from tidemill.planner.validation import problems

CHANNELS = (Channel("a"), Channel("m"), Channel("out", accepts=frozenset([B, D])))
TASKS = (Task("t", ("a",), ("m",), LINEAR), Task("u", ("m",), ("out",), LINEAR))


def said(channels: tuple[Channel, ...] = CHANNELS, tasks: tuple[Task, ...] = TASKS) -> list[tuple[str, str]]:
    return [(p.where, p.why) for p in problems(Graph(channels, tasks))]


def bounded(**bounds: Bounds) -> tuple[Channel, ...]:
    return tuple(replace(c, bounds=bounds.get(c.name, c.bounds)) for c in CHANNELS)


def test_a_sound_workflow_has_none() -> None:
    assert said() == []
    for scenario in WORKFLOWS:
        for change in MODES.values():
            assert problems(change(scenario).graph) == []


def test_a_bound_on_a_pathway_that_does_not_exist() -> None:
    channels = bounded(out=Bounds({("a",): 5}))
    assert said(channels) == [("out", "its staleness is bounded by way of a, and no data come that way")]


def test_an_output_fresher_than_an_intermediate_may_be() -> None:
    channels = bounded(out=Bounds({("a", "m"): 5}), m=Bounds({("a",): 6}))
    (problem,) = said(channels)
    assert problem[0] == "out"
    assert "m on the way by 6" in problem[1]
    assert said(bounded(out=Bounds({("a", "m"): 5}), m=Bounds({("a",): 5}))) == []


@pytest.mark.parametrize("bounds", [Bounds({("a", "m"): -1}), Bounds(inconsistency=-1)])
def test_bounds_below_nothing(bounds: Bounds) -> None:
    assert "less than nothing" in said(bounded(out=bounds))[0][1]


@pytest.mark.parametrize(
    ("tasks", "word"),
    [
        ((Task("t", ("x",), ("m",), LINEAR),), "no channel x"),
        ((TASKS[1], TASKS[0]), "circles"),
        ((*TASKS, Task("v", ("a",), ("m",), LINEAR)), "several tasks write it"),
        ((Task("t", ("a", "a"), ("m",), (Variant("v", (Take(B), Take(B)), (B,)),)),), "twice"),
        ((Task("t", ("a",), ("m",), ()),), "no variant"),
        ((Task("t", ("a",), ("m",), (Variant("v", (), (B,)),)),), "takes of 1"),
        ((Task("t", ("a",), ("m",), (Variant("v", (NOTHING,), (B,)),)),), "takes nothing"),
        ((Task("t", ("a",), ("m",), (Variant("v", (Take(D),), (B,)),)),), "deltas of deltas"),
        ((Task("t", ("a",), ("m",), (Variant("v", (Take(B),), (D,)),)),), "deltas of deltas"),
    ],
)
def test_tasks_that_make_no_sense(tasks: tuple[Task, ...], word: str) -> None:
    assert word in said(tasks=tasks)[0][1]


def test_an_output_of_which_nobody_makes_what_is_accepted() -> None:
    counting = (Variant("new", (Take(D),), (W,)),)
    assert said(tasks=(TASKS[0], Task("u", ("m",), ("out",), counting))) == [
        ("out", "who reads it accepts base or strong, but only weak can be made")
    ]
