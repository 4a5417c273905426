"""Where jobs may run: the example of the paper's section 3.2.4, and what it leaves open."""

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


def lanes_of(placement: TrackPlacement, profiles: Sequence[JobProfile], tracks: int) -> dict[str, TrackLane]:
    return {p.name: lane for lane, shared in placement.build_lanes(profiles, tracks) for p in shared}


@pytest.fixture
def four() -> list[JobProfile]:
    return [profile("1", 4, 1), profile("2", 4, 1), profile("3", 8, 2), profile("4", 10, 1.25)]


def test_edf_partitioning_of_3_2_4(four: list[JobProfile]) -> None:
    lanes = lanes_of(PartitionedPlacement(), four, 2)
    assert {name: lane.home for name, lane in lanes.items()} == {"1": (0,), "2": (0,), "3": (1,), "4": (1,)}
    assert {name for name, lane in lanes.items() if lane.guest} == {"4"}
    assert lanes["4"].guest == (0,)


def test_proportional_partitioning_of_3_2_4(four: list[JobProfile]) -> None:
    """The paper counts tracks from the other end: its 1 is our 1, and its 2, which is shared, our 0."""
    lanes = lanes_of(ProportionalPlacement(spread=True, k=2, measure=ClusterMeasure.PERIODS), four, 2)
    assert lanes["1"].home == lanes["2"].home == (1, 0)
    assert lanes["3"].home == lanes["4"].home == (0,)


def test_clusters_as_printed_and_as_in_the_example(four: list[JobProfile]) -> None:
    def found(alike: ClusterMeasure) -> list[list[str]]:
        return [[job.name for job in group] for group in cluster_jobs(four, 2, alike)]

    assert found(ClusterMeasure.PERIODS) == [["1", "2"], ["4", "3"]]
    assert found(ClusterMeasure.TIMES) == [["1", "2", "4", "3"]]


def test_tracks_that_are_not_needed_are_free(four: list[JobProfile]) -> None:
    assert lanes_of(PartitionedPlacement(), four, 4)["1"].free == (2, 3)
    basic = ProportionalPlacement(spread=False, aggressive=False)
    assert lanes_of(basic, four, 4)["1"] == TrackLane((0,), (1, 2, 3))  # a load of 0.875


def test_too_few_tracks_are_named(four: list[JobProfile]) -> None:
    with pytest.raises(InfeasibleSchedule, match="expected the jobs to fit on 1 tracks, found that 2 are needed"):
        lanes_of(PartitionedPlacement(), four, 1)


def test_uniform_jobs_cannot_be_guests_of_each_other() -> None:
    lanes = lanes_of(PartitionedPlacement(), [profile(str(i), 100, 15) for i in range(20)], 5)
    assert {lane.home for lane in lanes.values()} == {(i,) for i in range(4)}
    assert not any(lane.guest for lane in lanes.values())


def test_proportional_gives_long_jobs_the_first_tracks_and_short_ones_the_rest() -> None:
    jobs = [*(profile(f"s{i}", 100, 10) for i in range(15)), *(profile(f"l{i}", 10_000, 1000) for i in range(15))]
    lanes = lanes_of(ProportionalPlacement(k=1), jobs, 4)
    assert lanes["l0"] == TrackLane((1, 0), (), (), polite=False)
    assert lanes["s0"] == TrackLane((3, 2), (), (0, 1), polite=False)


def test_a_shared_track_is_home_of_both_and_tried_last_by_the_shorter() -> None:
    lanes = lanes_of(
        ProportionalPlacement(k=1), [profile("s", 10, 5), profile("l", 1000, 250)], 2
    )  # loads of 0.5 and 0.25
    assert lanes["l"].home == (0,)
    assert lanes["s"].home == (1, 0)


@pytest.mark.parametrize(("long", "short"), [(1, 1), (1, 6), (3, 2)])
def test_shares_that_come_out_even_are_not_shared(long: int, short: int) -> None:
    """Jobs of a load of a third on as many tracks as there are jobs; in floating point shares are not quite even."""
    jobs = [profile(f"s{i}", 3, 1) for i in range(short)] + [profile(f"l{i}", 300, 100) for i in range(long)]
    lanes = lanes_of(ProportionalPlacement(k=1), jobs, long + short)
    assert sorted(lanes["l0"].home) == list(range(long))
    assert sorted(lanes["s0"].home) == list(range(long, long + short))


def test_more_load_than_tracks_is_shared_out_all_the_same() -> None:
    lanes = lanes_of(ProportionalPlacement(spread=False, k=1), [profile("s", 10, 30), profile("l", 1000, 3000)], 4)
    assert lanes["l"].home == (1, 0)
    assert lanes["s"].home == (3, 2)


def test_one_queue() -> None:
    assert lanes_of(SingleQueuePlacement(), [profile("a")], 3) == {"a": TrackLane((0, 1, 2))}


@pytest.mark.parametrize("name", PLACEMENTS)
def test_every_job_has_a_home_on_the_tracks_there_are(name: str, four: list[JobProfile]) -> None:
    for tracks in (2, 3, 7):
        lanes = lanes_of(PLACEMENTS[name], four, tracks)
        assert lanes.keys() == {"1", "2", "3", "4"}
        for lane in lanes.values():
            assert lane.home
            assert {*lane.home, *lane.free, *lane.guest} <= set(range(tracks))
