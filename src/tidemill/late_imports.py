"""Names that a module imports when they are first used, because their imports take long and few uses need them."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def import_late(module: str, names: Mapping[str, str], modules: Sequence[str] = ()) -> Callable[[str], Any]:
    """Build the `__getattr__` of a module, for names by the modules that define them, and for modules.

    >>> find = import_late("example", {"sqrt": "math"}, ["os.path"])
    >>> find("sqrt")(9.0), find("path").basename("a/b")
    (3.0, 'b')
    >>> find("cbrt")
    Traceback (most recent call last):
    AttributeError: module 'example' has no attribute 'cbrt'
    """
    paths = {path.rpartition(".")[2]: path for path in modules}

    def find_name(name: str) -> Any:
        if name in paths:
            return import_module(paths[name])
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        return getattr(import_module(names[name]), name)

    return find_name
