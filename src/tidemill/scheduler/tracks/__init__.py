"""The track placements, by name."""

from collections.abc import Mapping

from tidemill.scheduler.tracks.lane import SingleQueuePlacement, TrackPlacement
from tidemill.scheduler.tracks.partitioned import PartitionedPlacement
from tidemill.scheduler.tracks.proportional import ProportionalPlacement

PLACEMENTS: Mapping[str, TrackPlacement] = {
    "single": SingleQueuePlacement(),
    "partitioned": PartitionedPlacement(),
    "partitioned-aggressive": PartitionedPlacement(aggressive=True),
    "proportional-basic": ProportionalPlacement(spread=False, aggressive=False),
    "proportional-all": ProportionalPlacement(aggressive=False),
    "proportional": ProportionalPlacement(),
}
"""Placements that can be named in settings and on the command line."""
