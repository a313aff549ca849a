"""One system at one task, in a process of its own: `python -m benches.peers.clustering.worker JOB.json`."""

from __future__ import annotations

from benches.peers.clustering.systems import system
from benches.peers.merge_on_read.worker import main

if __name__ == "__main__":
    main(system)
