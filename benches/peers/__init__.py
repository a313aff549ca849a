"""The same copy-on-write upsert by hoodoo and by others, side by side.

    python -m benches.peers [--data lineitem|flights] [--rows N] [--update-share 0.1] [--peers a,b] [--runs K]
                            [--json FILE]

Every peer starts from the same rows, takes the same batch of changes from one Parquet file, and leaves the table
changed on disk. Each works in a process of its own, on the same number of cores, on a fresh copy of its table each time
(copying is not timed), after a warm-up whose result is compared with what DuckDB computes from the data. A figure of
a peer with other rows is never shown.
"""
