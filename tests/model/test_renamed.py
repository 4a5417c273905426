"""Names of earlier releases fail with the new name: settings, documents, requests, methods and commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

import tidemill as tm
from tidemill import Client, errors
from tidemill.app.registry import parse_definition
from tidemill.app.settings import load_settings
from tidemill.app.wiring import Tidemill
from tidemill.cli.moved import RENAMED_COMMANDS, RENAMED_OPTIONS, check_renamed
from tidemill.errors import BadInput, ConfigError
from tidemill.sim.staleness.workload_file import parse_workload
from tidemill.wire.server_schemas import DispatchOverrideDocument


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[upkeep]\nautomatic = false", "upkeep was renamed to maintenance"),
        ("[upkeep]\nhistory = 5", "upkeep.history was renamed to maintenance.run_history"),
        ("[maintenance]\nhistory = 5", "maintenance.history was renamed to maintenance.run_history"),
        ("[server]\nchop = 3", "server.chop was renamed to server.catch_up_limit"),
        ('[sources.drop]\nkind = "folder"\nsettle = 2', "sources.drop.settle was renamed to quiet_period"),
    ],
)
def test_a_setting_of_an_earlier_release_is_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "tidemill.toml").write_text(text)
    with pytest.raises(ConfigError, match=message):
        load_settings(tmp_path, {})


def test_a_secret_is_not_part_of_an_error(tmp_path: Path) -> None:
    (tmp_path / "tidemill.toml").write_text(
        '[sources.n]\nkind = "websub"\nchannel = "c"\ntopic = "t"\ncallback = "u"\nsecret = "too short"'
    )
    with pytest.raises(ConfigError, match="secret") as raised:
        load_settings(tmp_path, {})
    assert "too short" not in str(raised.value)


@pytest.mark.parametrize("command", RENAMED_COMMANDS)
def test_a_command_of_an_earlier_release_is_named(command: str) -> None:
    with pytest.raises(ConfigError, match=f"run {RENAMED_COMMANDS[command]}"):
        check_renamed(["--project", "shop", *command.split(), "orders"])


@pytest.mark.parametrize(("command", "option"), RENAMED_OPTIONS)
def test_an_option_of_an_earlier_release_is_named(command: str, option: str) -> None:
    with pytest.raises(ConfigError, match=f"was renamed to {RENAMED_OPTIONS[command, option]}"):
        check_renamed([*command.split(), f"{option}=1"])


def test_other_command_lines_pass() -> None:
    check_renamed(["--project", "follow", "run", "upkeep"])


@pytest.mark.parametrize("name", ["settled", "synch"])
def test_a_method_of_a_workflow_is_named(name: str) -> None:
    with pytest.raises(AttributeError, match="was renamed to (watermark|barrier)"):
        getattr(tm.Workflow("w"), name)


def test_a_keyword_is_named() -> None:
    options: dict[str, Any] = {"together": "sales"}
    with pytest.raises(TypeError, match="renamed to 'refresh_group'"):
        tm.Workflow("w").sql("t", "SELECT 1", **options)


def test_methods_of_client_and_project_are_named() -> None:
    with pytest.raises(AttributeError, match=r"Client\.follow was renamed to subscribe"):
        Client().follow  # noqa: B018
    with pytest.raises(AttributeError, match=r"Tidemill\.tap was renamed to change_feed"):
        Tidemill.__new__(Tidemill).tap  # noqa: B018


def test_an_exception_is_named() -> None:
    with pytest.raises(ImportError, match="ForeignStore was renamed to StoreMismatch"):
        errors.ForeignStore  # noqa: B018


def test_fields_of_documents_and_requests_are_named() -> None:
    with pytest.raises(BadInput, match=r"tables\.0\.together was renamed to refresh_group"):
        parse_definition({"name": "w", "tables": [{"name": "t", "query": "SELECT 1", "together": "g"}]})
    with pytest.raises(ValidationError, match="chop was renamed to catch_up_limit"):
        DispatchOverrideDocument.model_validate({"chop": 3})
    with pytest.raises(ConfigError, match="chop was renamed to catch_up_limit"):
        parse_workload({"chop": 3, "tables": {}})
