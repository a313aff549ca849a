"""Values of conditions and statements in the types of columns: strings that are read, and numbers and times that fit.

Nothing here knows tables or expressions; filters of scans and statements both take their values from here.
"""

from __future__ import annotations
