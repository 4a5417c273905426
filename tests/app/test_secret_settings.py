"""Errors about settings never contain a value that may be secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidemill.app.settings import SETTINGS_FILE, Settings, load_settings
from tidemill.catalog import open_catalog
from tidemill.errors import CatalogError, ConfigError

SECRET = "hunter2"


@pytest.mark.parametrize(
    "text",
    [
        f'[notify.ops]\nkind = "mail"\nhost = "h"\nsender = "a"\nto = ["b"]\npassword = ["{SECRET}"]',
        f'[notify.ops]\nkind = "mail"\nhost = "h"\nsender = "a"\nto = ["b"]\npasword = "{SECRET}"',
        f'[notify.ops]\nkind = "mial"\npassword = "{SECRET}"',
        f'[notify.ops]\nkind = "webhook"\nsecret = "{SECRET}"',
        f'[notify]\nops = "https://hooks.example/{SECRET}"',
        f'[sources.s]\nkind = "websub"\nchannel = "c"\ntopic = "t"\ncallback = "c"\nsecret = "{SECRET}"',
        f'catalog = "postgresql://ann:{SECRET}@db/x"',
        f'[catalog]\nurl = ["postgresql://ann:{SECRET}@db/x"]',
        f'[storage]\noptions = ["{SECRET}"]',
        f'[spark.settings]\n"spark.hadoop.fs.s3a.secret.key" = ["{SECRET}"]',
        f'[api]\ntoken = "{SECRET}"',
        f'[api]\nport = "postgresql://ann:{SECRET}@db/x"',
    ],
)
def test_an_invalid_setting_is_reported_without_secrets(tmp_path: Path, text: str) -> None:
    (tmp_path / SETTINGS_FILE).write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_settings(tmp_path, {})
    assert SECRET not in str(caught.value)


def test_other_values_are_shown(tmp_path: Path) -> None:
    (tmp_path / SETTINGS_FILE).write_text('[api]\nport = "many"')
    with pytest.raises(ConfigError, match="api.port.*found 'many'"):
        load_settings(tmp_path, {})


def test_the_text_of_settings_has_no_secrets() -> None:
    settings = Settings.model_validate(
        {
            "catalog": {"url": f"postgresql://ann:{SECRET}@db/x"},
            "storage": {"url": f"ftp://ann:{SECRET}@host/x", "options": {"key": SECRET}},
            "spark": {"settings": {"spark.hadoop.fs.s3a.secret.key": SECRET}},
            "notify": {"ops": {"kind": "webhook", "url": f"https://hooks.example/{SECRET}", "secret": SECRET}},
        }
    )
    assert SECRET not in repr(settings)


def test_a_malformed_catalog_address_is_not_repeated() -> None:
    with pytest.raises(CatalogError) as caught:
        open_catalog(f"postgresql//ann:{SECRET}@db")
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("network", ["*", "proxy.example", "10.0.0.1/8"])
def test_trusted_proxies_are_addresses_or_networks(tmp_path: Path, network: str) -> None:
    (tmp_path / SETTINGS_FILE).write_text(f'[api]\ntrusted_proxies = ["{network}"]')
    with pytest.raises(ConfigError, match="expected an address or a network"):
        load_settings(tmp_path, {})
