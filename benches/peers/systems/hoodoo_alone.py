"""hoodoo in a Python process."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

from ..case import Case
from ..duck import Digest, digest
from ..tables import hudi_table
from .peer import Peer


class HoodooAlone(Peer):
    """`hoodoo.write` without Spark."""

    label = "hoodoo"

    def missing(self) -> str | None:
        """Imports it."""
        try:
            import hoodoo  # noqa: F401, PLC0415
        except ImportError as error:
            return str(error)
        return None

    def versions(self) -> dict[str, str]:
        """Gives hoodoo's."""
        import hoodoo  # noqa: PLC0415

        return {"hoodoo": hoodoo.__version__}

    def table(self, case: Case) -> Path:
        """Writes it with hoodoo."""
        return hudi_table(case)

    def upsert(self, case: Case, table: Path) -> None:
        """Streams the changes from their file into the table."""
        import hoodoo  # noqa: PLC0415

        with pq.ParquetFile(case.data.updates) as changes:
            rows = changes.iter_batches()
            reader = hoodoo_reader(changes, rows)
            options = {**case.options, "hoodie.threads": str(case.cores)}
            hoodoo.write(reader, table, operation="upsert", options=options)

    def digest(self, case: Case, table: Path) -> Digest:
        """Scans it with hoodoo."""
        import hoodoo  # noqa: PLC0415

        rows = hoodoo.Table(table, options=case.options).scan(columns=list(case.data.columns))
        return digest(case.data, "rows", rows=rows)


def hoodoo_reader(changes: pq.ParquetFile, rows: object) -> object:
    """Gives batches as a stream with a schema."""
    import pyarrow as pa  # noqa: PLC0415

    return pa.RecordBatchReader.from_batches(changes.schema_arrow, rows)
