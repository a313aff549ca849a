"""The `deltalake` package (delta-rs)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from benches.peers.duck import Digest, digest
from benches.peers.tables import folder, prepare_delta

from .peer import Peer

if TYPE_CHECKING:
    from pathlib import Path

    from benches.peers.case import Case


class DeltaMerge(Peer):
    """MERGE with the same meaning: the newer row wins, the change when both are as new."""

    label = "deltalake MERGE"

    def missing(self) -> str | None:
        """Imports it."""
        try:
            import deltalake  # noqa: F401, PLC0415
        except ImportError as error:
            return str(error)
        return None

    def versions(self) -> dict[str, str]:
        """Gives deltalake's."""
        import deltalake  # noqa: PLC0415

        return {"deltalake": deltalake.__version__}

    def prepare(self, case: Case) -> None:
        """Writes it with deltalake."""
        prepare_delta(case)

    def table(self, case: Case) -> Path:
        """Takes the Delta table."""
        return folder(case, "delta")

    def upsert(self, case: Case, table: Path) -> None:
        """Merges on the partition and the keys."""
        from deltalake import DeltaTable, WriterProperties  # noqa: PLC0415

        data = case.data
        on = " AND ".join(f"t.{column} = s.{column}" for column in (data.partition, *data.keys))
        with pq.ParquetFile(data.updates) as changes:
            source = pa.RecordBatchReader.from_batches(changes.schema_arrow, changes.iter_batches())
            merge = DeltaTable(str(table)).merge(
                source,
                predicate=on,
                source_alias="s",
                target_alias="t",
                writer_properties=WriterProperties(compression="ZSTD", compression_level=1),
            )
            merge = merge.when_matched_update_all(predicate=f"s.{data.ordering} >= t.{data.ordering}")
            merge.when_not_matched_insert_all().execute()

    def digest(self, case: Case, table: Path) -> Digest:
        """Reads it with deltalake."""
        from deltalake import DeltaTable  # noqa: PLC0415

        rows = pa.RecordBatchReader.from_stream(DeltaTable(str(table)).to_pyarrow_table())
        return digest(case.data, "rows", rows=rows)
