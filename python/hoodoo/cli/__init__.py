"""The `hoodoo` command: looks into Hudi tables from a terminal.

`commands` says what there is to ask, `render` how the answers look; neither knows anything of the format.
"""

from hoodoo.cli.commands import main

__all__ = ["main"]
