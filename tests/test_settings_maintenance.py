"""The maintenance settings in `tidemill.toml`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidemill.app.settings import SETTINGS_FILE, Settings, load_settings
from tidemill.errors import ConfigError


def load(directory: Path, text: str) -> Settings:
    (directory / SETTINGS_FILE).write_text(text)
    return load_settings(directory, {})


def test_maintenance_is_automatic_by_default(tmp_path: Path) -> None:
    maintenance = load(tmp_path, "").maintenance
    assert (maintenance.automatic, maintenance.run_history, maintenance.snapshots, maintenance.retention) == (
        True,
        100,
        50,
        None,
    )
    assert maintenance.small_file_bytes == 32 * 1024**2
    assert (maintenance.grace_period, maintenance.orphan_retention) == ("2 minutes", "1 day")
    given = '[maintenance]\nautomatic = false\nrun_history = 5\nretention = "7 days"\nsmall_file_bytes = 0'
    maintenance = load(tmp_path, given).maintenance
    assert (maintenance.automatic, maintenance.run_history, maintenance.retention, maintenance.small_file_bytes) == (
        False,
        5,
        "7 days",
        0,
    )


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ("run_history = 0", "maintenance.run_history"),
        ('retention = "long"', "maintenance.retention"),
        ("small_file_bytes = -1", "maintenance.small_file_bytes"),
        ('grace_period = "soon"', "maintenance.grace_period"),
        ('orphan_retention = "-1 day"', "maintenance.orphan_retention"),
    ],
)
def test_invalid_settings_are_rejected_by_name(tmp_path: Path, line: str, key: str) -> None:
    with pytest.raises(ConfigError, match=key):
        load(tmp_path, f"[maintenance]\n{line}")
