"""Tables of many rows. Rich measures and wraps each cell, which takes a millisecond for each row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

StyledText = tuple[str, Style | None]

_SEPARATOR = "   "
_HEADING = Style(bold=True)


@dataclass(frozen=True, slots=True)
class LargeTable:
    """Prints as a table of rich on an unlimited width: columns are as wide as their widest cell; no cell is wrapped."""

    title: str
    headings: Sequence[str]
    numbers: Sequence[bool]  # columns that are aligned to the right
    rows: Sequence[Sequence[Text | str]]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        table = [[_split_cell(cell) for cell in row] for row in self.rows]
        widths = [max(map(cell_len, (h, *_list_texts(table, n)))) for n, h in enumerate(self.headings)]
        if self.title:
            yield Segment(f"{self.title}\n", _HEADING)
        heads = self._pad_cells([(heading, None) for heading in self.headings], widths)
        yield Segment(_SEPARATOR.join(text for text, _ in heads) + "\n", _HEADING)
        yield Segment("─".join("─" * (width + 2) for width in widths)[1:-1] + "\n")
        for row in table:
            for line in zip_longest(*row, fillvalue=("", None)):
                yield from _join_cells(self._pad_cells(line, widths))

    def _pad_cells(self, line: Iterable[StyledText], widths: Sequence[int]) -> Iterator[StyledText]:
        for (text, style), width, is_number in zip(line, widths, self.numbers, strict=True):
            padding = " " * (width - cell_len(text))
            yield (padding + text if is_number else text + padding), style


def _join_cells(cells: Iterable[StyledText]) -> Iterator[Segment]:
    """One segment for all adjacent cells without a style."""
    plain = ""
    for column, (text, style) in enumerate(cells):
        plain += _SEPARATOR if column else ""
        if style is None:
            plain += text
            continue
        yield from (Segment(plain), Segment(text, style))
        plain = ""
    yield Segment(plain + "\n")


def _split_cell(cell: Text | str) -> list[StyledText]:
    """The lines of a cell with their style."""
    style = Style.parse(str(cell.style)) if isinstance(cell, Text) and cell.style else None
    return [(line, style) for line in str(cell).split("\n")]


def _list_texts(table: Iterable[Sequence[Sequence[StyledText]]], column: int) -> Iterator[str]:
    return (text for row in table for text, _ in row[column])
