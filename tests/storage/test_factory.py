"""Stores for each kind of URL."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.storage.stores import open_file_store

from tidemill.errors import ConfigError
from tidemill.storage.local import LocalBlockStore
from tidemill.storage.staged import StagedBlockStore
from tidemill.storage.store import DirectBlockStore


def test_each_kind_of_url_opens_its_kind_of_store(tmp_path: Path, memory_url: str) -> None:
    assert isinstance(open_file_store(str(tmp_path)), LocalBlockStore)
    assert isinstance(open_file_store(f"file://{tmp_path}"), LocalBlockStore)
    assert isinstance(open_file_store(str(tmp_path), staged=True, cache=tmp_path), StagedBlockStore)
    assert isinstance(open_file_store(memory_url, cache=tmp_path), StagedBlockStore)
    assert isinstance(open_file_store(memory_url, staged=False), DirectBlockStore)


def test_a_relative_path_means_the_current_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert open_file_store("blocks").locate_file("runs/x") == str(tmp_path / "blocks" / "runs" / "x")


def test_opening_a_store_writes_nothing(tmp_path: Path, memory_url: str) -> None:
    open_file_store(str(tmp_path / "blocks"))
    open_file_store(memory_url, cache=tmp_path / "cache")
    assert list(tmp_path.iterdir()) == []


def test_the_default_cache_is_in_the_users_cache_directory(
    memory_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert Path(open_file_store(memory_url).stage_directory("runs/b")).is_relative_to(tmp_path / "tidemill")


@pytest.mark.parametrize("url", ["nosuch://bucket", "abfs://container/blocks"])
def test_unknown_url_schemes_are_rejected(url: str) -> None:
    with pytest.raises(ConfigError, match=f"cannot open the block store {url}: .* expected a path or a URL"):
        open_file_store(url)


@pytest.mark.parametrize("name", ["a[1]", "a*", "{a}", "what?"])
def test_roots_that_are_patterns_for_spark_are_rejected(tmp_path: Path, name: str) -> None:
    for settings in ({}, {"staged": True}, {"staged": True, "cache": tmp_path / name}):
        with pytest.raises(ConfigError, match="which Spark reads as a pattern; choose a path without"):
            open_file_store(str(tmp_path / name), **settings)
