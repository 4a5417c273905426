"""Changes of code, tested on a small project that is edited and imported again."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tidemill.model.canonical_json import MAX_SMALL_SIZE
from tidemill.model.code import CodeClosure, trace_code, trace_script

TASK = '''
import math
import re
from dataclasses import dataclass
from statistics import mean as middle

import helpers
from helpers import clean

LIMIT = 10
WORDS = {"a": 1}
PATTERN = re.compile("x+")


class Session:
    def __init__(self, name):
        self.name = name


CONNECTION = Session("main")


@dataclass
class Rule:
    least: int

    def holds(self, row):
        return row > self.least


RULES = [Rule(3)]


def unused():
    return 1


def task(rows, at_least=LIMIT):
    """Says something."""
    kept = [clean(r) for r in rows if r > at_least]
    return helpers.deep.total(kept) + math.floor(middle(kept)) + WORDS["a"] + len(PATTERN.findall("x"))


def connected():
    return CONNECTION.name


def ruled(row):
    return all(r.holds(row) for r in RULES)
'''
HELPERS = """
import deep


def clean(row):
    return strip(row)


def strip(row):
    return row - OFFSET


def other():
    return 2


OFFSET = 3
LOCK = object()
OTHER_LOCK = [object()][0]
"""
DEEP = """
def total(rows):
    return sum(rows)


def forgotten():
    return 3
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., CodeClosure]]:
    """Write the project with some texts replaced, import it again, and trace one of its functions."""
    monkeypatch.syspath_prepend(str(tmp_path))
    versions = iter(range(1000))

    def trace(*edits: tuple[str, str], function: str = "task") -> CodeClosure:
        root = tmp_path / f"v{next(versions)}"
        root.mkdir()
        for name, text in (("tasks", TASK), ("helpers", HELPERS), ("deep", DEEP)):
            for before, after in edits:
                text = text.replace(before, after)
            (root / f"{name}.py").write_text(text)
            sys.modules.pop(name, None)
        monkeypatch.syspath_prepend(str(root))
        importlib.invalidate_caches()
        return trace_code(getattr(importlib.import_module("tasks"), function))

    yield trace
    for name in ("tasks", "helpers", "deep"):
        sys.modules.pop(name, None)


SAME = {
    "a comment": ("LIMIT = 10", "# as many as there are\nLIMIT = 10"),
    "a docstring": ("Says something.", "Says something else."),
    "spacing": ("row - OFFSET", "( row\n        -   OFFSET )"),
    "an unused function of a helper": ("return 2", "return 20"),
    "an unused function of the module": ("return 1\n", "return 100\n"),
    "another function of a module that is called": ("return 3", "return 30"),
    "the order and positions of statements": ("LIMIT = 10\nWORDS", "X = 1\n\n\nLIMIT = 10\nWORDS"),
}
OTHER = {
    "the task": ("r > at_least", "r >= at_least"),
    "a helper": ("return strip(row)", "return strip(row) + 1"),
    "a helper's helper": ("row - OFFSET", "row + OFFSET"),
    "a constant of a helper": ("OFFSET = 3", "OFFSET = 4"),
    "a helper reached through modules": ("sum(rows)", "max(rows)"),
    "a default": ("LIMIT = 10", "LIMIT = 11"),
    "a value in a container": ('{"a": 1}', '{"a": 2}'),
    "a compiled pattern": ("x+", "y+"),
    "the object of an imported name": ("mean as middle", "median as middle"),
    "the helper of a name": ("import clean", "import strip as clean"),
}


@pytest.mark.parametrize("edit", SAME.values(), ids=list(SAME))
def test_irrelevant_changes_are_ignored(project: Callable[..., CodeClosure], edit: tuple[str, str]) -> None:
    assert project(edit) == project()


@pytest.mark.parametrize("edit", OTHER.values(), ids=list(OTHER))
def test_relevant_changes_are_detected(project: Callable[..., CodeClosure], edit: tuple[str, str]) -> None:
    assert project(edit) != project()


def test_all_code_is_traced_and_libraries_are_only_named(project: Callable[..., CodeClosure]) -> None:
    closure = project()
    assert closure.unseen == ()
    assert [p["name"] for p in closure.pieces] == ["task", "clean", "strip", "total"]
    assert closure.pieces[0]["uses"]["middle"] == ["library", "statistics:mean"]


def test_an_object_is_identified_by_its_statement(project: Callable[..., CodeClosure]) -> None:
    before = project(function="connected")
    assert before.unseen == ()
    assert before != project(('Session("main")', 'Session("other")'), function="connected")
    assert before != project(("self.name = name", "self.name = name * 2"), function="connected")


def test_objects_in_constants_are_identified_by_fields_and_class_code(
    project: Callable[..., CodeClosure],
) -> None:
    before = project(function="ruled")
    assert before != project(("Rule(3)", "Rule(4)"), function="ruled")
    assert before != project(("row > self.least", "row >= self.least"), function="ruled")
    assert before == project(("    least: int\n", "    least: int  # of all\n"), function="ruled")


class One:
    class Inner:
        size = 1


class Two:
    class Inner:
        size = 2


def both() -> int:
    return INNER().size


INNER = One.Inner


def test_an_object_of_another_module_is_identified_by_its_statement(project: Callable[..., CodeClosure]) -> None:
    for import_, used in (
        ("import clean, LOCK", "LOCK"),
        ("import clean, LOCK as MINE", "MINE"),
        ("import clean", "helpers.LOCK"),
    ):
        inside = (("import clean", import_), ("return CONNECTION.name", f"return {used}"))
        before = project(*inside, function="connected")
        assert before.unseen == ()
        assert before != project(*inside, ("LOCK = object()", "LOCK = object  ()  or 1"), function="connected")
        assert before == project(*inside, ("OTHER_LOCK = [", "OTHER_LOCK = [1, "), function="connected")


def test_all_code_of_a_module_that_is_passed_on_counts(project: Callable[..., CodeClosure]) -> None:
    inside = ("return CONNECTION.name", "return vars(helpers)")
    assert project(inside, function="connected") != project(inside, ("return 2", "return 20"), function="connected")


def test_classes_of_the_same_name_are_distinguished() -> None:
    texts = [p["text"] for p in trace_code(both).pieces]
    assert any("size = 1" in text for text in texts)
    assert not any("size = 2" in text for text in texts)


def test_modules_imported_inside_a_function_count(project: Callable[..., CodeClosure]) -> None:
    inside = (
        "    return CONNECTION.name",
        "    from deep import total\n    import json\n\n    return json, total([1])",
    )
    before = project(inside, function="connected")
    assert before != project(inside, ("sum(rows)", "max(rows)"), function="connected")
    assert before.pieces[0]["uses"]["json"] == ["library", "json"]


def import_missing_module() -> object:
    import no_such_module_anywhere  # type: ignore[import-not-found]  # noqa: PLC0415

    return no_such_module_anywhere.x


def test_a_missing_import_is_unseen() -> None:
    assert trace_code(import_missing_module).unseen == ("no_such_module_anywhere",)


def make(factor: object) -> Callable[[int], object]:
    def scale(x: int) -> object:
        return (x, factor)

    return scale


def test_closure_variables_count() -> None:
    assert trace_code(make(2)) == trace_code(make(2))
    assert trace_code(make(2)) != trace_code(make(3))
    assert trace_code(make(object())).unseen == ("factor",)


TWO, THREE = make(2), make(3)


def two_and_three(x: int) -> object:
    return TWO(x), THREE(x)


def test_functions_of_one_definition_are_distinguished() -> None:
    assert len(trace_code(two_and_three).pieces) == 3


def test_lambdas_and_partials_are_traced() -> None:
    one, same = (lambda x: x + 1), (lambda  x:  x+1)  # fmt: skip
    assert trace_code(one) == trace_code(same)  # all lambdas of a line count, because they cannot be distinguished
    assert trace_code(lambda x: x + 2) != trace_code(one)
    assert trace_code(partial(_add, b=1)) == trace_code(partial(_add, b=1))
    assert trace_code(partial(_add, b=1)) != trace_code(partial(_add, b=2))
    assert trace_code(partial(map, _add)) != trace_code(partial(map, countdown))
    assert not trace_code(partial(map, _add)).unseen


def _add(a: int, b: int) -> int:
    return a + b


def countdown(n: int) -> int:
    return n if n == 0 else countup(n - 1)


def countup(n: int) -> int:
    return countdown(n)


def test_mutually_recursive_functions_are_traced_once() -> None:
    assert [p["name"] for p in trace_code(countdown).pieces] == ["countdown", "countup"]
    assert trace_code(countdown) != trace_code(countup)


def test_code_without_a_file_is_unseen() -> None:
    names: dict[str, Callable[[], int]] = {}
    exec("def f(): return 1", names)
    assert trace_code(names["f"]).unseen == ("f",)


def test_a_script_is_identified_by_its_text_and_imports(project: Callable[..., CodeClosure]) -> None:
    project()
    text = "from helpers import clean\n\nprint(clean(1))  # shown\n"
    before = trace_script(text, "report.py")
    assert trace_script(text.replace("  # shown", ""), "report.py") == before
    project(("row - OFFSET", "row + OFFSET"))
    assert trace_script(text, "report.py") != before
    assert trace_script("print(", "report.py").unseen == ("report.py: not Python",)


def test_an_identity_is_the_same_in_every_process() -> None:
    program = "from tidemill.model.identity import compute_identity; "
    program += "from tidemill.model.canonical_json import to_canonical_json; "
    program += "print(compute_identity(to_canonical_json({'x': {'a', 'b', 'c'}, 'y': (1, 2.5, None)})))"
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program], env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


MEMO: dict[str, int] = {}
MODEL: object = None


def use_globals(key: str) -> object:
    MEMO[key] = len(key)
    return MODEL


def test_later_values_of_globals_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    before = trace_code(use_globals)
    monkeypatch.setitem(MEMO, "x", 1)
    monkeypatch.setitem(globals(), "MODEL", object())
    assert trace_code(use_globals) == before


class CountingList(list[int]):
    """Counts its iterated items."""

    reads = 0

    def __iter__(self) -> Iterator[int]:
        for item in super().__iter__():
            CountingList.reads += 1
            yield item


LONG = CountingList(range(300_000))
HUGE = bytes(300_000_000)
NESTED = [[LONG] * 100] * 100


def read_large_values(key: int) -> object:
    return LONG[key], HUGE[key], NESTED[key]


def test_a_large_value_is_identified_by_its_statement() -> None:
    CountingList.reads = 0
    closure = trace_code(read_large_values)
    assert CountingList.reads <= 4 * MAX_SMALL_SIZE
    assert len(json.dumps(closure.pieces)) < 5_000
    texts = {piece["name"]: piece["text"] for piece in closure.pieces}
    assert texts["LONG"] == "LONG = CountingList(range(300000))"
    assert texts["HUGE"] == "HUGE = bytes(300000000)"
    assert closure.unseen == ()


def test_a_large_value_in_a_closure_is_unseen() -> None:
    large_value = LONG
    CountingList.reads = 0
    closure = trace_code(lambda: large_value)
    assert CountingList.reads <= 2 * MAX_SMALL_SIZE
    assert closure.unseen == ("large_value",)
