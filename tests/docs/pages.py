"""Reads the code blocks of a Markdown page: files of a project, commands, and fragments of Python."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_FILE_NAME = re.compile(r"(?:#|--) ([\w./-]+\.\w+)\n")


@dataclass(frozen=True)
class CodeBlock:
    """A fenced block: its language and its text."""

    language: str
    text: str

    @property
    def file_name(self) -> str | None:
        """The project file that the block shows: its first line is a comment with the file's name."""
        match = _FILE_NAME.match(self.text)
        return match[1] if match and self.language != "sh" else None

    @property
    def content(self) -> str:
        """The text of the file; formats without comments lose the line with the name."""
        return self.text if self.language in {"python", "toml"} else self.text.split("\n", 1)[1]


@dataclass(frozen=True)
class Command:
    """One line of a shell block."""

    words: tuple[str, ...]
    stdin: str | None
    in_background: bool


def read_blocks(page: Path) -> list[CodeBlock]:
    return [CodeBlock(language, text) for language, text in _BLOCK.findall(page.read_text(encoding="utf-8"))]


def parse_commands(block: CodeBlock) -> Iterator[Command]:
    for line in block.text.splitlines():
        words = shlex.split(line, comments=True)
        if not words:
            continue
        in_background = words[-1] == "&"
        words = words[:-1] if in_background else words
        stdin = words[words.index("<") + 1] if "<" in words else None
        words = words[: words.index("<")] if stdin else words
        yield Command(tuple(words), stdin, in_background)
