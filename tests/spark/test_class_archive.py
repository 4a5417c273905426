"""The archive of Spark's classes: used if it exists, ignored if it is invalid."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from tidemill.errors import EngineError
from tidemill.spark import class_archive


@pytest.fixture
def archive_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "archive directory" / "spark.jsa"
    monkeypatch.setattr(class_archive, "locate_archive", lambda: path)
    return path


def test_an_existing_archive_is_passed_to_java(archive_path: Path) -> None:
    assert class_archive.build_archive_options() == ""
    archive_path.parent.mkdir()
    archive_path.touch()
    assert shlex.split(class_archive.build_archive_options())[0] == f"-XX:SharedArchiveFile={archive_path}"


def test_java_ignores_an_invalid_archive(archive_path: Path) -> None:
    archive_path.parent.mkdir()
    archive_path.write_bytes(b"no archive at all" * 1000)
    with_archive = subprocess.run(
        ["java", *shlex.split(class_archive.build_archive_options()), "--version"], capture_output=True, text=True
    )
    plain = subprocess.run(["java", "--version"], capture_output=True, text=True)
    assert (with_archive.returncode, with_archive.stdout) == (0, plain.stdout.replace(", sharing", ""))


def test_an_archive_that_cannot_be_written_is_reported_with_its_path(archive_path: Path) -> None:
    archive_path.parent.write_text("a file in the way")
    with pytest.raises(EngineError, match="cannot be written to .*archive directory"):
        class_archive.build_archive()


def test_a_failed_archive_build_is_reported(archive_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(class_archive.sys, "executable", "false")
    with pytest.raises(EngineError, match="no archive of Spark's classes was made"):
        class_archive.build_archive()
    assert not archive_path.exists()
