"""One colour for each action, on terminals, pages and pictures alike."""

from __future__ import annotations

__all__ = ["COLOURS", "colour", "order"]

# Of middling lightness, so that they show on light and on dark ground. Writes are blue, what tidies the table is green
# to amber, what takes something back is red. The order is that of the lanes.
COLOURS = {
    "commit": "#3b82f6",
    "deltacommit": "#0ea5e9",
    "replacecommit": "#8b5cf6",
    "compaction": "#10b981",
    "logcompaction": "#14b8a6",
    "clustering": "#a855f7",
    "clean": "#d97706",
    "rollback": "#ef4444",
    "restore": "#db2777",
    "savepoint": "#b58900",
    "indexing": "#65a30d",
}
_OTHER = "#64748b"


def colour(action: str) -> str:
    """Gives the colour of an action, as `#rrggbb`.

    Args:
        action: Its name; one that is not known has a colour too.

    Returns:
        The colour.
    """
    return COLOURS.get(action, _OTHER)


def order(action: str) -> tuple[int, str]:
    """Gives what actions are sorted by: writes first, unknown ones last.

    Args:
        action: Its name.

    Returns:
        A key for `sorted`.
    """
    names = list(COLOURS)
    return (names.index(action) if action in COLOURS else len(names), action)
