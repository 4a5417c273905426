"""Secrets do not occur in redacted texts, and the rest of the texts stays."""

from __future__ import annotations

import pytest

from tidemill.errors import RunFailed
from tidemill.model.redaction import Redactor, find_secrets, has_foreign_cause, is_secret_name

ENVIRONMENT = {
    "DB_PASSWORD": "hunter2 and more",
    "GITHUB_TOKEN": "ghp_4711",
    "PWD": "/home/ann/project",
    "SSL_KEY_FILE": "/etc/key.pem",
    "DEBUG_SECRETS_ENABLED": "true",
    "DATABASE": "postgresql://ann:p%40ss-word@db/shop",
    "HOME": "/home/ann",
}


SECRET_NAMES = """password db.passwd MYSQL_PWD clientSecret x-api-key apiKey AWS_SECRET_ACCESS_KEY auth_token
    SENTRY_DSN private-key connection_string connectionString SERVICE_CREDENTIALS Authorization PGPASSWORD"""
OTHER_NAMES = """monkey key_columns primary_key tokens token_count keyboard secretary compass fencing_token
    password_file accessible author turkey"""


@pytest.mark.parametrize("name", SECRET_NAMES.split())
def test_names_of_secrets_are_recognized(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize("name", ["", *OTHER_NAMES.split()])
def test_other_names_are_not_secret(name: str) -> None:
    assert not is_secret_name(name)


def test_secrets_are_found_by_name_and_in_urls() -> None:
    assert find_secrets(ENVIRONMENT) == {"hunter2 and more", "ghp_4711", "p%40ss-word", "p@ss-word"}
    settings = {"notify": {"ops": {"secret": "a long secret"}}, "storage": {"options": {"secret": "s3cret-key"}}}
    assert find_secrets(settings) == {"a long secret", "s3cret-key"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("login with hunter2 and more failed", "login with *** failed"),
        ("connect to mysql://root:pw@h:3306/d?x=1", "connect to mysql://root:***@h:3306/d?x=1"),
        ("user=ann password=pw host=h", "user=ann password=*** host=h"),
        ("{'api_key': 'abc', 'n': 1}", "{'api_key': '***', 'n': 1}"),
        ('{"clientSecret": "a \\" b"}', '{"clientSecret": "***"}'),
        (r'"{\"token\": \"abc\", \"n\": 1}"', r'"{\"token\": \"***\", \"n\": 1}"'),
        ("Authorization: Bearer abc.def.ghi", "Authorization: Bearer ***"),
        ("api key: abc", "api key: ***"),
        ("key_columns=id, tokens: 17, fencing_token=3", "key_columns=id, tokens: 17, fencing_token=3"),
        ("task totals (/p/workflow.py:12): no rows", "task totals (/p/workflow.py:12): no rows"),
    ],
)
def test_redacted_texts_keep_everything_else(text: str, expected: str) -> None:
    assert Redactor.from_values(ENVIRONMENT).redact(text) == expected


def test_short_secrets_are_replaced_as_words_only() -> None:
    assert Redactor(frozenset(["test"])).redact("the latest test failed") == "the latest *** failed"


def test_a_redactor_does_not_show_its_secrets() -> None:
    assert "hunter2" not in repr(Redactor.from_values(ENVIRONMENT))


def test_the_description_for_the_log_is_full_but_has_no_secrets() -> None:
    try:
        try:
            raise ValueError("row 'Ann' with hunter2 and more")
        except ValueError as error:
            raise RunFailed("task totals: ValueError") from error
    except RunFailed as error:
        failure = error
    description = Redactor.from_values(ENVIRONMENT).describe(failure)
    assert description.startswith("task totals: ValueError\nTraceback")
    assert description.endswith("ValueError: row 'Ann' with ***")
    assert has_foreign_cause(failure)
    assert not has_foreign_cause(RunFailed("no such output"))
