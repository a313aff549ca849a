//! How pairs of records of one key are merged: by Hudi's own rules, or by a merger that somebody wrote.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use arrow::array::{Array, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::compute::kernels::cmp::distinct;
use arrow::compute::{and, and_not, cast, or};
use arrow::datatypes::{FieldRef, Fields, Schema};

use super::columns::{Fill, Sides, equal_rows, put_together};
use super::event_time_ordering::{MergeMode, RecordComparator, Step};
use super::ordering_columns::ordering_column;
use super::ordering_values::OrderingValues;
use super::payload::PayloadClass;
use super::records::{Merged, Records};
use hoodoo_runtime::error::{Error, Result};

/// The column of record keys, where records have it.
const RECORD_KEY: &str = "_hoodie_record_key";

/// Merges pairs of records in a way of its own.
///
/// Results have to be associative: merging a with the result of b and c gives what merging the result of a and b with c
/// gives, for a reader, a compaction and a log compaction merge in different groups.
/// Source: `HoodieRecordMerger` of Hudi, RFC-101.
pub trait RecordMerger: Debug + Send + Sync {
    /// The UUID that tables persist to say how they are merged.
    fn strategy_id(&self) -> &str;

    /// Merges records that have all columns: pair after pair, a result for each, in the columns of the given records.
    ///
    /// # Errors
    /// Whatever the merger fails with.
    fn merge(&self, older: &Records, newer: &Records, context: &MergeContext) -> Result<MergedRows>;

    /// Merges records of which some have only some columns, as `present` tells. The result says which columns it has.
    ///
    /// # Errors
    /// `Unsupported` for a merger that merges whole records only.
    fn partial_merge(&self, older: &Records, newer: &Records, context: &MergeContext) -> Result<MergedRows>;
}

/// What a merger may know of the table.
#[derive(Debug, Clone, Default)]
pub struct MergeContext {
    /// Columns that order records.
    pub ordering: Vec<String>,
    /// The table's `hoodie.record.merge.property.*`, without that prefix.
    pub properties: BTreeMap<String, String>,
}

/// What a merger gives back.
#[derive(Debug, Clone)]
pub struct MergedRows {
    /// A row for each pair.
    pub data: RecordBatch,
    /// Which of them delete; none is null.
    pub deleted: BooleanArray,
    /// For each column, which rows bring it. `None`: all bring all.
    pub present: Option<Vec<BooleanArray>>,
}

/// A merger at work.
#[derive(Debug, Clone)]
pub struct CustomMerge {
    /// The merger.
    pub merger: Arc<dyn RecordMerger>,
    /// What it may know.
    pub context: Arc<MergeContext>,
    /// Whether some records have only some columns.
    pub partial: bool,
}

/// How the records of a table are merged.
#[derive(Debug, Clone)]
pub enum MergeRule {
    /// One of the two is kept, as it is.
    Pick(MergeMode),
    /// The same, where some values of the winner mean that the other record's are to stay.
    Fill(MergeMode, Fill),
    /// The same, where records have only some of the columns.
    Partial(MergeMode),
    /// What a payload class of Hudi does.
    Payload(PayloadClass),
    /// A merger that was given.
    Custom(CustomMerge),
    /// A merger or payload class that is not there: its id or name.
    Missing(String),
}

impl MergeRule {
    /// The mode, when one of two records is always kept as it is.
    pub fn picks(&self) -> Option<MergeMode> {
        match self {
            Self::Pick(mode) => Some(*mode),
            _ => None,
        }
    }

    /// Whether ordering values are ever looked at.
    pub fn is_ordered(&self) -> bool {
        match self {
            Self::Pick(mode) | Self::Fill(mode, _) | Self::Partial(mode) => *mode == MergeMode::EventTime,
            Self::Payload(_) | Self::Custom(_) | Self::Missing(_) => true,
        }
    }

    /// The columns that it looks at, apart from keys, ordering values and delete marks; `None`: all of them.
    pub fn columns(&self) -> Option<&'static [&'static str]> {
        match self {
            Self::Pick(_) | Self::Fill(..) | Self::Partial(_) => Some(&[]),
            Self::Payload(class) => Some(class.columns()),
            Self::Custom(_) | Self::Missing(_) => None,
        }
    }

    /// The rule for records of which some have only some columns.
    ///
    /// # Errors
    /// `Unsupported` where Hudi has no such thing either.
    pub fn with_partial_records(&self) -> Result<Self> {
        match self {
            Self::Pick(mode) | Self::Partial(mode) => Ok(Self::Partial(*mode)),
            Self::Custom(custom) => Ok(Self::Custom(CustomMerge { partial: true, ..custom.clone() })),
            Self::Missing(_) => Ok(self.clone()),
            Self::Fill(..) => Err(Error::unsupported(
                "records of some columns only, in a table whose partial update mode fills columns by their values",
            )
            .remedy("Write whole records: values that the mode names are filled from what is stored")),
            Self::Payload(class) => Err(Error::unsupported(format!(
                "records of some columns only, in a table that merges by the payload class {}",
                class.name()
            ))
            .remedy("Write whole records, or upgrade the table to version 9")),
        }
    }

    /// Merges pairs: row by row, a record of `older` with one of `newer`. Both have the same columns.
    ///
    /// # Errors
    /// `Unsupported` when the merger is not there; `Schema` when a merger gives back something else than it should;
    /// `Internal` when the two sides are no pairs; and whatever a merger fails with.
    pub fn merge(&self, step: Step, older: &Records, newer: &Records) -> Result<Merged> {
        check_pairs(older, newer)?;
        match self {
            Self::Pick(mode) | Self::Fill(mode, _) | Self::Partial(mode) => {
                let fill = if let Self::Fill(_, fill) = self { fill } else { &Fill::Nothing };
                let comparator = RecordComparator::new(*mode, step, older.side(), newer.side())?;
                let mut sides = Sides::with_capacity(older.len());
                for row in 0..older.len() {
                    let wins = comparator.new_wins(row, row);
                    let both = !older.deleted.value(row) && !newer.deleted.value(row);
                    let deleted = if wins { newer.deleted.value(row) } else { older.deleted.value(row) };
                    sides.push(wins, both, deleted);
                }
                let mut merged = put_together(older, newer, &sides, fill)?;
                if let (Self::Partial(MergeMode::CommitTime), Some(present)) = (self, &mut merged.records.present) {
                    // What follows a delete begins anew: what was stored before must not show through.
                    for column in present {
                        *column = or(column, &older.deleted)?;
                    }
                }
                Ok(merged)
            }
            Self::Payload(class) => class.merge(step, older, newer),
            Self::Custom(custom) => custom.merge(older, newer),
            Self::Missing(id) => Err(missing(id)),
        }
    }
}

fn check_pairs(older: &Records, newer: &Records) -> Result<()> {
    older.check()?;
    newer.check()?;
    if older.len() != newer.len() || older.data.num_columns() != newer.data.num_columns() {
        return Err(Error::internal(format!(
            "{} older records of {} columns are to be merged with {} newer ones of {}",
            older.len(),
            older.data.num_columns(),
            newer.len(),
            newer.data.num_columns()
        )));
    }
    Ok(())
}

/// The error of a reader or writer that lacks the merger of a table.
pub fn missing(id: &str) -> Error {
    Error::unsupported(format!("the table's records are merged by '{id}', which was not given"))
        .with("merger", id)
        .remedy(
            "Name the Python class with this strategy_id in the option hoodie.write.record.merge.custom.implementation.classes",
        )
}

/// A result in the types that were given, where it only names nested fields otherwise: libraries name those of maps and lists
/// as they like.
fn with_names_of(result: MergedRows, older: &Records) -> Result<MergedRows> {
    let (given, wanted) = (result.data.schema(), older.data.schema());
    let differs = |(a, b): (&FieldRef, &FieldRef)| a.data_type() != b.data_type();
    let is_same = |(a, b): (&FieldRef, &FieldRef)| a.data_type().equals_datatype(b.data_type());
    let mut pairs = given.fields().iter().zip(wanted.fields());
    if given.fields().len() != wanted.fields().len() || !pairs.clone().any(differs) || !pairs.all(is_same) {
        return Ok(result);
    }
    let columns =
        result.data.columns().iter().zip(wanted.fields()).map(|(column, field)| cast(column, field.data_type()));
    let fields = given.fields().iter().zip(wanted.fields());
    let fields: Fields =
        fields.map(|(a, b)| Arc::new(a.as_ref().clone().with_data_type(b.data_type().clone()))).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(result.data.num_rows()));
    let columns = columns.collect::<std::result::Result<Vec<_>, _>>()?;
    let data = RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)?;
    Ok(MergedRows { data, ..result })
}

impl CustomMerge {
    fn merge(&self, older: &Records, newer: &Records) -> Result<Merged> {
        let result = match self.partial {
            true => self.merger.partial_merge(older, newer, &self.context)?,
            false => self.merger.merge(older, newer, &self.context)?,
        };
        let result = with_names_of(result, older)?;
        self.check(&result, older)?;
        self.check_keys(&result, older, newer)?;
        let MergedRows { data, deleted, present } = result;
        // What says the same as the older record, and not the same as the newer one, is the older one.
        let (old, new) = (equal_rows(&data, &older.data)?, equal_rows(&data, &newer.data)?);
        let unchanged = |row: usize| {
            let is_new = new.value(row) && deleted.value(row) == newer.deleted.value(row);
            old.value(row) && deleted.value(row) == older.deleted.value(row) && !is_new
        };
        let unchanged = (0..data.num_rows()).map(|row| Some(unchanged(row))).collect();
        let records = Records {
            keys: newer.keys.clone(),
            ordering: self.ordering(&data, &deleted, older, newer)?,
            data,
            deleted,
            delete_block: None,
            present,
        };
        Ok(Merged { records, unchanged })
    }

    fn check(&self, result: &MergedRows, older: &Records) -> Result<()> {
        let wrong = |what: String| {
            let id = self.merger.strategy_id();
            Err(Error::schema(format!("the record merger {id} gave back {what}")).with("merger", id))
        };
        let (rows, pairs) = (result.data.num_rows(), older.len());
        if rows != pairs || result.deleted.len() != pairs {
            return wrong(format!("{rows} records for {pairs} pairs"));
        }
        let names = |batch: &RecordBatch| batch.schema().fields().iter().map(|f| f.name().clone()).collect::<Vec<_>>();
        if names(&result.data) != names(&older.data) {
            return wrong("other columns than it was given".to_owned());
        }
        let types = result.data.columns().iter().zip(older.data.columns());
        if let Some((column, given)) = types.clone().find(|(a, b)| a.data_type() != b.data_type()) {
            return wrong(format!("a column of type {} for one of type {}", column.data_type(), given.data_type()));
        }
        let fits = |mask: &BooleanArray| mask.len() == pairs && mask.null_count() == 0;
        if result.present.as_ref().is_some_and(|p| p.len() != result.data.num_columns() || !p.iter().all(fits)) {
            return wrong("something else than which of its columns each record has".to_owned());
        }
        if result.deleted.null_count() > 0 {
            return wrong("records of which it does not say whether they delete".to_owned());
        }
        Ok(())
    }

    /// Results stand in the place of both records, and so have their key: files say of keys what they said before.
    fn check_keys(&self, result: &MergedRows, older: &Records, newer: &Records) -> Result<()> {
        let of = |batch: &RecordBatch| batch.column_by_name(RECORD_KEY).cloned();
        let (Some(keys), Some(old), Some(new)) = (of(&result.data), of(&older.data), of(&newer.data)) else {
            return Ok(());
        };
        // Deletes, and records of some columns only, may lack it.
        let changed = and_not(&and(&distinct(&keys, &old)?, &distinct(&keys, &new)?)?, &result.deleted)?;
        if changed.has_true() {
            let id = self.merger.strategy_id();
            return Err(Error::schema(format!("the record merger {id} changed a record key"))
                .with("merger", id)
                .remedy("Its results have to keep the column _hoodie_record_key of the records that it is given"));
        }
        Ok(())
    }

    /// The ordering values of results: those of their columns; a delete has that of the record that deleted.
    fn ordering(
        &self,
        data: &RecordBatch,
        deleted: &BooleanArray,
        older: &Records,
        newer: &Records,
    ) -> Result<OrderingValues> {
        if self.context.ordering.is_empty() {
            return Ok(OrderingValues::default());
        }
        let columns = self.context.ordering.iter().map(|name| ordering_column(data, name));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        for (column, name) in columns.iter().zip(&self.context.ordering) {
            let (old, new) = (ordering_column(&older.data, name)?, ordering_column(&newer.data, name)?);
            let had = |row: usize| old.is_valid(row) || new.is_valid(row);
            let lost = |row: &usize| !deleted.value(*row) && column.is_null(*row) && had(*row);
            if !self.partial && (0..column.len()).any(|row| lost(&row)) {
                let id = self.merger.strategy_id();
                return Err(Error::schema(format!(
                    "the record merger {id} lost a value of the ordering column '{name}'"
                ))
                .with("merger", id)
                .remedy("Its results have to keep an ordering value: later merges look at it"));
            }
        }
        let of_records = OrderingValues::try_new(columns)?;
        let side = |row: usize| match (deleted.value(row), newer.deleted.value(row)) {
            (false, _) => 0,
            (true, true) => 2,
            (true, false) => 1,
        };
        let rows: Vec<(usize, usize)> = (0..data.num_rows()).map(|row| (side(row), row)).collect();
        OrderingValues::gather(&[&of_records, &older.ordering, &newer.ordering], &rows)
    }
}
