"""Tables that change in place, so that whoever is reading one, or moves through it by keyboard, is not thrown out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nicegui import ui

from tidemill.ui.elements import Act, Button, Text, box, link


@dataclass(frozen=True, slots=True)
class Cell:
    """What stands in one place of a table: text, and perhaps where it leads, what it does, or how it stands."""

    text: str
    href: str = ""
    act: Act | None = None
    tone: str = ""

    @property
    def shape(self) -> tuple[bool, bool, str]:
        """Cells of the same shape differ in their text alone, and can become each other."""
        return bool(self.href), self.act is not None, self.tone


Row = Sequence[Cell | str | int]


class Table:
    """A table with headings; those with a leading `>` have numbers below. On a phone each row becomes a small list."""

    def __init__(self, label: str, headings: Sequence[str], *, empty: str = "none") -> None:
        self._headings = [h.removeprefix(">") for h in headings]
        self._numbers = [h.startswith(">") for h in headings]
        self._rows: list[_Row] = []
        self._empty = Text(empty, "p", "muted empty")
        with box("table", "table") as self._table:
            self._table.props["aria-label"] = label
            with box(tag="thead"), box(tag="tr"):
                for heading, number in zip(self._headings, self._numbers, strict=True):
                    Text(heading, "th", "number" if number else "").props["scope"] = "col"
            self._body = box(tag="tbody")

    def show(self, rows: Sequence[Row]) -> None:
        self._empty.set_visibility(not rows)
        self._table.set_visibility(bool(rows))
        for spare in self._rows[len(rows) :]:
            spare.element.delete()
        del self._rows[len(rows) :]
        for index, row in enumerate(rows):
            cells = [c if isinstance(c, Cell) else Cell(str(c)) for c in row]
            if index < len(self._rows) and self._rows[index].become(cells):
                continue
            self._put(index, cells)

    def _put(self, index: int, cells: Sequence[Cell]) -> None:
        with self._body:
            made = _Row(cells, self._headings, self._numbers)
        if index < len(self._rows):
            self._rows[index].element.delete()
            made.element.move(target_index=index)
            self._rows[index] = made
        else:
            self._rows.append(made)


class _Row:
    def __init__(self, cells: Sequence[Cell], headings: Sequence[str], numbers: Sequence[bool]) -> None:
        self._shape = [c.shape for c in cells]
        with box(tag="tr") as self.element:
            self._texts = [_put(*each) for each in zip(cells, headings, numbers, strict=True)]

    def become(self, cells: Sequence[Cell]) -> bool:
        """Show other cells instead; False if they are of another shape."""
        if [c.shape for c in cells] != self._shape:
            return False
        for new, text in zip(cells, self._texts, strict=True):
            text.set_text(new.text)
            if new.href:
                text.props["href"] = new.href
            if isinstance(text, Button) and new.act is not None:
                text.act = new.act
        return True


def _put(cell: Cell, heading: str, number: bool) -> Text | ui.link:
    with Text("", "td", "number" if number else "") as place:
        place.props["data-label"] = heading
        if cell.act is not None:
            return Button(cell.text, cell.act)
        if cell.href:
            return link(cell.text, cell.href)
        if cell.tone:
            return Text(cell.text, classes=f"badge tone-{cell.tone}")
    place.set_text(cell.text)
    return place
