"""The `hoodoo` command: Hudi tables from a terminal.

`commands` defines the commands, `render` prints the results; neither knows the format.
"""

from hoodoo.cli.commands import main

__all__ = ["main"]
