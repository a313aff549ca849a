//! The metadata table.

use std::collections::BTreeMap;

use arrow_pyarrow::{IntoPyArrow, Table};
use hoodoo::metadata_table::MetadataTable;
use hoodoo::services::verify::{Problem, verify_metadata_table};
use hoodoo::table::HudiTable;
use pyo3::prelude::*;

use crate::call;
use crate::table::NativeTable;

/// A snapshot of the metadata table.
#[pyclass(frozen, module = "hoodoo._native")]
pub struct NativeMetadataTable {
    table: MetadataTable,
    of: HudiTable,
}

#[pymethods]
impl NativeMetadataTable {
    /// The metadata table of a table, if it has one.
    #[staticmethod]
    fn open(py: Python<'_>, table: &NativeTable) -> PyResult<Option<Self>> {
        let of = call::run(py, || table.table.reload())?;
        let found = call::run(py, || of.metadata_table())?;
        Ok(found.map(|table| Self { table, of }))
    }

    /// Names of the partitions.
    fn names(&self) -> Vec<String> {
        self.table.partitions().to_vec()
    }

    /// Partitions as (name, shards, bytes of base files, log files, bytes of log files, latest instant).
    #[allow(clippy::type_complexity)]
    fn partitions(&self, py: Python<'_>) -> PyResult<Vec<(String, usize, u64, usize, u64, Option<String>)>> {
        let found = call::run(py, || {
            self.table.partitions().iter().map(|name| self.table.summary(name)).collect::<Result<Vec<_>, _>>()
        })?;
        Ok(found.into_iter().map(|p| (p.name, p.shards, p.base_size, p.logs, p.log_size, p.latest_instant)).collect())
    }

    /// Problems and counts of what was compared, as those of the table's own verification.
    #[allow(clippy::type_complexity)]
    fn verify(&self, py: Python<'_>) -> PyResult<(Vec<(&'static str, String, String, String)>, BTreeMap<String, u64>)> {
        let report = call::run(py, || verify_metadata_table(&self.of.reload()?))?;
        let row = |p: Problem| (p.severity.name(), p.subject, p.message, p.remedy);
        Ok((report.problems.into_iter().map(row).collect(), report.checked))
    }

    /// The rows of a partition.
    fn rows<'py>(&self, py: Python<'py>, partition: &str) -> PyResult<Bound<'py, PyAny>> {
        let rows = call::run(py, || {
            let rows = self.table.rows(partition)?;
            Ok(Table::try_new(rows.batches, rows.schema)?)
        });
        rows?.into_pyarrow(py)
    }
}
