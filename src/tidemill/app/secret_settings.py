"""Which settings are secret, and how the value of a setting is shown in an error."""

from collections.abc import Iterable

_SECRET_PARTS = (
    *("password", "passwd", "secret", "token", "key", "credential", "signature", "auth"),
    *("dsn", "url", "options"),  # they may contain a password
)
_UNKNOWN_PLACES = frozenset({"extra_forbidden", "model_type", "model_attributes_type", "dict_type"})
"""Kinds of errors about a value in a place for which no name is declared: it may be a misspelt password."""
_MAX_SHOWN = 100  # characters


def is_secret_name(name: str) -> bool:
    """Whether the value under this name may be a secret, judged by the name alone.

    >>> is_secret_name("AWS_SECRET_ACCESS_KEY"), is_secret_name("api-token"), is_secret_name("max_wait")
    (True, True, False)
    """
    return any(part in name.lower() for part in _SECRET_PARTS)


def describe_value(value: object, location: Iterable[object], kind: str) -> str:
    """The invalid value of a setting, for an error of this kind of pydantic's; empty if it may be a secret.

    >>> describe_value("x1", ("api", "port"), "int_parsing"), describe_value("x1", ("notify", "token"), "int_parsing")
    (" (found 'x1')", '')
    >>> describe_value("postgresql://ann:pw@db", ("catalog",), "string_type")
    ''
    """
    is_secret = kind in _UNKNOWN_PLACES or any(is_secret_name(str(part)) for part in location)
    if is_secret or not isinstance(value, str | int | float) or "://" in str(value):
        return ""
    shown = repr(value)
    return f" (found {shown[:_MAX_SHOWN]})"
