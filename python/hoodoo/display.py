"""How objects show themselves in notebooks and on terminals: a title, facts, and a short grid.

A class describes itself by `_view`; `Displayed` makes HTML and rich's output of that. The HTML is static and escaped.
"""

from __future__ import annotations

import html
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from hoodoo.exceptions import HudiError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import RenderableType

__all__ = ["Displayed", "ListListing", "TupleListing", "View", "html_of", "human_size", "rich_of", "visible"]

T = TypeVar("T")

# Rows that are shown of a grid, and characters of a value.
MOST_ROWS = 20
MOST_CHARACTERS = 300
_KIBI = 1024
# Fields of dataclasses that count bytes.
_BYTES = frozenset({"size", "log_size", "base_size", "bytes", "bytes_written"})
# Fields that a grid leaves out, and fields of which it shows the number of items.
_LEFT_OUT, _COUNTED = frozenset({"base_file"}), frozenset({"log_files"})

# What a terminal may obey, as characters that it only shows: Unicode has pictures of the first, and none of C1.
_CONTROLS = {code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\t\n"}
_CONTROLS |= {0x7F: "\u2421", **dict.fromkeys(range(0x80, 0xA0), "\ufffd")}


def visible(text: str) -> str:
    r"""Return a string without control characters, with which a name or a value could command a terminal.

    Args:
        text: The string.

    Returns:
        The string with a picture of each control character. Tabs and line feeds stay.

    Examples:
        >>> visible("a\x1b[31m\x9b1m")
        'a␛[31m�1m'
    """
    return text if text.isprintable() else text.translate(_CONTROLS)


def human_size(size: float) -> str:
    """Return a number of bytes for people.

    Args:
        size: Bytes.

    Returns:
        The number with a binary unit.

    Examples:
        >>> human_size(512), human_size(1536), human_size(3 * 1024**3)
        ('512 B', '1.5 KiB', '3.0 GiB')
    """
    if size < _KIBI:
        return f"{size:.0f} B"
    for unit in ("KiB", "MiB", "GiB"):
        size /= _KIBI
        if size < _KIBI:
            return f"{size:.1f} {unit}"
    return f"{size / _KIBI:.1f} TiB"


@dataclass(frozen=True)
class View:
    """What is shown of an object.

    Attributes:
        title: The class and what it is about.
        facts: Names with values.
        headings: Headings of the grid; none for no grid.
        rows: Its rows. The first `MOST_ROWS` are shown.
        total: Number of rows there are, when `rows` has not all of them.
        note: A sentence below.
    """

    title: str
    facts: Sequence[tuple[str, object]] = ()
    headings: Sequence[str] = ()
    rows: Sequence[Sequence[object]] = ()
    total: int | None = None
    note: str = ""

    @property
    def left_out(self) -> int:
        """How many rows are not shown."""
        return (len(self.rows) if self.total is None else self.total) - min(len(self.rows), MOST_ROWS)


class Displayed:
    """Base of classes that notebooks and rich show by their `_view`."""

    def _view(self) -> View:
        """Return what is shown. It scans no data."""
        raise NotImplementedError

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: static, escaped, without scripts."""
        return html_of(self._safe_view())

    def __rich__(self) -> RenderableType:
        """Return what rich prints on terminals."""
        return rich_of(self._safe_view())

    def _safe_view(self) -> View:
        try:
            return self._view()
        except HudiError as error:
            # To show an object raises nothing: it may be the last value of a cell.
            return View(repr(self), note=f"{type(error).__name__}: {error}")


def shown(value: object) -> str:
    """Return a value as a short string.

    Args:
        value: The value: numbers get separators of thousands, None is empty, sequences are joined.

    Returns:
        At most `MOST_CHARACTERS` characters.

    Examples:
        >>> shown(12345), shown(None), shown(("a", "b")), shown(True)
        ('12,345', '', 'a, b', 'yes')
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.3f}"
    text = visible(", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value))
    return text if len(text) <= MOST_CHARACTERS else text[: MOST_CHARACTERS - 1] + "…"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def html_of(view: View) -> str:
    """Return a view as HTML.

    Args:
        view: The view.

    Returns:
        One `div`, with every string escaped.

    Examples:
        >>> html_of(View("a<b", [("n", 1000)])).count("a&lt;b")
        1
    """

    def cell(value: object, tag: str = "td") -> str:
        side = "right" if _is_number(value) else "left"
        return f'<{tag} style="text-align:{side}">{html.escape(shown(value))}</{tag}>'

    parts = [f"<strong>{html.escape(shown(view.title))}</strong>"]
    if view.facts:
        rows = "".join(
            f'<tr>{cell(name, "th")}<td style="text-align:left">{html.escape(shown(value))}</td></tr>'
            for name, value in view.facts
        )
        parts.append(f"<table>{rows}</table>")
    if view.headings:
        head = "".join(cell(name, "th") for name in view.headings)
        body = "".join(f"<tr>{''.join(map(cell, row))}</tr>" for row in view.rows[:MOST_ROWS])
        parts.append(f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")
    parts += [f"<div><em>{html.escape(text)}</em></div>" for text in _below(view)]
    return f'<div class="hoodoo" style="overflow-x:auto">{"".join(parts)}</div>'


def _below(view: View) -> list[str]:
    more = [f"{view.left_out:,} more"] if view.headings and view.left_out > 0 else []
    return [*more, *([view.note] if view.note else [])]


def rich_of(view: View) -> RenderableType:
    """Return a view as rich prints it.

    Args:
        view: The view.

    Returns:
        An object that rich prints, without markup of its own.
    """
    from rich import box  # noqa: PLC0415 - only where something is printed
    from rich.console import Group  # noqa: PLC0415
    from rich.table import Table as Grid  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    parts: list[RenderableType] = [Text(shown(view.title), style="bold")]
    if view.facts:
        facts = Grid(show_header=False, box=None, pad_edge=False)
        facts.add_column(style="dim", no_wrap=True)
        facts.add_column(overflow="fold")
        for name, value in view.facts:
            facts.add_row(Text(name), Text(shown(value)))
        parts.append(facts)
    if view.headings:
        grid = Grid(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False)
        for at, heading in enumerate(view.headings):
            right = any(_is_number(row[at]) for row in view.rows[:MOST_ROWS])
            grid.add_column(Text(heading), justify="right" if right else "left", overflow="fold")
        for row in view.rows[:MOST_ROWS]:
            grid.add_row(*(Text(shown(value)) for value in row))
        parts.append(grid)
    parts += [Text(text, style="dim") for text in _below(view)]
    return Group(*parts)


def _view_of_items(title: str, items: Sequence[Any]) -> View:
    found: list[Any] = list(items[:MOST_ROWS])
    if not found or not is_dataclass(found[0]):
        return View(f"{len(items):,} {title}")
    names = [field.name for field in fields(found[0]) if field.name not in _LEFT_OUT]

    def value(item: object, name: str) -> object:
        given = getattr(item, name)
        if name in _COUNTED:
            return len(given)
        return human_size(given) if name in _BYTES and isinstance(given, int) else given

    rows = [[value(item, name) for name in names] for item in found]
    return View(
        f"{len(items):,} {title}", headings=[name.replace("_", " ") for name in names], rows=rows, total=len(items)
    )


class TupleListing(Displayed, tuple[T, ...], Generic[T]):  # noqa: SLOT001 - it has a title
    """A tuple of objects that shows itself as a grid. It is equal to the plain tuple.

    Examples:
        >>> TupleListing.of("savepoints", []) == ()
        True
    """

    title: str

    @classmethod
    def of(cls, title: str, items: Iterable[T]) -> TupleListing[T]:
        """Return a tuple of items; `title` says what they are."""
        made = cls(items)
        made.title = title
        return made

    def _view(self) -> View:
        return _view_of_items(getattr(self, "title", "items"), self)


class ListListing(Displayed, list[T], Generic[T]):
    """A list of objects that shows itself as a grid. It is equal to the plain list.

    Examples:
        >>> ListListing.of("instants", [1, 2]) == [1, 2]
        True
    """

    title: str

    @classmethod
    def of(cls, title: str, items: Iterable[T]) -> ListListing[T]:
        """Return a list of items; `title` says what they are."""
        made = cls(items)
        made.title = title
        return made

    def _view(self) -> View:
        return _view_of_items(getattr(self, "title", "items"), self)
