"""Clustering: hoodoo beside Hudi, DuckDB, polars, a plain copy of the files and the floor.

    python -m benches.peers.clustering [--only sorted,sorted-by-two,presorted,unsorted,queries] [--rows N] [--outputs N]
                                       [--runs K] [--no-hudi] [--json FILE]

The table: TPC-H lineitem without partitions, copy-on-write, 16 base files, in the order of its keys, in which the sort
columns are at random. All files are one group of the plan, and become about as many again. Every system works in a
process of its own, on the same cores, on a copy of the table, and warms up first; the kernel says how much memory it
had at most. Its rows are compared with those that the table was made of, and looked at in the order in which they lie;
a system with other rows, or whose rows are not sorted, gets no figure.
"""
