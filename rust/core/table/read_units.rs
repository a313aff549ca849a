//! Queries whose tasks run in several processes: what each task reads.

use arrow::datatypes::SchemaRef;
use serde::{Deserialize, Serialize};

use super::change_data::ChangeUnit;
use super::current::current;
use super::scan::{PlannedQuery, ScanRequest};
use super::{HudiTable, ReadQuery};
use crate::error::{Error, Result};
use crate::file_group::FileSlice;
use crate::parallel::BatchStream;

/// What one task of a query reads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReadUnit {
    /// The rows of a file slice.
    Slice(FileSlice),
    /// The changes of a commit in a file group.
    Changes(Box<ChangeUnit>),
}

/// A query whose tasks run in several processes.
#[derive(Debug, Clone)]
pub struct PlannedRead {
    /// What its tasks read, in the order of the result.
    pub units: Vec<ReadUnit>,
    /// The columns of the result.
    pub schema: SchemaRef,
    /// Instant of the newest state that is seen, for `as_of`; none of a table without commits, and of a query of changes.
    pub as_of: Option<String>,
    /// Of an incremental query: the instants whose rows are wanted.
    pub written_by: Option<Vec<String>>,
}

impl HudiTable {
    /// Takes a query apart.
    ///
    /// # Errors
    /// Those of [`HudiTable::plan_read`] and [`HudiTable::plan_change_data`].
    pub fn plan_units(&self, query: &ReadQuery, request: &ScanRequest) -> Result<PlannedRead> {
        if let ReadQuery::ChangeData { since, until } = query {
            let plan = current(|| self.plan_change_data(since, until.as_deref(), request))?;
            let units = plan.units.into_iter().map(|unit| ReadUnit::Changes(Box::new(unit))).collect();
            return Ok(PlannedRead { units, schema: plan.schema, as_of: None, written_by: None });
        }
        let PlannedQuery { plan, as_of, written_by } = self.plan_read(query, request)?;
        let units = plan.slices.into_iter().map(ReadUnit::Slice).collect();
        Ok(PlannedRead { units, schema: plan.schema, as_of, written_by })
    }

    /// Streams some units of a query, all of them of one kind.
    ///
    /// # Errors
    /// Those of [`HudiTable::scan_slices`] and [`HudiTable::read_change_units`].
    pub fn read_units(&self, units: Vec<ReadUnit>, request: &ScanRequest) -> Result<BatchStream> {
        let (mut slices, mut changes) = (Vec::new(), Vec::new());
        for unit in units {
            match unit {
                ReadUnit::Slice(slice) => slices.push(slice),
                ReadUnit::Changes(unit) => changes.push(*unit),
            }
        }
        match (slices.is_empty(), changes.is_empty()) {
            (false, false) => Err(Error::internal("the units of a query are of several kinds")),
            (_, true) => self.scan_slices(slices, request),
            (true, false) => self.read_change_units(changes, request),
        }
    }
}
