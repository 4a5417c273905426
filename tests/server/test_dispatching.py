"""How servers choose, over the API; figures for people and for monitoring."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.server.mill import Served, served

from tidemill.model.run import RunKind
from tidemill.runtime.maintenance.service import OVERRIDE, PAUSED


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("shop")) as found:
        found.insert()
        found.run()
        yield found


def test_a_policy_is_wished_and_taken_back(shop: Served) -> None:
    client = shop.client()
    changed = client.put("/dispatching", json={"policy": "edf", "tracks": 3}).json()
    assert (changed["policy"], changed["tracks"], client.get("/dispatching").json()) == ("edf", 3, changed)
    refused = client.put("/dispatching", json={"policy": "best"})
    assert (refused.status_code, "expected a policy among" in refused.json()["error"]["message"]) == (422, True)
    assert client.get("/dispatching").json() == changed
    assert client.put("/dispatching", json={}).json()["policy"] == "max-benefit"


def test_figures_of_tasks(shop: Served) -> None:
    (words,) = shop.client().get("/statistics").json()["tasks"]
    assert (words["task"], words["runs"], words["queue"]) == ("words", 1, 0)
    assert words["seconds"] >= 0
    text = shop.client().get("/metrics").text
    assert 'tidemill_task_waiting_blocks{flow="words",task="words"} 0' in text.splitlines()
    assert "# TYPE tidemill_table_staleness_seconds gauge" in text
    assert "tidemill_weighted_staleness_seconds 0" in text.splitlines()


def test_what_upkeep_keeps_down_is_among_the_figures(shop: Served) -> None:
    catalog = shop.mill.catalog
    catalog.request_run(RunKind.COMPACTION, "words")
    lines = shop.client().get("/metrics").text.splitlines()
    assert 'tidemill_active_runs{kind="compaction",state="ready"} 1' in lines
    assert f'tidemill_channel_blocks{{channel="words"}} {catalog.read_channel("words").blocks}' in lines
    assert "tidemill_upkeep_paused 0" in lines
    catalog.override_settings({OVERRIDE: PAUSED})
    assert "tidemill_upkeep_paused 1" in shop.client().get("/metrics").text.splitlines()
