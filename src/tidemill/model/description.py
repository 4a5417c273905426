"""Dataset descriptions: everything that determines a dataset's content.

A dataset's identity is the hash of its description. The description itself is stored with the dataset and compared
before the dataset is reused, so that a hash collision does no harm.
"""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidemill.model.code import EMPTY_MAPPING, Json
from tidemill.model.identity import Identity, compute_identity
from tidemill.model.task import Task


def describe_output(
    task: Task, output: str, inputs: Sequence[Sequence[Identity]], variables: Mapping[str, str] = EMPTY_MAPPING
) -> Json:
    """The description of the dataset that `task` writes as `output` from `inputs`, which are in port order.

    Environment variables are included as hashes, since they may hold secrets. A caller sets another generation for
    results that are otherwise equal: of tasks that were forced to run or are not deterministic.
    """
    environment = {
        name: compute_identity("environment", variables[name]) if name in variables else None
        for name in sorted(task.environment)
    }
    return {
        **task.describe_task(),
        "environment": environment,
        "output": output,
        "inputs": [list(i) for i in inputs],
        "generation": 0,
    }


def compute_dataset_identity(description: Json) -> Identity:
    return compute_identity("dataset", description)


@dataclass(frozen=True, slots=True)
class DescriptionChange:
    """A part in which two descriptions differ: its name, and its value before and after."""

    part: str
    before: Any
    after: Any

    def __str__(self) -> str:
        if self.before is None:
            return f"{self.part} is new: {self.after!r}"
        if self.after is None:
            return f"{self.part} was removed; it was {self.before!r}"
        if isinstance(self.before, str) and isinstance(self.after, str) and "\n" in self.before + self.after:
            return f"{self.part} changed:\n{_diff_lines(self.before, self.after)}"
        return f"{self.part} was {self.before!r} and is {self.after!r}"


def _diff_lines(before: str, after: str) -> str:
    diff = difflib.unified_diff(before.splitlines(), after.splitlines(), "before", "now", lineterm="", n=1)
    return "\n".join(list(diff)[2:])


def diff_descriptions(before: Json, after: Json) -> tuple[DescriptionChange, ...]:
    """Every part in which two descriptions differ; code is named after its function."""
    old_parts, new_parts = dict(_list_parts(before)), dict(_list_parts(after))
    changes = (DescriptionChange(name, old_parts.get(name), new_parts.get(name)) for name in old_parts | new_parts)
    return tuple(change for change in changes if change.before != change.after)


def _list_parts(description: Json) -> Iterator[tuple[str, Any]]:
    for part, value in description.items():
        if part == "code":
            for number, code in enumerate(value):
                yield from _list_code_parts(code, f"variant {number} " if len(value) > 1 else "")
        elif part == "inputs":
            yield from ((f"input {number}", content) for number, content in enumerate(value))
        elif part == "environment":
            yield from ((f"environment {name}", content) for name, content in value.items())
        elif part == "parameters":
            yield from ((f"parameter {name}", content) for name, content in value["dict"])
        else:
            yield part, value


def _list_code_parts(code: Json, prefix: str) -> Iterator[tuple[str, Any]]:
    """The parts of one variant's code. Pieces are keyed by name; repeated names get a number."""
    counts: dict[str, int] = {}
    for piece in code.get("function", ()):
        counts[piece["name"]] = counts.get(piece["name"], 0) + 1
        name = piece["name"] if counts[piece["name"]] == 1 else f"{piece['name']} ({counts[piece['name']]})"
        yield f"{prefix}code of {name}", piece["text"]
        yield from (
            (f"{prefix}{used_name} in {name}", _format_use(use, code)) for used_name, use in piece["uses"].items()
        )
    yield from ((f"{prefix}{part}", value) for part, value in code.items() if part != "function")


def _format_use(use: list[Any], code: Json) -> Any:
    """A use for display: a piece by its name, since piece numbers depend on the order of discovery."""
    if use[0] == "piece":
        return code["function"][use[1]]["name"]
    return use[1] if len(use) == 2 else use[1:]
