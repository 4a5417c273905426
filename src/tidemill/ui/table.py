"""Tables that are updated in place, so that reading and keyboard navigation are not interrupted."""

from collections.abc import Iterable, Sequence
from typing import Generic

from nicegui import ui

from tidemill.display.table import CellContent, Columns, T, TableCell, read_rows
from tidemill.ui.elements import ActionButton, HtmlText, add_box, add_link

MISSING = "–"

Row = Sequence[CellContent]


def to_cell(content: CellContent) -> TableCell:
    match content:
        case TableCell():
            return content
        case None:
            return TableCell(MISSING)
        case str() | int():
            return TableCell(str(content))
        case _:
            return TableCell(", ".join(content) or MISSING)


def _get_shape(cell: TableCell) -> tuple[bool, bool, str]:
    """Cells of the same shape differ only in their text, and can be updated in place."""
    return bool(cell.href), cell.action is not None, cell.tone


class LiveTable:
    """A table with headings; a leading `>` marks a numeric column. On a phone each row becomes a small list."""

    def __init__(self, label: str, headings: Sequence[str], *, empty: str = "none") -> None:
        self._headings = [h.removeprefix(">") for h in headings]
        self._numbers = [h.startswith(">") for h in headings]
        self._rows: list[_TableRow] = []
        self._empty = HtmlText(empty, "p", "muted empty")
        with add_box("table", "table") as self._table:
            self._table.props["aria-label"] = label
            with add_box(tag="thead"), add_box(tag="tr"):
                for heading, number in zip(self._headings, self._numbers, strict=True):
                    HtmlText(heading, "th", "number" if number else "").props["scope"] = "col"
            self._body = add_box(tag="tbody")

    def show_rows(self, rows: Sequence[Row]) -> None:
        self._empty.set_visibility(not rows)
        self._table.set_visibility(bool(rows))
        for spare in self._rows[len(rows) :]:
            spare.element.delete()
        del self._rows[len(rows) :]
        for index, row in enumerate(rows):
            cells = [to_cell(content) for content in row]
            if index < len(self._rows) and self._rows[index].update_cells(cells):
                continue
            self._place_row(index, cells)

    def _place_row(self, index: int, cells: Sequence[TableCell]) -> None:
        with self._body:
            row = _TableRow(cells, self._headings, self._numbers)
        if index < len(self._rows):
            self._rows[index].element.delete()
            row.element.move(target_index=index)
            self._rows[index] = row
        else:
            self._rows.append(row)


class ValueTable(LiveTable, Generic[T]):
    """A table of values, whose columns read the cells."""

    def __init__(self, label: str, columns: Columns[T], *, empty: str = "none") -> None:
        super().__init__(label, [column.heading for column in columns], empty=empty)
        self._columns = columns

    def show_values(self, values: Iterable[T], now: float = 0.0) -> None:
        self.show_rows(read_rows(self._columns, values, now))


class _TableRow:
    def __init__(self, cells: Sequence[TableCell], headings: Sequence[str], numbers: Sequence[bool]) -> None:
        self._shape = [_get_shape(c) for c in cells]
        with add_box(tag="tr") as self.element:
            self._texts = [_add_cell(*arguments) for arguments in zip(cells, headings, numbers, strict=True)]

    def update_cells(self, cells: Sequence[TableCell]) -> bool:
        """Show other cells instead; returns False if they have another shape."""
        if [_get_shape(c) for c in cells] != self._shape:
            return False
        for new, text in zip(cells, self._texts, strict=True):
            text.set_text(new.text)
            if new.href:
                text.props["href"] = new.href
            if isinstance(text, ActionButton) and new.action is not None:
                text.action = new.action
        return True


def _add_cell(cell: TableCell, heading: str, number: bool) -> HtmlText | ui.link:
    with HtmlText("", "td", "number" if number else "") as element:
        element.props["data-label"] = heading
        if cell.action is not None:
            return ActionButton(cell.text, cell.action)
        if cell.href:
            return add_link(cell.text, cell.href)
        if cell.tone:
            return HtmlText(cell.text, classes=f"badge tone-{cell.tone}")
    element.set_text(cell.text)
    return element
