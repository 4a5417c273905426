"""Files and functions of a project that one-shot workflows refer to, in their current state."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tidemill.api.documents.tasks import SourceResolver
from tidemill.app.project import build_source_resolver, locate_program
from tidemill.errors import WorkflowError


@pytest.fixture
def shipped_modules() -> list[ModuleType]:
    return []


@pytest.fixture
def sources(
    tmp_path: Path, shipped_modules: list[ModuleType], monkeypatch: pytest.MonkeyPatch
) -> Iterator[SourceResolver]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "sources_helper.py").write_text("LEAST = 1\n")
    (tmp_path / "sources_report.py").write_text("from sources_helper import LEAST\n\ndef least(): return LEAST\n")
    yield build_source_resolver(tmp_path, shipped_modules.append)
    for name in ("sources_helper", "sources_report"):
        sys.modules.pop(name, None)


def test_functions_are_found_and_their_modules_shipped_once(
    sources: SourceResolver, shipped_modules: list[ModuleType]
) -> None:
    assert sources.find_function("sources_report:least")() == 1
    sources.find_function("sources_report:least")
    assert sorted(m.__name__ for m in shipped_modules) == ["sources_helper", "sources_report"]
    assert sources.find_function("os.path:join")("a", "b") == "a/b"


def test_a_changed_helper_is_imported_again_with_its_importers(sources: SourceResolver, tmp_path: Path) -> None:
    before = sources.find_function("sources_report:least")
    assert sources.find_function("sources_report:least") is before
    (tmp_path / "sources_helper.py").write_text("LEAST = 1000\n")
    assert sources.find_function("sources_report:least")() == 1000


def test_missing_functions_and_files_are_reported(sources: SourceResolver) -> None:
    with pytest.raises(WorkflowError, match="has no function 'most'; write it as module:name"):
        sources.find_function("sources_report:most")
    with pytest.raises(WorkflowError, match="'sources_nowhere' cannot be imported: ModuleNotFoundError"):
        sources.find_function("sources_nowhere:f")
    with pytest.raises(WorkflowError, match=r"gone.sql cannot be read: No such file.*relative to the project"):
        sources.read_file("gone.sql")


def test_programs_are_searched_in_the_project_first(tmp_path: Path) -> None:
    (tmp_path / "fetch").write_text("")
    assert locate_program(tmp_path, "./fetch") == str(tmp_path / "fetch")
    assert locate_program(tmp_path, "no-such-program") == "no-such-program"
