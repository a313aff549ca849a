"""How the cost of each operation grows with what a table has: partitions, files, columns, log files, instants, rows."""
