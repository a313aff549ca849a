//! Merges streams of rows without a table.
//!
//! `by_hash.rs` keeps the newer rows, spills those beyond a budget, and streams the older ones; `sorted.rs` keeps one
//! batch of each, for inputs that are sorted by their key.

mod by_hash;
mod keys;
mod lossless;
mod sorted;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, RecordBatchReader, new_null_array};
use arrow::datatypes::{Field, FieldRef, Schema, SchemaRef};
use arrow::error::ArrowError;
use std::collections::HashSet;
use std::sync::Arc;

use self::keys::KeyColumns;
use self::lossless::lossless;
use crate::error::{Error, Result};
use crate::format::field_lookup::FieldLookup;
use crate::format::properties::Properties;
use crate::merge::{
    BatchMerger, Budget, Kept, MergeContext, MergeRule, MergedRecords, RecordMerger, Records, Step, missing,
    ordering_type,
};
use crate::storage::SpillOptions;
use crate::table::merge_config::{self, DeleteMarker, PersistedMerge};
use crate::table::{DELETE_MARK, MergeSettings, Options, check_delete_mark, properties_of_merger, rule_of};

/// The table version whose rules options follow.
const LATEST_VERSION: u32 = 9;

/// A stream of rows.
pub(crate) type RowStream = Box<dyn RecordBatchReader + Send>;

/// How rows are merged.
pub struct MergeRequest {
    /// Columns of the record key.
    pub key: Vec<String>,
    /// Columns that order the versions of a record.
    pub ordering: Vec<String>,
    /// The rule.
    pub rule: MergeRule,
    /// A column and the string in it that makes a newer row a delete, as a true `_hoodie_is_deleted` does.
    pub marker: Option<(String, String)>,
    /// Whether newer rows may lack columns, whose values then stay.
    pub partial: bool,
    /// Whether both inputs are sorted by the key columns, ascending, and no key comes twice among the older rows.
    pub sorted: bool,
    /// How many bytes of rows are kept in memory, and where the others are spilled.
    pub spill: SpillOptions,
}

impl MergeRequest {
    /// Makes a request from the options of a job: `hoodie.record.merge.mode`, `hoodie.datasource.write.payload.class`,
    /// `hoodie.table.partial.update.mode` and the others about merging, as for a new table.
    ///
    /// # Errors
    /// `InvalidOption` for options that contradict each other.
    pub fn new(
        key: Vec<String>,
        ordering: Vec<String>,
        options: &Options,
        merger: Option<Arc<dyn RecordMerger>>,
        spill: SpillOptions,
    ) -> Result<Self> {
        let strategy = merger.as_ref().map(|m| m.strategy_id().to_owned());
        let request = merge_config::MergeRequest {
            mode: options.get("hoodie.record.merge.mode"),
            strategy: strategy.as_deref().or(options.get("hoodie.record.merge.strategy.id")),
            payload: options.get("hoodie.datasource.write.payload.class"),
            has_ordering: !ordering.is_empty(),
        };
        let mut properties = Properties::new();
        for (key, value) in options.given() {
            properties.set(key, value);
        }
        for (key, value) in merge_config::infer(request, LATEST_VERSION)? {
            properties.set(&key, value);
        }
        let persisted = PersistedMerge::read(&properties, LATEST_VERSION)?;
        let of_payload = properties.get_non_empty("hoodie.table.ordering.fields").map(str::to_owned);
        let ordering = match of_payload {
            // Debezium's payloads define their ordering columns.
            Some(fields) if ordering.is_empty() => fields.split(',').map(|f| f.trim().to_owned()).collect(),
            _ => ordering,
        };
        let context = MergeContext { ordering: ordering.clone(), properties: properties_of_merger(&properties) };
        let mergers: Vec<Arc<dyn RecordMerger>> = merger.into_iter().collect();
        let rule = rule_of(persisted.rule, &mergers, context);
        if let MergeRule::Missing(id) = &rule {
            return Err(missing(id).remedy("Pass merger= with an instance of it"));
        }
        let marker = persisted.marker.map(|m| (m.field, m.text));
        Ok(Self { key, ordering, rule, marker, partial: false, sorted: false, spill })
    }
}

/// Merges newer rows into older ones; the columns are those of the older rows.
///
/// # Errors
/// `Schema` for columns that are missing or do not fit; `InvalidOption`; while streaming too, with those of the inputs.
pub fn merge_rows(older: RowStream, newer: RowStream, request: MergeRequest) -> Result<RowStream> {
    let merger = RowMerging::new(&older.schema(), &newer.schema(), request)?;
    let schema = merger.schema.clone();
    let rows: Box<dyn Iterator<Item = Result<RecordBatch>> + Send> = match merger.sorted {
        true => Box::new(sorted::SortedMerge::new(merger, older, newer)?),
        false => Box::new(by_hash::HashMerge::new(merger, older, newer)),
    };
    Ok(Box::new(Output { schema, rows, failed: false }))
}

/// What both ways of merging share.
struct RowMerging {
    /// The columns of older rows and of the result.
    schema: SchemaRef,
    /// The columns of newer rows: those, and what makes rows deletes.
    newer: SchemaRef,
    /// The columns that newer rows have, when they may lack some.
    given: Option<HashSet<String>>,
    keys: KeyColumns,
    settings: MergeSettings,
    sorted: bool,
    spill: SpillOptions,
}

impl RowMerging {
    fn new(older: &SchemaRef, newer: &SchemaRef, request: MergeRequest) -> Result<Self> {
        let MergeRequest { key, ordering, rule, marker, partial, sorted, spill } = request;
        if key.is_empty() {
            return Err(Error::invalid_option("the key has no columns").remedy("Pass the columns of the record key"));
        }
        let (of_older, of_newer) = (FieldLookup::new(older.fields()), FieldLookup::new(newer.fields()));
        let lacks = |lookup: &FieldLookup<'_>, name: &String| !lookup.has(name);
        let ordered: &[String] = if rule.is_ordered() { &ordering } else { &[] };
        for (side, lookup, schema) in [("older", &of_older, older), ("newer", &of_newer, newer)] {
            let no_key = key.iter().find(|name| lacks(lookup, name));
            if let Some(name) = no_key.or_else(|| ordered.iter().find(|name| ordering_type(schema, name).is_none())) {
                return Err(Error::schema(format!("the {side} rows have no column '{name}'")).with("column", name));
            }
        }
        if let Some(field) =
            older.fields().iter().find(|f| !partial && lacks(&of_newer, f.name()) && f.name() != DELETE_MARK)
        {
            return Err(Error::schema(format!("the newer rows have no column '{}'", field.name()))
                .with("column", field.name())
                .remedy("Add it, or pass partial=True to keep the values of older rows"));
        }
        check_delete_mark(newer)?;
        let is_mark = |name: &str| name == DELETE_MARK || marker.as_ref().is_some_and(|(field, _)| field == name);
        let more: Vec<FieldRef> = newer.fields().iter().filter(|f| lacks(&of_older, f.name())).cloned().collect();
        if let Some(field) = more.iter().find(|f| !is_mark(f.name())) {
            return Err(Error::schema(format!(
                "the newer rows have a column '{}' that the older ones lack",
                field.name()
            ))
            .with("column", field.name())
            .remedy("Add it to the older rows, or leave it out"));
        }
        // A column of nulls has the type that the other rows give it.
        let typed = |f: &FieldRef| match of_newer.get(f.name()) {
            Some(other) if f.data_type().is_null() => {
                Arc::new(f.as_ref().clone().with_data_type(other.data_type().clone()))
            }
            _ => f.clone(),
        };
        let older: SchemaRef = Arc::new(Schema::new(older.fields().iter().map(typed).collect::<Vec<_>>()));
        let newer_fields = older.fields().iter().chain(&more).map(|f| f.as_ref().clone().with_nullable(true));
        let given = partial.then(|| newer.fields().iter().map(|f| f.name().clone()).collect());
        let rule = if partial { rule.with_partial_records()? } else { rule };
        let ordering = if rule.is_ordered() { ordering } else { Vec::new() };
        let marker = marker.map(|(field, text)| DeleteMarker { field, text, any_case: false });
        Ok(Self {
            schema: older.clone(),
            newer: Arc::new(Schema::new(newer_fields.collect::<Vec<Field>>())),
            given,
            // A custom merger sees the keys.
            keys: KeyColumns::new(key, !matches!(rule, MergeRule::Custom(_))),
            settings: MergeSettings { rule, ordering, marker, keys: None },
            sorted,
            spill,
        })
    }

    /// Older rows in the columns of the result.
    fn older(&self, batch: RecordBatch) -> Result<RecordBatch> {
        if batch.schema().fields() == self.schema.fields() {
            return Ok(batch);
        }
        let typed =
            batch.columns().iter().zip(self.schema.fields()).map(|(column, field)| lossless(column, field, false));
        let columns = typed.collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?)
    }

    /// What merges newer rows into older ones.
    fn batch_merger(&self, newer: Kept<'_>, budget: Option<Budget<'_>>) -> Result<BatchMerger> {
        let rule = &self.settings.rule;
        let merged = MergedRecords::new(&self.newer, newer.into_list(), rule, Step::Batch, budget)?;
        Ok(BatchMerger::new(merged, rule.clone(), self.schema.clone(), true))
    }

    /// Newer rows as records.
    fn records(&self, batch: &RecordBatch) -> Result<Records> {
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.newer.fields().len());
        let lookup = FieldLookup::new(batch.schema_ref().fields());
        for field in self.newer.fields() {
            columns.push(match lookup.position(field.name()).and_then(|at| batch.columns().get(at)) {
                Some(column) => lossless(column, field, true)?,
                None => new_null_array(field.data_type(), batch.num_rows()),
            });
        }
        let rows = batch.num_rows();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let data = RecordBatch::try_new_with_options(self.newer.clone(), columns, &options)?;
        let all = |value: bool| BooleanArray::from(vec![value; rows]);
        let present = self.given.as_ref().map(|given| {
            let (has, lacks) = (all(true), all(false));
            let present = |f: &FieldRef| if given.contains(f.name()) { has.clone() } else { lacks.clone() };
            self.newer.fields().iter().map(present).collect()
        });
        Ok(Records {
            keys: self.keys.of(&data)?,
            ordering: self.settings.ordering(&data)?,
            deleted: self.settings.deleted(&data)?.unwrap_or_else(|| all(false)),
            delete_block: None,
            present,
            data,
        })
    }
}

/// The merged rows as an Arrow stream, which ends with its first error.
struct Output {
    schema: SchemaRef,
    rows: Box<dyn Iterator<Item = Result<RecordBatch>> + Send>,
    failed: bool,
}

impl Iterator for Output {
    type Item = std::result::Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let next = self.rows.next()?;
        self.failed = next.is_err();
        Some(next.map_err(|e| ArrowError::ExternalError(Box::new(e))))
    }
}

impl RecordBatchReader for Output {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}
