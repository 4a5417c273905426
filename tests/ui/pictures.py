"""Takes the documentation's screenshots: `python -m tests.ui.pictures`. It needs chromium and Spark."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, expect, sync_playwright
from tests.ui import gallery

from tidemill.app.settings import SETTINGS_FILE
from tidemill.app.wiring import Tidemill
from tidemill.model.run import ACTIVE_STATES, PENDING_STATES

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "images"
PICTURES = (  # name, path, width, height
    ("page-graph", "/", 1280, 580),
    ("page-table", "/channels/ranked", 1280, 940),
    ("page-runs", "/runs", 1280, 760),
    ("page-phone", "/", 390, 844),
)
BATCHES = 4


def main() -> None:
    with tempfile.TemporaryDirectory() as directory, _start_server(Path(directory)) as url:
        _insert_data(Path(directory))
        with sync_playwright() as playwright:
            chromium = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            for picture in PICTURES:
                _take_screenshot(chromium, url, *picture)
            chromium.close()


@contextmanager
def _start_server(project: Path) -> Iterator[str]:
    (project / SETTINGS_FILE).write_text('[spark]\nmaster = "local[2]"\n')
    shutil.copy(gallery.__file__, project / "workflow.py")
    command = [sys.executable, "-m", "tests.ui.site", str(project), "spark"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        yield f"http://127.0.0.1:{int(server.stdout.readline())}"
        server.stdin.close()


def _insert_data(project: Path) -> None:
    """Insert several batches of pages and clicks."""
    chance = random.Random(7)
    sites = [f"site{i}.example" for i in range(12)]
    with Tidemill.open(project) as mill:
        mill.apply()
        _insert(mill, "owners", ["site,owner"] + [f"{s},owner{i % 4}" for i, s in enumerate(sites)])
        for batch in range(BATCHES):
            pages = (f"https://{chance.choice(sites)}/{batch}-{i}" for i in range(400))
            bodies = [f"{url},{url.split('/')[2]},text {chance.randrange(900)}" for url in pages]
            _insert(mill, "pages", ["url,site,body", *bodies])
            _insert(
                mill, "clicks", ["user,site"] + [f"{chance.randrange(300)},{chance.choice(sites)}" for _ in range(2000)]
            )
            _wait_until_idle(mill)


def _insert(mill: Tidemill, channel: str, lines: list[str]) -> None:
    file = mill.directory / f"{channel}.csv"
    file.write_text("\n".join(lines) + "\n")
    mill.insert(channel, file)


def _wait_until_idle(mill: Tidemill) -> None:
    """Wait until no run and no trigger is pending."""
    quiet = 0
    while quiet < 3:
        time.sleep(1)
        active = [r for s in (*PENDING_STATES, *ACTIVE_STATES) for r in mill.catalog.runs.list(state=s)]
        busy = bool(active or mill.catalog.triggers.list_due())
        quiet = 0 if busy else quiet + 1


def _take_screenshot(chromium: Browser, url: str, name: str, path: str, width: int, height: int) -> None:
    page = chromium.new_page(viewport={"width": width, "height": height}, reduced_motion="reduce")
    page.goto(url + path)
    expect(page.locator("#content")).to_be_visible()
    page.wait_for_function("window.did_handshake === true")
    page.wait_for_load_state("networkidle")
    page.screenshot(path=IMAGES / f"{name}.png")
    page.close()


if __name__ == "__main__":
    main()
