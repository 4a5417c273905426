"""What can be said about upkeep in `tidemill.toml`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidemill.app.settings import SETTINGS_FILE, Settings, load_settings
from tidemill.errors import ConfigError


def loaded(directory: Path, text: str) -> Settings:
    (directory / SETTINGS_FILE).write_text(text)
    return load_settings(directory, {})


def test_upkeep_is_automatic_unless_told_otherwise(tmp_path: Path) -> None:
    upkeep = loaded(tmp_path, "").upkeep
    assert (upkeep.automatic, upkeep.history, upkeep.points, upkeep.keep) == (True, 100, 50, None)
    assert upkeep.small_file == 32 * 1024**2
    assert (upkeep.grace, upkeep.orphans) == ("2 minutes", "1 day")
    told = loaded(tmp_path, '[upkeep]\nautomatic = false\nhistory = 5\nkeep = "7 days"\nsmall_file = 0').upkeep
    assert (told.automatic, told.history, told.keep, told.small_file) == (False, 5, "7 days", 0)


@pytest.mark.parametrize(
    ("line", "where"),
    [
        ("history = 0", "upkeep.history"),
        ('keep = "long"', "upkeep.keep"),
        ("small_file = -1", "upkeep.small_file"),
        ('grace = "soon"', "upkeep.grace"),
        ('orphans = "-1 day"', "upkeep.orphans"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(tmp_path: Path, line: str, where: str) -> None:
    with pytest.raises(ConfigError, match=where):
        loaded(tmp_path, f"[upkeep]\n{line}")
