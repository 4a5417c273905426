"""The page in a real browser, on a real server."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright
from tests.ui.project_server import NODES, ProjectServer, start_project_server, start_worker
from tests.ui.site import LOCK, REVOKED

from tidemill.app.wiring import Tidemill
from tidemill.model.run import ClaimRequest
from tidemill.model.schema import Schema
from tidemill.model.submission import ActionResult
from tidemill.runtime.runs.requests import request_flow_run

CHROMIUM = shutil.which("chromium")
ARGUMENTS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
PAGES = (
    "/",
    "/runs",
    "/runs/1",
    "/freshness",
    "/history?by=minute&per=task",
    "/storage",
    "/triggers",
    "/servers",
    "/events",
    "/audit",
    "/channels/city_totals",
    "/blocks/10?depth=5",
    "/flows/firsts",
)
SLOW = 20_000  # milliseconds; long enough for a busy machine

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="chromium is not installed; on Debian: apt-get install chromium"
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    expect.set_options(timeout=SLOW)
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        yield running
        running.close()


@pytest.fixture(scope="module")
def shop(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProjectServer]:
    """A server on a project whose tables are all fresh."""
    with start_project_server(tmp_path_factory.mktemp("shop"), browser) as server:
        with server.open_project() as mill:
            mill.apply()
        server.insert_data()
        with server.page() as page:
            expect_all_fresh(page)
        yield server


@pytest.fixture
def empty(browser: Browser, tmp_path: Path) -> Iterator[ProjectServer]:
    with start_project_server(tmp_path, browser) as server:
        yield server


def expect_card(page: Page, name: str, tone: str) -> None:
    card = page.locator(f".card.tone-{tone}").filter(has=page.get_by_role("link", name=name, exact=True))
    expect(card.first).to_be_visible()


def expect_all_fresh(page: Page) -> None:
    expect(page.locator(".card.tone-fresh")).to_have_count(NODES)


def test_the_graph_shows_empty_fresh_and_failed_tables(empty: ProjectServer) -> None:
    with empty.page() as page:
        expect(page.get_by_text("Nothing is registered yet")).to_be_visible()
        expect(page.get_by_text("tidemill apply")).to_be_visible()
        with empty.open_project() as mill:
            mill.apply()
        expect(page.locator(".card.tone-empty")).to_have_count(NODES)
        expect(page.get_by_text("tidemill insert cities FILE")).to_be_visible()

        empty.insert_data()
        expect_all_fresh(page)

        empty.failure_file.touch()
        empty.insert_data()
        expect_card(page, "large_orders", "failed")
        expect_card(page, "city_totals", "waiting")
        expect(page.locator(".card.tone-failed")).to_contain_text("<img src=x onerror=alert(1)> is no amount")

        empty.failure_file.unlink()
        page.get_by_role("link", name="large_orders", exact=True).click()
        page.get_by_role("link", name="large_orders", exact=True).first.click()
        page.get_by_role("button", name="Run").click()
        expect(page.locator(".heading .badge")).to_have_text("fresh")
        page.get_by_role("link", name="Graph").click()
        expect_all_fresh(page)


@pytest.mark.long
def test_a_late_table_turns_red_and_recovers(browser: Browser, tmp_path: Path) -> None:
    with start_project_server(tmp_path, browser, "page") as server, server.page() as page:
        with server.open_project() as mill:
            mill.apply()
        with start_worker(tmp_path) as working:
            server.insert_data()
            expect_all_fresh(page)
            working.kill()  # from here on no server executes runs

        server.insert_data()
        expect_card(page, "large_orders", "waiting")
        expect_card(page, "large_orders", "late")
        expect(page.locator(".card.tone-late").first).to_contain_text("ago")

        with start_worker(tmp_path) as working:
            expect_all_fresh(page)
            working.kill()


def test_hostile_text_is_escaped(shop: ProjectServer) -> None:
    with shop.page("/channels/%3Cimg%20src=x%20onerror=alert(1)%3E") as page:
        expect(page.get_by_text("No channel '<img src=x onerror=alert(1)>' is registered.")).to_be_visible()
        shop.go(page, "/runs/3")
        expect(page.locator(".log").last).to_contain_text("<b>large_orders</b> begins")
        assert page.locator("img").count() == 0


def test_every_page_can_be_reached_by_links(shop: ProjectServer) -> None:
    with shop.page() as page:
        for name in ("Runs", "Freshness", "History", "Storage", "Triggers", "Servers", "Events", "Graph"):
            page.get_by_role("navigation", name="Pages").get_by_role("link", name=name).click()
            expect(page).to_have_title(f"{name} · Tidemill")
            expect(page.get_by_role("heading", level=1)).to_be_attached()
        expect(page.locator(".card")).to_have_count(NODES)
        page.get_by_role("link", name="Show state channels").click()
        expect(page.get_by_role("link", name="city_totals.state1")).to_be_visible()


def test_the_page_of_a_channel_is_complete(shop: ProjectServer) -> None:
    with shop.page("/channels/city_totals") as page:
        expect(page.get_by_role("table", name="Schema")).to_contain_text("total")
        expect(page.get_by_role("table", name="Provenance")).to_contain_text("orders › large_orders")
        expect(page.get_by_role("table", name="Variants")).to_contain_text("would run")
        expect(page.get_by_role("table", name="Blocks")).to_contain_text("base")
        expect(page.get_by_role("table", name="Runs")).to_contain_text("finished")
        expect(page.get_by_role("table", name="Newest rows")).to_contain_text("land")
        page.get_by_role("button", name="Show 20 rows").click()
        expect(page.get_by_role("table", name="Sample")).to_contain_text("land1")


def test_a_block_is_traced_over_several_steps(shop: ProjectServer) -> None:
    with shop.page("/channels/orders") as page:
        blocks = page.get_by_role("table", name="Blocks")
        blocks.get_by_role("row").filter(has_text="insert").get_by_role("link").first.click()
        derived = page.get_by_role("table", name="Derived blocks")
        expect(derived).to_contain_text("large_orders")
        expect(derived).not_to_contain_text("city_totals")
        page.get_by_role("link", name="5 steps").click()
        expect(derived).to_contain_text("firsts")


def test_a_flow_is_shown_with_its_runs(shop: ProjectServer) -> None:
    with shop.page("/flows/large_orders") as page:
        expect(page.get_by_role("table", name="Triggers")).to_contain_text("data on orders")
        expect(page.locator(".log")).to_contain_text("rows to large_orders")
        page.get_by_role("table", name="Runs").get_by_role("link").first.click()
        expect(page.get_by_role("table", name="Read")).to_contain_text("orders")
        expect(page.get_by_role("table", name="Blocks")).to_contain_text("large_orders")
        shop.go(page, "/runs?state=failed")
        expect(page.get_by_text("no runs")).to_be_visible()


@pytest.mark.long
def test_run_lanes_and_charts_are_drawn(shop: ProjectServer) -> None:
    with shop.open_project() as mill:
        history = request_flow_run(mill.catalog, "large_orders", backfill=True)
    with shop.page("/runs") as page:
        lanes = page.locator(".lane")
        live = lanes.filter(has=page.locator(".lane-name", has_text=re.compile(r"· \d+$")))
        expect(live.get_by_role("link", name="of large_orders: finished").first).to_be_visible()
        backfills = lanes.filter(has=page.locator(".lane-name", has_text="backfill 1"))
        expect(backfills.get_by_role("link", name=f"backfill {history.id} of large_orders: finished")).to_be_visible()
        shop.go(page, "/freshness")
        for chart in ("Each table", "All tables together, each by its priority"):
            image = page.get_by_role("img", name=chart)
            expect(image.locator("svg text", has_text="minutes ago")).to_be_visible()
        expect(image.locator("svg text", has_text="all tables")).to_be_visible()
        expect(page.get_by_role("table", name="Now")).to_contain_text("city_totals")


@pytest.mark.long
def test_stored_datasets_and_the_usage_history_are_shown(browser: Browser, tmp_path: Path) -> None:
    with start_project_server(tmp_path, browser, "page") as server, server.page("/storage") as page:
        expect(page.get_by_text("nothing").first).to_be_visible()
        with server.open_project() as mill:
            commit_datasets(mill)
        stored = page.get_by_role("table", name="Stored")
        expect(stored).to_contain_text("leaf of counting")
        expect(stored).to_contain_text("until space is short")
        page.get_by_role("button", name="Pin", exact=True).last.click()
        expect(stored).to_contain_text("pinned: it stays until it is unpinned")
        with server.page("/storage", viewer="operator") as operator_page:
            expect(operator_page.get_by_role("table", name="Stored")).to_contain_text("leaf of counting")
            expect(operator_page.get_by_role("button", name="Pin")).to_have_count(0)  # nor "Unpin"

        server.go(page, "/history?by=day&per=task&workflow=counting")
        expect(page.get_by_role("table", name="History")).to_contain_text("counting/words")
        expect(page.locator(".chart svg text", has_text="computed")).to_be_visible()
        expect(page.get_by_text("workflow counting")).to_be_visible()


def commit_datasets(mill: Tidemill) -> None:
    """Submit a workflow and commit its actions directly, because no server executes runs here."""
    words = {"id": 1, "name": "words", "type": "spark-sql", "query": "SELECT 'a' AS word"}
    counts = {"id": 2, "name": "counts", "type": "spark-sql", "query": "SELECT 1", "parentActions": [{"id": 1}]}
    document = {"name": "counting", "startActionId": 1, "endActionId": 2, "actions": [words, counts]}
    mill.oneshot_service.submit_workflow(json.dumps(document), "ada")
    for seconds in (2.0, 1.0):
        (ready,) = mill.catalog.runs.list_runnable()
        claim = mill.catalog.runs.claim(ready.id, ClaimRequest(), owner="test", lease=60.0)
        mill.catalog.datasets.commit(claim, ActionResult(Schema(()), (), seconds))


@pytest.mark.long
def test_events_are_filtered_while_typing(shop: ProjectServer) -> None:
    with shop.page("/events") as page:
        table = page.get_by_role("table", name="Events")
        expect(table).to_contain_text("channel.registered")
        page.get_by_label("Filter").fill("trigger.fired firsts")
        expect(table).not_to_contain_text("channel.registered")
        expect(table).to_contain_text("large_orders completed")


def test_pausing_and_killing_need_confirmation(shop: ProjectServer) -> None:
    with shop.page("/triggers") as page:
        state = page.get_by_role("table", name="Workflows")
        page.get_by_role("button", name="Pause").click()
        expect(page.get_by_role("button", name="Cancel")).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.get_by_role("dialog")).to_have_count(0)
        expect(state).to_contain_text("active")

        page.get_by_role("button", name="Pause").click()
        page.get_by_role("dialog").get_by_role("button", name="Pause").click()
        expect(state).to_contain_text("paused")
        shop.go(page, "/flows/firsts")
        expect(page.locator(".heading .badge")).to_have_text("paused")

        page.get_by_role("button", name="Run").click()
        shop.go(page, "/runs?state=ready")
        page.get_by_role("button", name="Kill").click()
        page.get_by_role("dialog").get_by_role("button", name="Kill").click()
        expect(page.get_by_text("no runs")).to_be_visible()

        shop.go(page, "/triggers")
        page.get_by_role("button", name="Resume").click()
        expect(state).to_contain_text("active")


@pytest.mark.long
def test_maintenance_is_paused_resumed_and_run(shop: ProjectServer) -> None:
    with shop.page("/storage") as page:
        expect(page.get_by_text("Maintenance is automatic.")).to_be_visible()
        page.get_by_role("button", name="Pause").click()
        page.get_by_role("dialog").get_by_role("button", name="Pause").click()
        expect(page.get_by_text("Maintenance is paused.")).to_be_visible()
        page.get_by_role("button", name="Resume").click()
        expect(page.get_by_text("Maintenance is automatic.")).to_be_visible()
        page.get_by_role("button", name="Run now").click()
        expect(page.get_by_text("The due maintenance is done")).to_be_visible()
        shop.go(page, "/channels/orders")
        page.get_by_role("button", name="Compact").click()
        expect(page.get_by_text("orders: compacted to 20 rows")).to_be_visible()
    with shop.page("/storage", viewer="operator") as page:
        expect(page.get_by_text("Maintenance is automatic.")).to_be_visible()
        expect(page.get_by_role("button", name="Run now")).to_have_count(0)


def test_a_guest_sees_no_buttons(shop: ProjectServer) -> None:
    with shop.page("/flows/firsts", viewer="guest") as page:
        expect(page.get_by_text("guest")).to_be_visible()
        expect(page.get_by_role("table", name="Runs")).to_be_visible()
        for name in ("Run", "Kill", "Pause workflow", "Resume workflow"):
            expect(page.get_by_role("button", name=name, exact=True)).to_have_count(0)
        shop.go(page, "/triggers")
        expect(page.get_by_role("button", name="Pause")).to_have_count(0)
        shop.go(page, "/channels/orders")
        expect(page.get_by_role("table", name="Blocks")).to_be_visible()
        expect(page.get_by_role("button", name="Compact")).to_have_count(0)


def test_a_revoked_permission_is_checked_at_the_click(shop: ProjectServer) -> None:
    lock = shop.project / LOCK
    with shop.page("/flows/firsts") as page:
        lock.touch()
        page.get_by_role("button", name="Run").click()
        expect(page.get_by_text("You may not do that")).to_be_visible()
        lock.unlink()


@pytest.mark.long
def test_a_demoted_viewer_loses_the_actions_and_logs_of_an_open_page(shop: ProjectServer) -> None:
    lock = shop.project / LOCK
    with shop.page("/flows/firsts") as page:
        expect(page.get_by_role("heading", name="Log of the last run")).to_be_visible()
        lock.touch()
        expect(page.get_by_role("button", name="Run", exact=True)).to_have_count(0)
        expect(page.get_by_role("heading", name="Log of the last run")).to_have_count(0)
        lock.unlink()
        expect(page.get_by_role("button", name="Run", exact=True)).to_be_visible()


def test_a_page_whose_token_was_revoked_is_logged_out(shop: ProjectServer) -> None:
    revoked = shop.project / REVOKED
    with shop.page("/runs") as page:
        revoked.touch()
        expect(page.get_by_text("logged out")).to_be_visible()
        revoked.unlink()


def test_only_admins_see_the_audit_log(shop: ProjectServer) -> None:
    with shop.page("/audit", viewer="operator") as page:
        expect(page.get_by_text("Only admins see the audit log")).to_be_visible()
        expect(page.get_by_role("link", name="Audit log")).to_have_count(0)
        expect(page.get_by_role("table", name="Audit log")).to_have_count(0)


@pytest.mark.long
def test_the_keyboard_reaches_a_card_and_opens_it(shop: ProjectServer) -> None:
    with shop.page() as page:
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to content"
        page.keyboard.press("Enter")
        for _ in range(10):
            page.keyboard.press("Tab")
            if "card-name" in page.evaluate("document.activeElement.className"):
                break
        page.keyboard.press("Enter")
        expect(page.get_by_text("channel", exact=True)).to_be_visible()


CONTRAST = """() => {
  const parsed = text => (text.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => [r, g, b]
    .map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = e => {
    for (; e; e = e.parentElement) {
      const c = parsed(getComputedStyle(e).backgroundColor);
      if (c.length === 3 || c[3] === 1) return c;
    }
    return [255, 255, 255];
  };
  const own = e => [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
  return [...document.querySelectorAll('body *')].filter(e => own(e) && e.checkVisibility()).map(e => {
    const [a, b] = [light(parsed(getComputedStyle(e).color)), light(behind(e))].sort((x, y) => y - x);
    return [(a + 0.05) / (b + 0.05), e.tagName + ' ' + e.className + ': ' + e.textContent.slice(0, 40)];
  }).filter(([ratio]) => ratio < 4.5);
}"""


@pytest.mark.long
def test_every_page_fits_a_phone_and_has_enough_contrast(shop: ProjectServer) -> None:
    with shop.page(width=390) as page:
        for path in PAGES:
            page.set_viewport_size({"width": 390, "height": 844})
            shop.go(page, path)
            assert (path, page.evaluate("document.documentElement.scrollWidth")) == (path, 390)
            page.set_viewport_size({"width": 1280, "height": 844})
            assert (path, find_low_contrast(page, "light")) == (path, [])
            assert (path, find_low_contrast(page, "dark")) == (path, [])


def find_low_contrast(page: Page, scheme: Literal["light", "dark"]) -> list[object]:
    """Texts whose contrast to their background is too low."""
    page.emulate_media(color_scheme=scheme)
    expect(page.locator(f"body.body--{scheme}")).to_be_attached()
    page.wait_for_function("document.getAnimations().every(a => a.playState !== 'running')")
    texts: list[object] = page.evaluate(CONTRAST)
    return texts


@pytest.mark.long
def test_the_theme_is_remembered(shop: ProjectServer) -> None:
    with shop.page() as page:
        page.get_by_role("button", name="Theme: auto").click()
        page.get_by_role("button", name="Theme: light").click()
        expect(page.locator("body.body--dark")).to_be_attached()
        shop.go(page, "/runs")
        expect(page.get_by_role("button", name="Theme: dark")).to_be_visible()
        expect(page.locator("body.body--dark")).to_be_attached()
