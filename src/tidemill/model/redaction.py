"""Redaction: what a message must not contain when it leaves the process. Pure: texts in, texts out.

Secrets are known by the names of the variables and settings that hold them, and by their form in a text: passwords in
URLs, and `name=value` with a secret-like name. Values of rows are removed by `error_summary`.
"""

import re
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any
from urllib.parse import unquote

from tidemill.errors import TidemillError
from tidemill.model.error_summary import MASK, summarize_error

MIN_SECRET_CHARACTERS = 4
"""Shorter values are not replaced in texts: they protect nothing, and would make the texts unreadable."""

_WORD_SECRET_CHARACTERS = 8
"""Shorter secrets are only replaced as whole words: `test` is not replaced in `latest`."""

_COMMON_VALUES = frozenset(["true", "false", "none", "null"])
_DIRECTORY_VARIABLES = frozenset(["PWD", "OLDPWD"])
"""Variables of every shell: PWD is the current directory, although elsewhere `pwd` is a password."""

_SECRET_WORDS = frozenset(
    (
        *("password", "passwd", "passphrase", "passcode", "pwd", "pw", "secret", "secrets", "token", "dsn"),
        *("credential", "credentials", "apikey", "accesskey", "secretkey", "privatekey", "authtoken", "accesstoken"),
        "authorization",
    )
)
_SECRET_PAIRS = frozenset(
    (
        *((word, "key") for word in ("api", "access", "private", "account", "signing", "encryption")),
        *(("connection", "string"), ("connection", "uri"), ("conn", "str")),
    )
)
_SECRET_ENDINGS = ("password", "passwd", "secret")
"""Endings of words that are written without a separator, such as PGPASSWORD."""

_HARMLESS_LAST_WORDS = frozenset(
    (
        *("column", "columns", "count", "counts", "size", "length", "limit", "limits", "ttl", "expiry", "expires"),
        *("policy", "enabled", "required", "label", "file", "path", "dir", "directory", "url", "endpoint"),
        *("name", "type", "kind"),
    )
)
"""A name that ends with one of these describes a secret and does not hold one: `token_count`."""

_PUBLIC_NAMES = frozenset(["fencing_token"])

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")

_URL_PASSWORD = re.compile(r"(?P<head>\b[A-Za-z][\w+.-]*://[^\s:/@'\"]*:)(?P<password>[^\s/'\"]+)@")

_ASSIGNMENT = re.compile(
    r"""(?P<head>(?P<quote>\\?["']|)(?P<name>(?:[A-Za-z]+[ ])?[A-Za-z_][\w.-]*)(?P=quote)\s*(?:=>|[=:])\s*
        (?:(?:Bearer|Basic|Token)\s+)?)
        (?P<value>\\"(?:[^"\\]|\\(?!"))*(?:\\"|$)|"(?:\\.|[^"\\])*(?:"|$)|'(?:\\.|[^'\\])*(?:'|$)|[^\s,;&}\])"'\\]+)""",
    re.VERBOSE | re.IGNORECASE,
)


def is_secret_name(name: str) -> bool:
    """Whether a variable, setting or field of this name holds a secret, judged by the words of the name.

    >>> [is_secret_name(n) for n in ("DB_PASSWORD", "apiKey", "aws.secret-access-key", "PGPASSWORD", "dsn")]
    [True, True, True, True, True]
    >>> [is_secret_name(n) for n in ("monkey", "key_columns", "keys", "token_count", "max_tokens", "secretary")]
    [False, False, False, False, False, False]
    """
    words = [word.lower() for word in _WORD.findall(name)]
    if not words or words[-1] in _HARMLESS_LAST_WORDS or name.lower() in _PUBLIC_NAMES:
        return False
    is_secret_word = any(word in _SECRET_WORDS or word.endswith(_SECRET_ENDINGS) for word in words)
    return is_secret_word or not _SECRET_PAIRS.isdisjoint(pairwise(words))


def find_secrets(values: Mapping[str, Any]) -> frozenset[str]:
    """The values of secret-like names, however deep they are nested, and the passwords of all URLs among the values.

    >>> sorted(find_secrets({"HOME": "/root", "ops": {"secret": "hush-hush"}, "url": "postgresql://ann:p%40ss@h/d"}))
    ['hush-hush', 'p%40ss', 'p@ss']
    """
    long_enough = (s for s in _list_secrets("", values) if len(s) >= MIN_SECRET_CHARACTERS)
    return frozenset(secret for secret in long_enough if secret.lower() not in _COMMON_VALUES)


def _list_secrets(name: str, value: object) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _list_secrets(str(key), inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _list_secrets(name, inner)
    elif isinstance(value, str):
        if is_secret_name(name) and name not in _DIRECTORY_VARIABLES:
            yield value
        for match in _URL_PASSWORD.finditer(value):
            yield from (match["password"], unquote(match["password"]))


@dataclass(frozen=True, slots=True)
class Redactor:
    """Removes secrets from texts. Guarantees that no known secret occurs in a redacted text as a word.

    >>> Redactor(frozenset({"hush-hush"})).redact("hush-hush: psql://ann:pass@host failed, api_key=4711")
    '***: psql://ann:***@host failed, api_key=***'
    """

    secrets: frozenset[str] = field(default=frozenset(), repr=False)
    _pattern: re.Pattern[str] | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        longest_first = sorted(self.secrets, key=len, reverse=True)
        pattern = re.compile("|".join(map(_build_pattern, longest_first))) if longest_first else None
        object.__setattr__(self, "_pattern", pattern)

    @classmethod
    def from_values(cls, *sources: Mapping[str, Any]) -> "Redactor":
        """A redactor of the secrets in environments and settings."""
        return cls(frozenset[str]().union(*map(find_secrets, sources)))

    def redact(self, text: str) -> str:
        """The text with every secret replaced: known ones, passwords in URLs, and values of secret-like names."""
        known = text if self._pattern is None else self._pattern.sub(MASK, text)
        return _ASSIGNMENT.sub(_mask_assignment, _URL_PASSWORD.sub(rf"\g<head>{MASK}@", known))

    def summarize(self, error: BaseException) -> str:
        """The error for messages that leave the process: without secrets, and without values of rows."""
        return self.redact(summarize_error(error))

    def describe(self, error: BaseException) -> str:
        """The full error for the run's log: with the text and the stack trace of its cause, without secrets."""
        foreign = _find_foreign_cause(error)
        details = "" if foreign is None else "\n" + "".join(traceback.format_exception(foreign)).rstrip()
        return self.redact(summarize_error(error) + details)


NO_SECRETS = Redactor()
"""Knows no secret, and still removes what has the form of one."""


def _build_pattern(secret: str) -> str:
    escaped = re.escape(secret)
    return escaped if len(secret) >= _WORD_SECRET_CHARACTERS else rf"(?<!\w){escaped}(?!\w)"


def _mask_assignment(match: re.Match[str]) -> str:
    name, value = match["name"], match["value"]
    first, _, last = name.rpartition(" ")
    if not (is_secret_name(last) or (first and is_secret_name(name))):
        return match[0]
    quote = next((q for q in ('\\"', '"', "'") if value.startswith(q)), "")
    return f"{match['head']}{quote}{MASK}{quote}"


def has_foreign_cause(error: BaseException) -> bool:
    """Whether the error is not one of Tidemill's, or was caused by such a one: its summary omits some of its text."""
    return isinstance(error, Exception) and _find_foreign_cause(error) is not None


def _find_foreign_cause(error: BaseException) -> BaseException | None:
    """The first of the error, its cause, the cause of that, and so on, that is not one of Tidemill's errors."""
    current: BaseException | None = error
    while isinstance(current, TidemillError):
        current = current.__cause__
    return current
