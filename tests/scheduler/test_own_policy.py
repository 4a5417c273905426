"""The policy of the user's guide (docs/dispatching.md), word for word."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tests.scheduler.jobs import arrived, job, told

from tidemill.scheduler.job import Job, JobState
from tidemill.scheduler.sorted_policy import SortedPolicy

GUIDE = Path(__file__).parents[2] / "docs" / "dispatching.md"


class ShortestFirst(SortedPolicy):
    """Whoever is done soonest."""

    def compute_key(self, job: Job) -> float:
        return job.estimated_cost


def test_it_works() -> None:
    tables = [arrived(job("long", cost=9), (0, 1)), arrived(job("short", cost=1), (0, 1))]
    assert told(ShortestFirst(), tables) == ["short", "long"]


def test_the_guide_shows_it_and_its_code_runs() -> None:
    code = Path(__file__).read_text(encoding="utf-8")
    shown = "\n".join(re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL))
    assert code[code.index("class ShortestFirst") : code.index("\n\n\ndef test_it_works")] in shown
    namespace: dict[str, Any] = {}
    exec(shown, namespace)
    assert namespace["mill"].list_states(100.0) == dict.fromkeys(["orders", "catalogue"], JobState.RUNNING)
