"""`python -m hoodoo.cli` is the `hoodoo` command."""

import sys

from hoodoo.cli.commands import main

sys.exit(main())
