"""Growth of planning, in considered blocks rather than in seconds."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from benchmarks.planner import _estimate_cost, _time_call, build_line, build_tree

from tidemill.model.time import Timeline
from tidemill.planner.block_inventory import BlockInventory
from tidemill.planner.planner import DynamicProgrammingPlanner


def count_considered_blocks(inventory: BlockInventory, arrivals: int = 1) -> int:
    index = inventory.index
    (output,) = index.graph.outputs
    inputs = {p[0] for p in index.pathways[output]}
    first = next(iter(index.channels))
    versions = {name: range(1, arrivals + 2) if name == first else [1] for name in inputs}
    result = DynamicProgrammingPlanner(index, _estimate_cost).find_plan(
        inventory, output, Timeline(versions, arrivals + 2)
    )
    assert result.plan is not None
    assert result.fallbacks == 0
    return result.generated


def test_the_number_of_considered_blocks_does_not_depend_on_arrivals() -> None:
    assert count_considered_blocks(build_line(10, 1)) == count_considered_blocks(build_line(10, 1000), 1000)


@pytest.mark.parametrize("workflow", [build_line, build_tree])
def test_the_number_of_considered_blocks_is_at_most_proportional_to_channels(
    workflow: Callable[[int], BlockInventory],
) -> None:
    small, large = count_considered_blocks(workflow(20)), count_considered_blocks(workflow(200))
    assert large <= 11 * small


def test_calls_are_timed() -> None:
    figures = _time_call(build_tree(7), rounds=1)
    assert figures["blocks"] == count_considered_blocks(build_tree(7))
    assert figures["ms"] > 0
    assert figures["warm_ms"] > 0
