"""The colours of actions, on terminals, pages and pictures."""

from __future__ import annotations

__all__ = ["COLOURS", "colour", "order"]

# Of medium lightness, so that they are visible on light and dark backgrounds. Writes are blue, services green to amber,
# rollbacks and restores red. The order is that of the lanes.
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
    """Return the colour of an action, as `#rrggbb`.

    Args:
        action: Its name; an unknown action has a colour too.

    Returns:
        The colour.
    """
    return COLOURS.get(action, _OTHER)


def order(action: str) -> tuple[int, str]:
    """Return the sort key of an action: writes first, unknown actions last.

    Args:
        action: Its name.

    Returns:
        A key for `sorted`.
    """
    names = list(COLOURS)
    return (names.index(action) if action in COLOURS else len(names), action)
