"""Copies in users' directories: whole or not at all, and nothing of theirs is touched."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tidemill.errors import StorageError
from tidemill.model.block import DataFile
from tidemill.storage import LocalDatasetCopier


@pytest.fixture
def placer(tmp_path: Path) -> LocalDatasetCopier:
    store = tmp_path / "store"
    store.mkdir()
    for name in ("one", "two"):
        (store / name).write_text(name)
    return LocalDatasetCopier(lambda path: str(store / path), tmp_path)


ONE, TWO = DataFile("one", 1, 3), DataFile("two", 1, 3)


def names(place: Path) -> list[str]:
    return sorted(path.name for path in place.iterdir())


def test_files_are_copied_once(placer: LocalDatasetCopier, tmp_path: Path) -> None:
    place = tmp_path / "far" / "away"
    assert placer.place_copy("abc", [ONE, TWO], "far/away")
    assert [(place / name).read_text() for name in names(place)] == ["one", "two"]
    assert not placer.place_copy("abc", [ONE, TWO], str(place))


def test_what_is_new_takes_the_place_of_what_was(placer: LocalDatasetCopier, tmp_path: Path) -> None:
    placer.place_copy("abc", [ONE, TWO], "out")
    assert placer.place_copy("def", [TWO], "out")
    assert names(tmp_path / "out") == ["tidemill-def-0.parquet"]
    assert names(tmp_path) == ["out", "store"]


def test_what_is_empty_is_an_empty_directory(placer: LocalDatasetCopier, tmp_path: Path) -> None:
    assert placer.place_copy("abc", [], "out")
    assert names(tmp_path / "out") == []
    assert not placer.place_copy("abc", [], "out")


def test_a_file_that_somebody_shortened_is_put_back(placer: LocalDatasetCopier, tmp_path: Path) -> None:
    placer.place_copy("abc", [ONE], "out")
    (tmp_path / "out" / "tidemill-abc-0.parquet").write_text("")
    assert placer.place_copy("abc", [ONE], "out")
    assert (tmp_path / "out" / "tidemill-abc-0.parquet").read_text() == "one"


@pytest.mark.parametrize("inside", [True, False])
def test_what_is_not_ours_is_left_alone(placer: LocalDatasetCopier, tmp_path: Path, inside: bool) -> None:
    mine = tmp_path / "out" / "thesis.txt" if inside else tmp_path / "out"
    mine.parent.mkdir(exist_ok=True)
    mine.write_text("mine")
    with pytest.raises(StorageError, match="did not write"):
        placer.place_copy("abc", [ONE], "out")
    assert mine.read_text() == "mine"


def test_a_directory_that_is_called_like_a_file_of_ours_is_left_alone(
    placer: LocalDatasetCopier, tmp_path: Path
) -> None:
    mine = tmp_path / "out" / "tidemill-mine.parquet" / "thesis.txt"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    with pytest.raises(StorageError, match="did not write"):
        placer.place_copy("abc", [ONE], "out")
    assert mine.read_text() == "mine"


def test_a_file_in_the_place_of_the_directory_is_left_alone(placer: LocalDatasetCopier, tmp_path: Path) -> None:
    mine = tmp_path / "tidemill-mine.parquet"
    mine.write_text("mine")
    with pytest.raises(StorageError, match="did not write"):
        placer.place_copy("abc", [ONE], mine.name)
    assert mine.read_text() == "mine"


def test_what_comes_while_the_new_files_are_copied_stays(
    placer: LocalDatasetCopier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    placer.place_copy("abc", [ONE], "out")
    copy = shutil.copyfile

    def copy_meanwhile(source: str, target: Path) -> None:
        (tmp_path / "out" / "thesis.txt").write_text("mine")
        copy(source, target)

    monkeypatch.setattr(shutil, "copyfile", copy_meanwhile)
    placer.place_copy("def", [TWO], "out")
    assert names(tmp_path / "out") == ["thesis.txt", "tidemill-def-0.parquet"]
    assert (tmp_path / "out" / "thesis.txt").read_text() == "mine"
    assert names(tmp_path) == ["out", "store"]


def test_a_link_keeps_leading_to_the_copies(placer: LocalDatasetCopier, tmp_path: Path) -> None:
    (tmp_path / "disk" / "out").mkdir(parents=True)
    (tmp_path / "out").symlink_to(tmp_path / "disk" / "out")
    for identity in ("abc", "def"):
        placer.place_copy(identity, [ONE], "out")
        assert names(tmp_path / "disk" / "out") == names(tmp_path / "out") == [f"tidemill-{identity}-0.parquet"]
    assert names(tmp_path) == ["disk", "out", "store"]
