"""Check the project's language: retired words, and functions whose name is a bare participle.

The rules are in CONTRIBUTING.md. A finding is fixed by the word that is printed with it; what has to stay is listed
in ALLOWED with the reason. Runs with the standard library alone: `python scripts/check_words.py [PATH ...]`.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("src", "benchmarks", "tests", "examples", "scripts", "docs", "README.md", "CONTRIBUTING.md", "Makefile")

RETIRED = {
    r"widgets?": "operator",
    r"promises?|promised": "freshness target",
    r"upkeep|chores?|janitors?|keeps? house|keeping house": "maintenance",
    r"tidy|tidies|tidied|tidying": "vacuum, or maintenance",
    r"chop|chops|chopped|chopping": "catch-up limit",
    r"errands?": "planned run, or action",
    r"outlook": "planning context",
    r"workshop": "one-shot service",
    r"parcels?": "insert batch",
    r"wish|wishes|wished|heed|heeds": "setting override, apply",
    r"settling|trailing edge": "watermark",
    r"synch": "barrier",
    r"by hand|at hand": "locally, on the driver",
    r"whoever|somebody|nobody|anybody|everybody": "the caller, a reader, a user; no reader",
    r"whatever|wherever": "any, every; wherever: in every place where",
    r"what is|what was|who is": "the noun itself: the pending rows, the last state",
    r"stands?|goes on|is to be|are to be|of its own|one's own|as it were|the word for": "is, continues, must be",
}
"""Retired phrases, as regular expressions of whole words, and what to write instead."""

ANY_RETIRED = re.compile(rf"\b(?:{'|'.join(RETIRED)})\b", re.IGNORECASE)

PARTICIPLES = frozenset(
    [
        "found",
        "made",
        "kept",
        "held",
        "told",
        "said",
        "known",
        "given",
        "taken",
        "seen",
        "done",
        "gone",
        "left",
        "lost",
        "put",
        "sent",
        "spent",
        "stood",
        "meant",
        "brought",
        "bound",
        "begun",
        "chosen",
        "drawn",
        "grown",
        "laid",
        "learnt",
        "met",
        "paid",
        "shown",
        "thought",
        "understood",
        "worn",
        "written",
    ]
)
"""Irregular participles; the regular ones end in -ed."""

ALLOWED = {
    ("scripts/check_words.py", "*"): "this list names the retired words",
    ("src/tidemill/app/settings.py", "upkeep"): "a section of earlier releases, which fails with the new name",
    ("src/tidemill/app/settings.py", "chop"): "a key of earlier releases",
    ("src/tidemill/app/settings.py", "chores"): "a key of earlier releases",
    ("src/tidemill/app/registry.py", "together"): "a key of earlier releases",
    ("src/tidemill/app/wiring.py", "tidy"): "a method of earlier releases",
    ("src/tidemill/api/flow.py", "synch"): "a method of earlier releases",
    ("src/tidemill/api/flow.py", "keyed"): "a decorator that users write: @wf.keyed, as Flink's keyed streams",
    ("src/tidemill/client.py", "chop"): "a keyword of earlier releases",
    ("src/tidemill/cli/moved.py", "*"): "commands and options of earlier releases",
    ("src/tidemill/sim/staleness/workload_file.py", "chop"): "a key of earlier releases",
    ("src/tidemill/wire/server_schemas.py", "chop"): "a field of earlier releases",
    ("src/tidemill/model/renamed.py", "*"): "examples of names of earlier releases",
    ("tests/model/test_renamed.py", "*"): "names of earlier releases",
    ("tests/acceptance/test_earlier_release.py", "*"): "names of earlier releases",
    ("src/tidemill/demo/workflow.py", "tagged"): "a task has the name of the table that it writes",
    ("src/tidemill/demo/workflow.py", "shingled"): "a task has the name of the table that it writes",
    ("src/tidemill/demo/workflow.py", "deduped"): "a task has the name of the table that it writes",
    ("examples/patterns/data_view.py", "parsed"): "a task has the name of the table that it writes",
    ("docs/glossary.md", "*"): "its last column has the papers' words and those of earlier releases",
    ("CHANGELOG.md", "*"): "says what the words of earlier releases became",
    ("src/tidemill/catalog/migrations/*", "*"): "migrations are frozen once they are committed",
    ("tests/oracle/corpus/*", "*"): "queries as users write them",
    ("tests/server/mill.py", "put"): "the HTTP method",
}
"""What may stay: a path pattern and a word or function name ('*': any), and why."""


@dataclass(frozen=True)
class Finding:
    """One place that breaks a rule."""

    path: str
    line: int
    word: str
    instead: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.word!r}: write {self.instead}"


@cache
def locate_retired_words(prose: str) -> tuple[tuple[int, str], ...]:
    """The offsets of retired phrases; most pieces of prose are names that occur often."""
    return tuple((match.start(), match[0].lower()) for match in ANY_RETIRED.finditer(prose))


def find_retired_words(path: str, line: int, prose: str) -> Iterator[Finding]:
    """Retired phrases in one piece of prose that starts at a line."""
    for start, word in locate_retired_words(prose):
        instead = next(instead for pattern, instead in RETIRED.items() if re.fullmatch(pattern, word))
        yield Finding(path, line + prose.count("\n", 0, start), word, instead)


def is_bare_participle(name: str) -> bool:
    bare = name.strip("_")
    return "_" not in bare and (bare in PARTICIPLES or re.fullmatch(r"[a-z]{3,}ed", bare) is not None)


def is_property(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Properties may be adjectives."""
    return any(re.search(r"property|setter", ast.unparse(decorator)) for decorator in function.decorator_list)


def check_python(path: str, text: str) -> Iterator[Finding]:
    """Comments, strings (docstrings, messages, help texts) and identifiers of a module."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NAME:
            yield from find_retired_words(path, token.start[0], token.string.replace("_", " "))
        elif token.type in {tokenize.COMMENT, tokenize.STRING} or tokenize.tok_name[token.type] == "FSTRING_MIDDLE":
            yield from find_retired_words(path, token.start[0], token.string)
    if not any(map(is_bare_participle, re.findall(r"\bdef (\w+)", text))):
        return
    for node in ast.walk(ast.parse(text)):
        is_function = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and not is_property(node)
        if is_function and is_bare_participle(node.name):
            yield Finding(path, node.lineno, node.name, "a verb and a noun: what the function does")


def check_file(path: Path) -> Iterator[Finding]:
    name, text = path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
    findings = check_python(name, text) if path.suffix == ".py" else find_retired_words(name, 1, text)
    return (finding for finding in findings if not is_allowed(finding))


def is_allowed(finding: Finding) -> bool:
    return any(fnmatch(finding.path, path) and word in {"*", finding.word} for path, word in ALLOWED)


def list_files(sources: Iterable[str]) -> Iterator[Path]:
    for source in sources:
        path = ROOT / source
        found = sorted(path.rglob("*")) if path.is_dir() else [path]
        yield from (
            file for file in found if file.suffix in {".py", ".md", ".js", ".css", ".toml"} or file.name == "Makefile"
        )


def main() -> int:
    findings = [finding for path in list_files(sys.argv[1:] or SOURCES) for finding in check_file(path)]
    for finding in findings:
        print(finding)
    if findings:
        print(f"{len(findings)} retired words; CONTRIBUTING.md has the rules, scripts/check_words.py the exceptions")
    return bool(findings)


if __name__ == "__main__":
    sys.exit(main())
