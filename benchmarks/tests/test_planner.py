"""How planning grows, in blocks that are weighed rather than in seconds."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from benchmarks.planner import _estimate_cost, _time_call, build_line, build_tree

from tidemill.model.time import Timeline
from tidemill.planner.block_inventory import BlockInventory
from tidemill.planner.planner import DynamicProgrammingPlanner


def generated(inventory: BlockInventory, arrivals: int = 1) -> int:
    layout = inventory.index
    (output,) = layout.graph.outputs
    inputs = {p[0] for p in layout.pathways[output]}
    first = next(iter(layout.channels))
    versions = {name: range(1, arrivals + 2) if name == first else [1] for name in inputs}
    answer = DynamicProgrammingPlanner(layout, _estimate_cost).find_plan(
        inventory, output, Timeline(versions, arrivals + 2)
    )
    assert answer.plan is not None
    assert answer.fallbacks == 0
    return answer.generated


def test_a_call_weighs_the_same_blocks_however_many_have_arrived() -> None:
    assert generated(build_line(10, 1)) == generated(build_line(10, 1000), 1000)


@pytest.mark.parametrize("workflow", [build_line, build_tree])
def test_a_call_weighs_blocks_in_proportion_to_channels_at_most(workflow: Callable[[int], BlockInventory]) -> None:
    small, large = generated(workflow(20)), generated(workflow(200))
    assert large <= 11 * small


def test_calls_are_timed() -> None:
    called = _time_call(build_tree(7), rounds=1)
    assert called["blocks"] == generated(build_tree(7))
    assert called["ms"] > 0
    assert called["warm_ms"] > 0
