"""The example policy of the user's guide (docs/scheduling.md), word for word."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tests.scheduler.jobs import JobState, add_batches, job, list_states, rank_ready_jobs

from tidemill.scheduler.job import Job
from tidemill.scheduler.sorted_policy import SortedPolicy

GUIDE = Path(__file__).parents[2] / "docs" / "scheduling.md"


class ShortestFirst(SortedPolicy):
    """Runs the shortest job first."""

    def compute_key(self, job: Job) -> float:
        return job.estimated_cost


def test_the_shortest_job_runs_first() -> None:
    tables = [add_batches(job("long", cost=9), (0, 1)), add_batches(job("short", cost=1), (0, 1))]
    assert rank_ready_jobs(ShortestFirst(), tables) == ["short", "long"]


def test_the_guide_contains_the_policy_and_its_code_runs() -> None:
    code = Path(__file__).read_text(encoding="utf-8")
    guide_code = "\n".join(re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL))
    assert (
        code[code.index("class ShortestFirst") : code.index("\n\n\ndef test_the_shortest_job_runs_first")] in guide_code
    )
    namespace: dict[str, Any] = {}
    exec(guide_code, namespace)
    assert list_states(namespace["dispatcher"], 100.0) == dict.fromkeys(["orders", "catalogue"], JobState.RUNNING)
