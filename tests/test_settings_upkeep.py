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
    upkeep = loaded(tmp_path, "").maintenance
    assert (upkeep.automatic, upkeep.run_history, upkeep.snapshots, upkeep.retention) == (True, 100, 50, None)
    assert upkeep.small_file_bytes == 32 * 1024**2
    assert (upkeep.grace_period, upkeep.orphan_retention) == ("2 minutes", "1 day")
    told = loaded(tmp_path, '[upkeep]\nautomatic = false\nhistory = 5\nkeep = "7 days"\nsmall_file = 0').maintenance
    assert (told.automatic, told.run_history, told.retention, told.small_file_bytes) == (False, 5, "7 days", 0)


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
