"""Copies in users' directories are complete or absent, and change no file of the users."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tidemill.errors import StorageError
from tidemill.model.block import DataFile
from tidemill.storage import LocalDatasetCopier


@pytest.fixture
def copier(tmp_path: Path) -> LocalDatasetCopier:
    store = tmp_path / "store"
    store.mkdir()
    for name in ("one", "two"):
        (store / name).write_text(name)
    requested = [("out", "abc"), ("out", "def"), ("other", "xyz")]
    return LocalDatasetCopier(lambda path: str(store / path), lambda: requested, tmp_path)


ONE, TWO = DataFile("one", 1, 3), DataFile("two", 1, 3)


def list_names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_files_are_copied_once(copier: LocalDatasetCopier, tmp_path: Path) -> None:
    directory = tmp_path / "far" / "away"
    assert copier.place_copy("abc", [ONE, TWO], "far/away")
    assert [(directory / name).read_text() for name in list_names(directory)] == ["one", "two"]
    assert not copier.place_copy("abc", [ONE, TWO], str(directory))


def test_a_new_copy_replaces_the_previous_one(copier: LocalDatasetCopier, tmp_path: Path) -> None:
    copier.place_copy("abc", [ONE, TWO], "out")
    assert copier.place_copy("def", [TWO], "out")
    assert list_names(tmp_path / "out") == ["tidemill-def-0.parquet"]
    assert list_names(tmp_path) == ["out", "store"]


def test_an_empty_dataset_is_an_empty_directory(copier: LocalDatasetCopier, tmp_path: Path) -> None:
    assert copier.place_copy("abc", [], "out")
    assert list_names(tmp_path / "out") == []
    assert not copier.place_copy("abc", [], "out")


def test_a_truncated_copy_is_restored(copier: LocalDatasetCopier, tmp_path: Path) -> None:
    copier.place_copy("abc", [ONE], "out")
    (tmp_path / "out" / "tidemill-abc-0.parquet").write_text("")
    assert copier.place_copy("abc", [ONE], "out")
    assert (tmp_path / "out" / "tidemill-abc-0.parquet").read_text() == "one"


@pytest.mark.parametrize("name", ["tidemill-mine.parquet", f"tidemill-{'abc':0<16}-0.parquet"])
def test_a_users_file_named_like_a_copy_is_not_changed(copier: LocalDatasetCopier, tmp_path: Path, name: str) -> None:
    mine = tmp_path / "out" / name
    mine.parent.mkdir()
    mine.write_text("mine")
    with pytest.raises(StorageError, match="no copies"):
        copier.place_copy("abc", [ONE], "out")
    assert mine.read_text() == "mine"


def test_a_copy_that_was_requested_at_another_path_is_not_changed(copier: LocalDatasetCopier, tmp_path: Path) -> None:
    copier.place_copy("xyz", [ONE], "other")
    (tmp_path / "other").rename(tmp_path / "out")
    with pytest.raises(StorageError, match="no copies"):
        copier.place_copy("def", [TWO], "out")
    assert list_names(tmp_path / "out") == ["tidemill-xyz-0.parquet"]


@pytest.mark.parametrize("inside", [True, False])
def test_foreign_files_are_not_changed(copier: LocalDatasetCopier, tmp_path: Path, inside: bool) -> None:
    mine = tmp_path / "out" / "thesis.txt" if inside else tmp_path / "out"
    mine.parent.mkdir(exist_ok=True)
    mine.write_text("mine")
    with pytest.raises(StorageError, match="no copies"):
        copier.place_copy("abc", [ONE], "out")
    assert mine.read_text() == "mine"


def test_a_foreign_directory_named_like_a_copy_is_not_changed(copier: LocalDatasetCopier, tmp_path: Path) -> None:
    mine = tmp_path / "out" / "tidemill-mine.parquet" / "thesis.txt"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    with pytest.raises(StorageError, match="no copies"):
        copier.place_copy("abc", [ONE], "out")
    assert mine.read_text() == "mine"


def test_a_file_at_the_directorys_path_is_not_changed(copier: LocalDatasetCopier, tmp_path: Path) -> None:
    mine = tmp_path / "tidemill-mine.parquet"
    mine.write_text("mine")
    with pytest.raises(StorageError, match="no copies"):
        copier.place_copy("abc", [ONE], mine.name)
    assert mine.read_text() == "mine"


def test_a_file_added_during_the_copy_is_not_changed(
    copier: LocalDatasetCopier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copier.place_copy("abc", [ONE], "out")
    copy = shutil.copyfile

    def copy_meanwhile(source: str, target: Path) -> None:
        (tmp_path / "out" / "thesis.txt").write_text("mine")
        copy(source, target)

    monkeypatch.setattr(shutil, "copyfile", copy_meanwhile)
    copier.place_copy("def", [TWO], "out")
    assert list_names(tmp_path / "out") == ["thesis.txt", "tidemill-def-0.parquet"]
    assert (tmp_path / "out" / "thesis.txt").read_text() == "mine"
    assert list_names(tmp_path) == ["out", "store"]


def test_a_link_to_the_directory_is_preserved(copier: LocalDatasetCopier, tmp_path: Path) -> None:
    (tmp_path / "disk" / "out").mkdir(parents=True)
    (tmp_path / "out").symlink_to(tmp_path / "disk" / "out")
    for identity in ("abc", "def"):
        copier.place_copy(identity, [ONE], "out")
        assert (
            list_names(tmp_path / "disk" / "out") == list_names(tmp_path / "out") == [f"tidemill-{identity}-0.parquet"]
        )
    assert list_names(tmp_path) == ["disk", "out", "store"]
