"""Which settings are secret, and how the value of a setting is shown in an error."""

from collections.abc import Iterable

from tidemill.model.redaction import is_secret_name

_SECRET_SECTIONS = frozenset({"dsn", "url", "options"})
"""Settings whose values may contain a password."""
_UNKNOWN_PLACES = frozenset({"extra_forbidden", "model_type", "model_attributes_type", "dict_type"})
"""Kinds of errors about a value in a place for which no name is declared: it may be a misspelt password."""
_MAX_SHOWN = 100  # characters


def describe_value(value: object, location: Iterable[object], kind: str) -> str:
    """The invalid value of a setting, for an error of this kind of pydantic's; empty if it may be a secret.

    >>> describe_value("x1", ("api", "port"), "int_parsing"), describe_value("x1", ("notify", "token"), "int_parsing")
    (" (found 'x1')", '')
    >>> describe_value("postgresql://ann:pw@db", ("catalog",), "string_type")
    ''
    """
    is_secret = kind in _UNKNOWN_PLACES or any(_may_be_secret(str(part)) for part in location)
    if is_secret or not isinstance(value, str | int | float) or "://" in str(value):
        return ""
    shown = repr(value)
    return f" (found {shown[:_MAX_SHOWN]})"


def _may_be_secret(name: str) -> bool:
    return name.lower() in _SECRET_SECTIONS or is_secret_name(name)
