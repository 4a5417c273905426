"""The smaller pure parts of the page: run lanes, filters, run requests, the security policy, chart options."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send
from tests.catalog.driver import Driver

from tidemill.errors import NotFound
from tidemill.model.block import BlockState
from tidemill.model.run import Run, RunKind, RunState
from tidemill.model.usage import UsageFigures
from tidemill.ports.records import Event
from tidemill.retention.usage_history import TimeResolution, UsageSplit
from tidemill.runtime.freshness.staleness import StalenessCurve
from tidemill.runtime.runs.requests import request_flow_run
from tidemill.ui import charts
from tidemill.ui.channel import ChannelBlocks
from tidemill.ui.charts import BarSeries
from tidemill.ui.events import MAX_EVENTS, find_matching_events
from tidemill.ui.freshness import build_chart_options
from tidemill.ui.health import HealthState
from tidemill.ui.history import HistoryQuery
from tidemill.ui.policy import ContentSecurityPolicy
from tidemill.ui.run_lanes import build_lanes
from tidemill.ui.sample import format_cell


def run(number: int, started: float | None, finished: float | None, owner: str = "vm:1") -> Run:
    state = RunState.RUNNING if finished is None else RunState.FINISHED
    return Run(number, RunKind.FLOW, "f", state, 1, 1, 0.0, owner, started=started, finished=finished)


def test_runs_that_overlap_need_several_tracks() -> None:
    lanes = build_lanes([run(1, 10, 20), run(2, 15, 30), run(3, 20, 25), run(4, 5, 8, "vm:2")], since=0, now=100)
    actual = [(lane.owner, lane.track, [b.run.id for b in lane.bars]) for lane in lanes]
    assert actual == [("vm:1", 1, [1, 3]), ("vm:1", 2, [2]), ("vm:2", 1, [4])]


def test_backfills_have_separate_lanes() -> None:
    history = replace(run(3, 5, 50), backfill=True)
    lanes = build_lanes([run(1, 10, 20), history, run(2, 20, 30)], since=0, now=100)
    actual = [(lane.name, [b.run.id for b in lane.bars]) for lane in lanes]
    assert actual == [("vm:1 · 1", [1, 2]), ("vm:1 · backfill 1", [3])]


def test_bars_are_cut_at_the_ends_of_the_time_range() -> None:
    (lane,) = build_lanes([run(1, 50, 120), run(2, 160, None), run(3, 10, 90), run(4, None, None)], since=100, now=200)
    assert [(b.run.id, b.left, b.width) for b in lane.bars] == [(1, 0.0, 0.2), (2, 0.6, 0.4)]


def event(number: int, kind: str, subject: str, run: int | None = None) -> Event:
    return Event(number, 0.0, kind, subject, run, {"rows": number})


def test_the_newest_events_with_every_word_are_shown() -> None:
    events = [event(1, "run.failed", "Orders", 7), event(2, "run.finished", "orders"), event(3, "run.failed", "b")]
    assert [e.id for e in find_matching_events(events, "")] == [3, 2, 1]
    assert [e.id for e in find_matching_events(events, "orders FAILED")] == [1]
    assert [e.id for e in find_matching_events(events, "run 7")] == [1]
    assert len(find_matching_events([event(n, "x", "y") for n in range(500)], "x")) == MAX_EVENTS


def test_repeated_clicks_request_one_run(driver: Driver) -> None:
    first = request_flow_run(driver.catalog, "copy")
    assert request_flow_run(driver.catalog, "copy").id == first.id
    detail = driver.catalog.events.list(run=first.id)[0].detail
    assert detail["attempts"] == 1


def test_a_removed_flow_cannot_be_run(driver: Driver) -> None:
    with pytest.raises(NotFound, match="no bound flow 'gone'"):
        request_flow_run(driver.catalog, "gone")


def test_a_cancelled_block_never_became_visible(driver: Driver) -> None:
    claim = driver.open_flow()
    failed = driver.catalog.runs.fail(claim.run.id, claim.run.fencing_token, error="no")
    (cancelled,) = driver.catalog.blocks.list_written(failed.id)
    assert ChannelBlocks((cancelled,), {failed.id: failed}).find_visible_time(cancelled) is None


def test_a_long_cell_is_cut() -> None:
    assert len(format_cell("x" * 1000)) < 400


def test_a_chart_chooses_its_unit_and_draws_its_texts() -> None:
    options = build_chart_options(
        (StalenessCurve("<b>t</b>", ((100.0, 600.0), (160.0, 0.0))),), now=160.0, length=240.0
    )
    assert options["yAxis"]["name"] == "minutes"
    assert options["series"][0]["data"] == [[1.0, 10.0], [0.0, 0.0]]
    assert options["tooltip"]["renderMode"] == "richText"


def send_response(kind: bytes, parts: list[bytes]) -> tuple[dict[bytes, bytes], bytes]:
    async def application(_scope: Scope, _receive: Receive, send: Send) -> None:
        length = str(sum(map(len, parts))).encode()
        headers = [(b"content-type", kind), (b"content-length", length)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for number, part in enumerate(parts):
            more = number + 1 < len(parts)
            await send({"type": "http.response.body", "body": part, "more_body": more})

    sent: list[Message] = []
    asyncio.run(_call(ContentSecurityPolicy(application), sent))
    body = b"".join(m["body"] for m in sent[1:])
    return dict(sent[0]["headers"]), body


async def _call(application: Callable[..., Awaitable[None]], sent: list[Message]) -> None:
    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        raise AssertionError("nothing is received")

    scope: dict[str, Any] = {"type": "http"}
    await application(scope, receive, send)


def test_every_page_has_a_new_nonce() -> None:
    headers, body = send_response(b"text/html; charset=utf-8", [b"<scr", b"ipt>1</script>&lt;script>"])
    policy = headers[b"content-security-policy"].decode()
    nonce = policy.partition("'nonce-")[2].partition("'")[0]
    assert body == f'<script nonce="{nonce}">1</script>&lt;script>'.encode()
    assert headers[b"content-length"] == str(len(body)).encode()
    again, _ = send_response(b"text/html", [b""])
    assert again[b"content-security-policy"] != headers[b"content-security-policy"]


def test_other_content_is_not_changed() -> None:
    headers, body = send_response(b"text/javascript", [b"'<script'", b";"])
    assert body == b"'<script';"
    assert b"content-security-policy" not in headers


def test_bars_are_stacked_in_the_unit_that_fits_the_highest() -> None:
    figures = [UsageFigures(0.0, seconds=3600.0, saved_seconds=7200.0), UsageFigures(86_400.0, seconds=1800.0)]
    parts = (BarSeries("took", "blue", lambda f: f.seconds), BarSeries("saved", "green", lambda f: f.saved_seconds))
    options = charts.build_chart_options(figures, TimeResolution.DAY, parts, charts.choose_time_unit)
    assert options["xAxis"]["data"] == ["01 Jan", "02 Jan"]
    assert options["yAxis"]["name"] == "hours"
    assert [(s["name"], s["data"]) for s in options["series"]] == [("took", [1.0, 0.5]), ("saved", [2.0, 0.0])]


def test_a_history_query_is_in_the_url_and_covers_several_periods() -> None:
    query = HistoryQuery(TimeResolution.MONTH, UsageSplit.USER, workflow="a b")
    assert query.url == "/history?by=month&per=user&workflow=a+b"
    year = 366 * 86_400
    assert query.compute_period(10 * year).since == pytest.approx(6 * year, abs=year)


@pytest.mark.parametrize("state", [*RunState, *BlockState, *HealthState])
def test_every_state_has_a_colour(state: str) -> None:
    style = Path(charts.__file__).with_name("style.css").read_text()
    assert re.search(rf"\.tone-{state}\b[^{{]*{{ --tone:", style)
