"""One run for several tables, or a run for each: hand-computed cases."""

from __future__ import annotations

import pytest

from tidemill.planner.refresh_groups import GroupMember, propose_group


def alike(count: int, seconds: float, start: float) -> list[GroupMember]:
    return [GroupMember(str(n), seconds, start, 1.0) for n in range(count)]


@pytest.mark.parametrize(("start", "pays"), [(0.4, False), (0.5, False), (0.6, True)])
def test_tables_alike_gain_if_more_than_half_of_a_run_is_its_start(start: float, pays: bool) -> None:
    assert [propose_group(alike(n, 1.0, start), waiting_priority=0.0).is_worthwhile for n in (2, 5)] == [pays, pays]


def test_the_quick_wait_for_the_slow_and_for_nobody_else() -> None:
    found = propose_group(
        [GroupMember("slow", 9.0, 1.0, 1.0), GroupMember("quick", 2.0, 1.0, 10.0)], waiting_priority=0.0
    )
    assert (found.separate_seconds, found.seconds) == (11.0, 10.0)
    assert found.members_loss == 10.0 * (10.0 - 2.0) + 1.0 * (10.0 - 11.0)
    assert not found.is_worthwhile


def test_others_gain_what_is_saved() -> None:
    assert not propose_group(
        alike(2, 1.0, 0.2), waiting_priority=3.0
    ).is_worthwhile  # 0.8 and -0.2 are lost, 0.6 is gained
    assert propose_group(alike(2, 1.0, 0.2), waiting_priority=4.0).is_worthwhile
