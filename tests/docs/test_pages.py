"""Every page of the documentation does what it says: its files are written, its commands and fragments executed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.docs.page_project import PageProject
from tests.docs.pages import PAGES, parse_commands, read_blocks


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PageProject]:
    opened = PageProject(tmp_path, monkeypatch)
    yield opened
    opened.close()


def has_example(page: Path) -> bool:
    return any(block.language == "sh" for block in read_blocks(page))


LONG_PAGES = {"deploy", "push"}
"""Pages whose commands start several servers."""


def mark_page(page: Path) -> object:
    return pytest.param(page, id=page.stem, marks=[pytest.mark.long] if page.stem in LONG_PAGES else [])


@pytest.mark.parametrize("page", [mark_page(p) for p in PAGES if has_example(p)])
def test_commands_of_a_page_succeed(page: Path, project: PageProject, spark: SparkSession) -> None:
    for block in read_blocks(page):
        if block.file_name is not None:
            project.write_file(block)
        elif block.language == "sh":
            for command in parse_commands(block):
                project.run_command(command)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_fragments_of_a_page_are_valid(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python fragments are executed after the page's workflow, but for those that need a server; JSON is parsed."""
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "visits.sql").write_text("SELECT user FROM clicks")
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__file__": str(tmp_path / "workflow.py"), "__name__": "workflow"}
    for block in read_blocks(page):
        if block.language == "json":
            text = block.content if block.file_name else block.text
            for document in text.splitlines() if str(block.file_name).endswith(".jsonl") else [text]:
                json.loads(document)
        elif block.language == "python":
            code = compile(block.text, str(tmp_path / "workflow.py"), "exec")
            if not re.search(r"\bClient\(|Tidemill\.open", block.text):
                exec(code, namespace)


def test_every_task_page_has_an_example() -> None:
    tasks = {
        "concepts",
        "declare-tables",
        "write-tasks",
        "freshness-targets",
        "streams",
        "operate",
        "deploy",
        "api-reference",
    }
    assert tasks <= {page.stem for page in PAGES if has_example(page)}


def test_links_between_pages_exist() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
