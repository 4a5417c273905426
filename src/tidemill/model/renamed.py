"""Names of earlier releases: using one fails with a message that gives the new name."""

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def raise_missing_attribute(owner: object, name: str, renamed: Mapping[str, str]) -> Any:
    """The body of `__getattr__`: raises for a missing attribute, with the new name if it was renamed.

    Classes define `__getattr__` for the interpreter only, so that mypy still reports missing attributes.

    >>> raise_missing_attribute(object(), "tap", {"tap": "change_feed"})
    Traceback (most recent call last):
    AttributeError: object.tap was renamed to change_feed
    """
    if name in renamed:
        raise AttributeError(f"{type(owner).__name__}.{name} was renamed to {renamed[name]}", name=name, obj=owner)
    return object.__getattribute__(owner, name)  # raises; an error inside of a property is raised as it is


def reject_renamed_keywords(**renamed: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A decorator: keywords of earlier releases raise TypeError with the new name.

    >>> @reject_renamed_keywords(together="refresh_group")
    ... def sql(*, refresh_group=None): ...
    >>> sql(together="sales")
    Traceback (most recent call last):
    TypeError: sql(): the keyword 'together' was renamed to 'refresh_group'
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            for old in renamed.keys() & kwargs.keys():
                raise TypeError(f"{function.__name__}(): the keyword {old!r} was renamed to {renamed[old]!r}")
            return function(*args, **kwargs)

        return call

    return decorate


def find_renamed_key(document: Mapping[str, object], renamed: Mapping[str, str]) -> str | None:
    """A message for the first key of an earlier release that a document uses; keys are dotted paths, `*` is any.

    >>> find_renamed_key({"server": {"chop": 3}}, {"server.chop": "server.catch_up_limit"})
    'server.chop was renamed to server.catch_up_limit'
    """
    for old, new in renamed.items():
        if (path := _find_path(document, old.split("."))) is not None:
            return f"{'.'.join(path)} was renamed to {new}"
    return None


def _find_path(document: object, parts: list[str]) -> list[str] | None:
    if not parts:
        return []
    entries = dict(enumerate(document)) if isinstance(document, list) else document
    if not isinstance(entries, Mapping):
        return None
    names = list(entries) if parts[0] == "*" else [parts[0]] if parts[0] in entries else []
    for name in names:
        if (rest := _find_path(entries[name], parts[1:])) is not None:
            return [str(name), *rest]
    return None
