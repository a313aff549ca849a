"""hoodoo in a Python process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from benches.peers.duck import Digest, digest
from benches.peers.tables import folder, prepare_hudi

from .peer import Peer

if TYPE_CHECKING:
    from pathlib import Path

    from benches.peers.case import Case


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

    def prepare(self, case: Case) -> None:
        """Writes it with hoodoo."""
        prepare_hudi(case)

    def table(self, case: Case) -> Path:
        """Takes the Hudi table."""
        return folder(case, "hudi")

    def upsert(self, case: Case, table: Path) -> None:
        """Streams the changes from their file into the table."""
        import hoodoo  # noqa: PLC0415

        with pq.ParquetFile(case.data.updates) as changes:
            reader = pa.RecordBatchReader.from_batches(changes.schema_arrow, changes.iter_batches())
            options = {**case.options, "hoodoo.threads": str(case.cores)}
            hoodoo.write(reader, table, operation="upsert", options=options)

    def digest(self, case: Case, table: Path) -> Digest:
        """Scans it with hoodoo."""
        import hoodoo  # noqa: PLC0415

        rows = hoodoo.Table(table, options=case.options).scan(columns=list(case.data.columns))
        return digest(case.data, "rows", rows=rows)
