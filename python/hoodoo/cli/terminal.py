"""A console that shows the control characters of a table, and does not obey them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.segment import Segment

from hoodoo.display import visible

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import ConsoleOptions, RenderableType

__all__ = ["SafeConsole"]


class SafeConsole(Console):
    r"""A console of rich for strings that others wrote: names, values, messages of errors.

    Examples:
        >>> import io
        >>> out = SafeConsole(file=io.StringIO(), width=40)
        >>> out.print("a\x1b]0;title\x07b")
        >>> out.file.getvalue()
        'a␛]0;titleb\n'
    """

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the segments of an object; see rich."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)
