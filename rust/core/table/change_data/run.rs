//! Reads the units of a plan.

use std::sync::Arc;

use super::logs::LoggedChanges;
use super::plan::{ChangePlan, ChangeSource, ChangeUnit};
use super::reader::{ChangeReader, Changes};
use super::rows::{ChangeRows, change_columns};
use crate::error::Result;
use crate::file_group::FileSlice;
use crate::format::change_data::ChangeKind;
use crate::merge::nullable;
use crate::parallel::BatchStream;
use crate::table::scan::ScanRequest;
use crate::table::{HudiTable, MissingFiles, with_meta_columns};

impl HudiTable {
    /// Streams the changes of a plan.
    ///
    /// # Errors
    /// Those of [`HudiTable::file_group_reader`].
    pub fn run_change_data(&self, plan: &ChangePlan) -> Result<BatchStream> {
        let reader = Arc::new(self.change_reader(plan)?);
        let missing = MissingFiles::since(self, &plan.timeline);
        let part = |unit: &ChangeUnit| {
            let (reader, missing, unit) = (reader.clone(), missing.clone(), unit.clone());
            let part: Box<dyn FnOnce() -> Result<Changes> + Send> = Box::new(move || {
                let changes = missing.explained(|| reader.read(unit))?;
                Ok(Box::new(changes.map(move |batch| missing.explained(|| batch))))
            });
            part
        };
        Ok(BatchStream::new(plan.schema.clone(), plan.units.iter().map(part).collect(), self.threads()?))
    }

    /// Streams some units of a plan that another process made.
    ///
    /// # Errors
    /// Those of [`HudiTable::view`] and [`HudiTable::run_change_data`].
    pub fn read_change_units(&self, units: Vec<ChangeUnit>, request: &ScanRequest) -> Result<BatchStream> {
        let view = self.view(None)?;
        let (all, rows, history) = self.row_columns(&view, request.columns.as_deref())?;
        let timeline = Arc::new(view.timeline().clone());
        self.run_change_data(&ChangePlan { schema: change_columns(&rows), units, all, rows, timeline, history })
    }

    fn change_reader(&self, plan: &ChangePlan) -> Result<ChangeReader> {
        let all = nullable(&with_meta_columns(&plan.all));
        Ok(ChangeReader {
            storage: self.storage().clone(),
            slices: self.file_group_reader(plan.timeline.clone(), all.clone(), plan.history.as_ref())?,
            all,
            rows: ChangeRows::new(&plan.rows),
            has_meta: self.config().populates_meta_fields(),
            keeps_one: self.merge_settings()?.rule.picks().is_some(),
        })
    }
}

impl ChangeReader {
    /// The changes of a unit.
    ///
    /// # Errors
    /// Those of reading its files; while streaming too.
    fn read(self: &Arc<Self>, unit: ChangeUnit) -> Result<Changes> {
        let ChangeUnit { instant, source } = unit;
        match source {
            ChangeSource::Logs { files, before, after } => {
                Ok(Box::new(LoggedChanges::new(self.clone(), instant, files, before, after)))
            }
            ChangeSource::States { before: None, after: None, .. } => Ok(Box::new(std::iter::empty())),
            ChangeSource::States { before: None, after: Some(after), .. } => {
                self.all_rows(ChangeKind::Insert, instant, &after)
            }
            ChangeSource::States { before: Some(before), after: None, .. } => {
                self.all_rows(ChangeKind::Delete, instant, &before)
            }
            ChangeSource::States { before: Some(before), after: Some(after), added } => {
                self.compared(instant, before, after, added)
            }
        }
    }

    /// All rows of a slice as changes of one kind.
    fn all_rows(self: &Arc<Self>, kind: ChangeKind, instant: String, slice: &FileSlice) -> Result<Changes> {
        let rows = self.slices.read(slice, &self.all)?;
        let reader = self.clone();
        Ok(Box::new(rows.map(move |rows| reader.rows.of_one_kind(kind, &instant, &rows?))))
    }
}
