"""One run for several tables, or one run for each: calculated cases."""

from __future__ import annotations

import pytest

from tidemill.planner.refresh_groups import GroupMember, propose_group


def build_members(count: int, seconds: float, start: float) -> list[GroupMember]:
    return [GroupMember(str(n), seconds, start, 1.0) for n in range(count)]


@pytest.mark.parametrize(("start", "pays"), [(0.4, False), (0.5, False), (0.6, True)])
def test_equal_tables_gain_if_the_start_takes_more_than_half_of_a_run(start: float, pays: bool) -> None:
    assert [propose_group(build_members(n, 1.0, start), waiting_priority=0.0).is_worthwhile for n in (2, 5)] == [
        pays,
        pays,
    ]


def test_quick_members_wait_only_for_slow_members() -> None:
    proposal = propose_group(
        [GroupMember("slow", 9.0, 1.0, 1.0), GroupMember("quick", 2.0, 1.0, 10.0)], waiting_priority=0.0
    )
    assert (proposal.separate_seconds, proposal.seconds) == (11.0, 10.0)
    assert proposal.members_loss == 10.0 * (10.0 - 2.0) + 1.0 * (10.0 - 11.0)
    assert not proposal.is_worthwhile


def test_waiting_tables_gain_the_saved_time() -> None:
    assert not propose_group(
        build_members(2, 1.0, 0.2), waiting_priority=3.0
    ).is_worthwhile  # the loss is 0.8 and -0.2, the gain 0.6
    assert propose_group(build_members(2, 1.0, 0.2), waiting_priority=4.0).is_worthwhile
