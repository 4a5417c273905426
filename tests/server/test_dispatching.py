"""The dispatching settings over the API, task statistics and metrics."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.server.mill import ServedProject, serve_project

from tidemill.model.run import RunKind
from tidemill.runtime.maintenance.service import OVERRIDE, PAUSED


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedProject]:
    with serve_project(tmp_path_factory.mktemp("shop")) as project:
        project.insert()
        project.run()
        yield project


def test_a_policy_is_overridden_and_reset(shop: ServedProject) -> None:
    client = shop.client()
    changed = client.put("/dispatching", json={"policy": "edf", "tracks": 3}).json()
    assert (changed["policy"], changed["tracks"], client.get("/dispatching").json()) == ("edf", 3, changed)
    rejected = client.put("/dispatching", json={"policy": "best"})
    assert (rejected.status_code, "expected a policy among" in rejected.json()["error"]["message"]) == (422, True)
    assert client.get("/dispatching").json() == changed
    assert client.put("/dispatching", json={}).json()["policy"] == "max-benefit"


def test_statistics_and_metrics_of_tasks(shop: ServedProject) -> None:
    (words,) = shop.client().get("/statistics").json()["tasks"]
    assert (words["task"], words["runs"], words["queue"]) == ("words", 1, 0)
    assert words["seconds"] >= 0
    text = shop.client().get("/metrics").text
    assert 'tidemill_task_pending_blocks{flow="words",task="words"} 0' in text.splitlines()
    assert "# TYPE tidemill_table_staleness_seconds gauge" in text
    assert "tidemill_weighted_staleness_seconds 0" in text.splitlines()


def test_metrics_include_blocks_and_maintenance(shop: ServedProject) -> None:
    catalog = shop.mill.catalog
    catalog.runs.request(RunKind.COMPACTION, "words")
    lines = shop.client().get("/metrics").text.splitlines()
    assert 'tidemill_active_runs{kind="compaction",state="ready"} 1' in lines
    assert f'tidemill_channel_blocks{{channel="words"}} {catalog.channels.read("words").blocks}' in lines
    assert "tidemill_maintenance_paused 0" in lines
    catalog.servers.override_settings({OVERRIDE: PAUSED})
    assert "tidemill_maintenance_paused 1" in shop.client().get("/metrics").text.splitlines()
