"""The tracks on which jobs may run: the example of the paper's section 3.2.4, and cases that it leaves open."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.scheduler.jobs import profile

from tidemill.errors import InfeasibleSchedule
from tidemill.scheduler.job import JobProfile
from tidemill.scheduler.tracks import PLACEMENTS
from tidemill.scheduler.tracks.lane import SingleQueuePlacement, TrackLane, TrackPlacement
from tidemill.scheduler.tracks.partitioned import PartitionedPlacement
from tidemill.scheduler.tracks.proportional import ClusterMeasure, ProportionalPlacement, cluster_jobs


def build_lanes_by_job(placement: TrackPlacement, profiles: Sequence[JobProfile], tracks: int) -> dict[str, TrackLane]:
    return {p.name: lane for lane, shared in placement.build_lanes(profiles, tracks) for p in shared}


@pytest.fixture
def four() -> list[JobProfile]:
    return [profile("1", 4, 1), profile("2", 4, 1), profile("3", 8, 2), profile("4", 10, 1.25)]


def test_edf_partitioning_of_section_3_2_4(four: list[JobProfile]) -> None:
    lanes = build_lanes_by_job(PartitionedPlacement(), four, 2)
    assert {name: lane.home for name, lane in lanes.items()} == {"1": (0,), "2": (0,), "3": (1,), "4": (1,)}
    assert {name for name, lane in lanes.items() if lane.guest} == {"4"}
    assert lanes["4"].guest == (0,)


def test_proportional_partitioning_of_section_3_2_4(four: list[JobProfile]) -> None:
    """The paper counts tracks in reverse: its track 1 is 1 here, and its shared track 2 is 0 here."""
    lanes = build_lanes_by_job(ProportionalPlacement(spread=True, k=2, measure=ClusterMeasure.PERIODS), four, 2)
    assert lanes["1"].home == lanes["2"].home == (1, 0)
    assert lanes["3"].home == lanes["4"].home == (0,)


def test_clusters_by_both_measures(four: list[JobProfile]) -> None:
    def list_clusters(measure: ClusterMeasure) -> list[list[str]]:
        return [[job.name for job in group] for group in cluster_jobs(four, 2, measure)]

    assert list_clusters(ClusterMeasure.PERIODS) == [["1", "2"], ["4", "3"]]
    assert list_clusters(ClusterMeasure.TIMES) == [["1", "2", "4", "3"]]


def test_unneeded_tracks_are_free(four: list[JobProfile]) -> None:
    assert build_lanes_by_job(PartitionedPlacement(), four, 4)["1"].free == (2, 3)
    basic = ProportionalPlacement(spread=False, aggressive=False)
    assert build_lanes_by_job(basic, four, 4)["1"] == TrackLane((0,), (1, 2, 3))  # a load of 0.875


def test_too_few_tracks_are_reported(four: list[JobProfile]) -> None:
    with pytest.raises(InfeasibleSchedule, match="expected the jobs to fit on 1 tracks, found that 2 are needed"):
        build_lanes_by_job(PartitionedPlacement(), four, 1)


def test_uniform_jobs_have_no_guest_tracks() -> None:
    lanes = build_lanes_by_job(PartitionedPlacement(), [profile(str(i), 100, 15) for i in range(20)], 5)
    assert {lane.home for lane in lanes.values()} == {(i,) for i in range(4)}
    assert not any(lane.guest for lane in lanes.values())


def test_proportional_gives_long_jobs_the_first_tracks_and_short_ones_the_rest() -> None:
    jobs = [*(profile(f"s{i}", 100, 10) for i in range(15)), *(profile(f"l{i}", 10_000, 1000) for i in range(15))]
    lanes = build_lanes_by_job(ProportionalPlacement(k=1), jobs, 4)
    assert lanes["l0"] == TrackLane((1, 0), (), (), polite=False)
    assert lanes["s0"] == TrackLane((3, 2), (), (0, 1), polite=False)


def test_a_shared_track_is_the_last_choice_of_the_shorter_jobs() -> None:
    lanes = build_lanes_by_job(
        ProportionalPlacement(k=1), [profile("s", 10, 5), profile("l", 1000, 250)], 2
    )  # loads of 0.5 and 0.25
    assert lanes["l"].home == (0,)
    assert lanes["s"].home == (1, 0)


@pytest.mark.parametrize(("long", "short"), [(1, 1), (1, 6), (3, 2)])
def test_even_shares_need_no_shared_track(long: int, short: int) -> None:
    """Jobs with a load of a third each on as many tracks as jobs; floating-point shares are not exactly even."""
    jobs = [profile(f"s{i}", 3, 1) for i in range(short)] + [profile(f"l{i}", 300, 100) for i in range(long)]
    lanes = build_lanes_by_job(ProportionalPlacement(k=1), jobs, long + short)
    assert sorted(lanes["l0"].home) == list(range(long))
    assert sorted(lanes["s0"].home) == list(range(long, long + short))


def test_an_overload_is_distributed_over_all_tracks() -> None:
    lanes = build_lanes_by_job(
        ProportionalPlacement(spread=False, k=1), [profile("s", 10, 30), profile("l", 1000, 3000)], 4
    )
    assert lanes["l"].home == (1, 0)
    assert lanes["s"].home == (3, 2)


def test_a_single_queue_uses_all_tracks() -> None:
    assert build_lanes_by_job(SingleQueuePlacement(), [profile("a")], 3) == {"a": TrackLane((0, 1, 2))}


@pytest.mark.parametrize("name", PLACEMENTS)
def test_every_job_has_a_home_track(name: str, four: list[JobProfile]) -> None:
    for tracks in (2, 3, 7):
        lanes = build_lanes_by_job(PLACEMENTS[name], four, tracks)
        assert lanes.keys() == {"1", "2", "3", "4"}
        for lane in lanes.values():
            assert lane.home
            assert {*lane.home, *lane.free, *lane.guest} <= set(range(tracks))
