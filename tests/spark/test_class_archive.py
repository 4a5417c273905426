"""The archive of Spark's classes: used if it is there, and nobody notices if it is of no use."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from tidemill.errors import EngineError
from tidemill.spark import class_archive


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "of this installation" / "spark.jsa"
    monkeypatch.setattr(class_archive, "locate_archive", lambda: path)
    return path


def test_java_is_told_of_an_archive_that_is_there(kept: Path) -> None:
    assert class_archive.build_archive_options() == ""
    kept.parent.mkdir()
    kept.touch()
    assert shlex.split(class_archive.build_archive_options())[0] == f"-XX:SharedArchiveFile={kept}"


def test_java_starts_without_a_word_whatever_is_in_it(kept: Path) -> None:
    kept.parent.mkdir()
    kept.write_bytes(b"no archive at all" * 1000)
    done = subprocess.run(
        ["java", *shlex.split(class_archive.build_archive_options()), "--version"], capture_output=True, text=True
    )
    plain = subprocess.run(["java", "--version"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, plain.stdout.replace(", sharing", ""))


def test_it_says_where_it_could_not_be_written(kept: Path) -> None:
    kept.parent.write_text("a file in the way")
    with pytest.raises(EngineError, match="cannot be written to .*of this installation"):
        class_archive.build_archive()


def test_it_says_why_none_was_made(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(class_archive.sys, "executable", "false")
    with pytest.raises(EngineError, match="no archive of Spark's classes was made"):
        class_archive.build_archive()
    assert not kept.exists()
