"""The periodic work of a leading server."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.server.mill import serve_project

from tidemill.app import serving
from tidemill.model.notice import AlarmReading

MISSED = AlarmReading(True, {"pathway": ["orders"], "staleness": 95.0, "target_lag": 60.0})
EXCEEDED = AlarmReading(True, {"used_bytes": 95, "budget_bytes": 100, "threshold_bytes": 90})


def test_the_leader_records_missed_targets_and_exceeded_budgets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "read_target_alarms", lambda _: {"words": MISSED})
    monkeypatch.setattr(serving, "read_storage_alarms", lambda _: {"datasets": EXCEEDED})
    with serve_project(tmp_path) as shop:
        loop = serving.build_server_loop(shop.mill, "up")
        loop.tick()
        loop.drain()
        loop.run()
        kinds = {event.kind for event in shop.mill.catalog.events.list_newest(100)}
    assert {"target.missed", "storage.exceeded"} <= kinds
