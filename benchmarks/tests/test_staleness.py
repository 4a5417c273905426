"""The verdict on a live server with two policies."""

from __future__ import annotations

import pytest
from benchmarks.staleness import FIRST, SECOND, Phase, _summarize


@pytest.mark.parametrize(
    ("first", "second", "predicted", "verdicts"),
    [
        (150.0, 100.0, 1.4, [True, True]),
        (100.0, 150.0, 1.2, [False, True]),  # the policies swapped
        (100.0, 100.0, 1.0, [False, True]),
        (150.0, 100.0, 3.1, [True, False]),
        (450.0, 100.0, 2.0, [True, False]),
    ],
)
def test_the_verdict_can_fail(first: float, second: float, predicted: float, verdicts: list[bool]) -> None:
    phases = [Phase(policy, 0.0, 1.0, staleness, 0.5, 3) for policy, staleness in ((FIRST, first), (SECOND, second))]
    document = _summarize(phases, {FIRST: predicted, SECOND: 1.0}, 1.0)
    assert [claim["holds"] for claim in document["claims"]] == verdicts
    assert document["holds"] == all(verdicts)
    assert document["parameters"]["arrivals"]
