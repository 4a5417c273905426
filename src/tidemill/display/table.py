"""Tables as data: columns that know their heading and how to read a cell from a value."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar
from urllib.parse import quote

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)

Action = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class TableCell:
    """A cell of a table: text, and optionally a page that it links to, an action on the page, or a tone."""

    text: str
    href: str = ""
    action: Action | None = None
    tone: str = ""


CellContent = TableCell | str | int | Sequence[str] | None
"""Several texts are shown as lines; None is a missing value."""


@dataclass(frozen=True)
class Column(Generic[T_contra]):
    """A column; a heading that begins with '>' has numbers below it. `read` gets the value of a row, and the time."""

    heading: str
    read: Callable[[T_contra, float], CellContent]


Columns = Sequence[Column[T]]


def read_rows(columns: Columns[T], values: Iterable[T], now: float) -> list[list[CellContent]]:
    return [[column.read(value, now) for column in columns] for value in values]


def select_columns(columns: Columns[T], *headings: str) -> tuple[Column[T], ...]:
    by_heading = {column.heading.removeprefix(">"): column for column in columns}
    return tuple(by_heading[heading] for heading in headings)


def show_state(state: str, suffix: str = "") -> TableCell:
    return TableCell(f"{state}{suffix}", tone=str(state))


def format_channel_url(name: str) -> str:
    """
    >>> format_channel_url("news.tagged")
    '/channels/news.tagged'
    """
    return f"/channels/{quote(name, safe='')}"


def format_flow_url(name: str) -> str:
    return f"/flows/{quote(name, safe='')}"


def format_run_url(run: int) -> str:
    return f"/runs/{run}"


def link_block(block: int) -> TableCell:
    return TableCell(str(block), f"/blocks/{block}")


def link_channel(name: str) -> TableCell:
    return TableCell(name, format_channel_url(name))


def link_flow(name: str) -> TableCell:
    return TableCell(name, format_flow_url(name))


def link_run(run: int | None) -> TableCell | None:
    return None if run is None else TableCell(str(run), format_run_url(run))
