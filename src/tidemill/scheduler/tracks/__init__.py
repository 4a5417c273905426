"""The placements, and the words for them."""

from __future__ import annotations

from collections.abc import Mapping

from tidemill.scheduler.tracks.lane import Placement, SingleQueue
from tidemill.scheduler.tracks.partitioned import Partitioned
from tidemill.scheduler.tracks.proportional import Proportional

PLACEMENTS: Mapping[str, Placement] = {
    "single": SingleQueue(),
    "partitioned": Partitioned(),
    "partitioned-aggressive": Partitioned(aggressive=True),
    "proportional-basic": Proportional(spread=False, aggressive=False),
    "proportional-all": Proportional(aggressive=False),
    "proportional": Proportional(),
}
"""Those that can be named in settings and on the command line."""
