"""Merge-on-read tables and the record merger: hoodoo beside Hudi, hudi-rs, DuckDB, polars, Spark SQL and the floor.

    python -m benches.peers.merge_on_read [--only append,fixed,read,compact,merge,custom,spark] [--formats avro,parquet]
                                          [--rows N] [--runs K] [--no-hudi] [--hudi-rs PYTHON] [--json FILE]

The table: rows of 6 columns in 4 partitions, written by `bulk_insert`, then 4 delta commits that change 10 % of the
rows each. Every system works in a process of its own, on the same cores, and warms up first; the kernel says how much
memory it had at most. What it made of the rows is compared with what DuckDB computes from the data; a system with other
rows gets no figure.
"""
