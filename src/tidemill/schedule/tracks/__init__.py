"""The placements, and the words for them."""

from __future__ import annotations

from collections.abc import Mapping

from tidemill.schedule.tracks.lane import Placement
from tidemill.schedule.tracks.partitioned import Partitioned
from tidemill.schedule.tracks.proportional import Proportional
from tidemill.schedule.tracks.single import SingleQueue

PLACEMENTS: Mapping[str, Placement] = {
    "single": SingleQueue(),
    "partitioned": Partitioned(),
    "partitioned-aggressive": Partitioned(aggressive=True),
    "proportional-basic": Proportional(spread=False, aggressive=False),
    "proportional-all": Proportional(aggressive=False),
    "proportional": Proportional(),
}
"""Those that can be named in settings and on the command line."""
