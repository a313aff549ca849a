//! Builds partitions of the metadata table, or all of it, from the files that the table has.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use arrow::datatypes::Schema;

use super::build_expression_index::{
    build_expression_index, names_expression_index, read_ranges, wanted_expression_index,
};
use super::build_key_index::build_key_index;
use super::build_request::BuildRequest;
use super::existing_files::{FilesPlan, columns_of, existing_files};
use super::properties::{COMPLETE, INFLIGHT, now};
use super::wanted::{new_partition, wanted_partitions};
use super::wanted_secondary_index::{SECONDARY_KIND, wanted_index};
use crate::error::{Error, ErrorKind, Result};
use crate::format::avro::schema::table_schema_to_avro;
use crate::metadata_table::expression_index::{ExpressionIndex, is_expression_index};
use crate::metadata_table::index_definitions::{IndexDefinitions, PATH_PROPERTY};
use crate::metadata_table::secondary_entries::{SecondaryIndex, is_secondary_index};
use crate::metadata_table::write::{
    AddedFile, FileChanges, FunctionRanges, Indexed, IndexedTable, MAINTAINED, MadeBy, NewPartition, add, create,
};
use crate::metadata_table::{BLOOM_FILTERS, COLUMN_STATS, FILES, PARTITION_STATS, RECORD_INDEX};
use crate::table::{HudiTable, TableConfig, TableSchema, TableView, can_have_ranges};
use crate::timeline::Timeline;
use crate::transaction::key_index::{KeyIndexKind, StagedIndex};

/// A build whose long part is done: files were read before the lock was taken, for which other writers wait.
pub(crate) struct IndexBuild {
    pub(super) request: BuildRequest,
    /// Requested time of the action that builds it.
    pub(super) instant: String,
    /// Files that were read, by path.
    pub(super) known: HashMap<String, AddedFile>,
    /// Indexes of keys whose shards are written; taken by the build.
    pub(super) staged: Mutex<Vec<StagedIndex>>,
    /// What expression indexes say of the files; taken by the build.
    pub(super) expressions: Mutex<Vec<(ExpressionIndex, FunctionRanges)>>,
}

/// What a build makes, as the table is now.
pub(super) struct Scope {
    /// Whether all is made anew.
    is_fresh: bool,
    partitions: Vec<NewPartition>,
    /// Whether the record index is built, which is made of the keys of the table.
    record_index: bool,
    /// Secondary indexes that are built, of its values.
    secondary: Vec<SecondaryIndex>,
    /// Expression indexes that are built.
    pub(super) expressions: Vec<ExpressionIndex>,
    columns: Vec<String>,
}

impl Scope {
    pub(super) fn has(&self, name: &str) -> bool {
        self.partitions.iter().any(|partition| partition.name == name)
    }

    fn makes(&self, name: &str) -> bool {
        self.has(name)
            || self.record_index && name == RECORD_INDEX
            || self.secondary.iter().any(|index| index.partition == name)
            || self.expressions.iter().any(|index| index.partition == name)
    }

    /// The indexes of keys that are built, in the order in which they are made.
    ///
    /// # Errors
    /// `InvalidOption`; `Corrupt`; `Storage`.
    pub(super) fn key_indexes(&self, table: &HudiTable, config: &TableConfig) -> Result<Vec<KeyIndexKind>> {
        let mut kinds = Vec::new();
        if self.record_index {
            let definitions = IndexDefinitions::read(table.storage(), config.get(PATH_PROPERTY))?;
            let is_partitioned = table.wanted_record_index()?.unwrap_or(definitions.has_record_index_by_partition());
            kinds.push(KeyIndexKind::Records(is_partitioned && self.secondary.is_empty()));
        }
        kinds.extend(self.secondary.iter().cloned().map(KeyIndexKind::Values));
        Ok(kinds)
    }
}

impl IndexBuild {
    /// Nothing was read.
    pub(super) fn of(request: BuildRequest, instant: &str) -> Self {
        let (known, staged, expressions) = (HashMap::new(), Mutex::default(), Mutex::default());
        Self { request, instant: instant.to_owned(), known, staged, expressions }
    }

    /// The build of a metadata table that is made with the first write, or because the options want one.
    pub(super) fn of_options(table: &HudiTable, instant: &str) -> Result<Self> {
        let partitions = wanted_partitions(table)?.into_iter().map(|partition| partition.name.to_owned()).collect();
        Ok(Self::of(BuildRequest { partitions, ..BuildRequest::default() }, instant))
    }

    /// The names of the partitions that are asked for, as the metadata table has them.
    ///
    /// # Errors
    /// Those of [`IndexPlan::new`](super::IndexPlan::new).
    pub(crate) fn names(table: &HudiTable, request: &BuildRequest) -> Result<Vec<String>> {
        let is_named =
            |name: &String| name == SECONDARY_KIND || is_secondary_index(name) || names_expression_index(name);
        if !request.partitions.iter().any(is_named) {
            return Ok(request.partitions.clone());
        }
        let config = TableConfig::load(table.storage())?;
        let view = TableView::new(table.storage().clone(), table.timeline()?)?;
        let name_of = |name: &String| {
            if let Some(index) = wanted_expression_index(table, &config, &view, name, request.expression())? {
                return Ok(index.partition);
            }
            let index = wanted_index(table, &config, &view, name, request.columns.as_deref())?;
            Ok(index.map_or_else(|| name.clone(), |index| index.partition))
        };
        request.partitions.iter().map(name_of).collect()
    }

    /// Whether all is made anew.
    pub(super) fn is_from_scratch(&self) -> bool {
        self.request.from_scratch
    }

    /// What is built of a table as a view shows it, and what is wanted of its files.
    ///
    /// # Errors
    /// `InvalidOption` for columns that the table does not have; `Unsupported` for partitions that are not built; `Storage`.
    pub(super) fn scope(
        &self,
        table: &HudiTable,
        config: &TableConfig,
        view: &TableView,
        first: Option<&FileChanges>,
    ) -> Result<(Scope, FilesPlan)> {
        let Self { request, .. } = self;
        let has = config.metadata_partitions();
        let is_fresh = request.from_scratch || has.is_empty();
        let mut names: Vec<String> = request.partitions.clone();
        if is_fresh {
            names.push(FILES.to_owned());
        }
        if request.from_scratch {
            names.extend(has.iter().filter(|name| MAINTAINED.contains(&name.as_str())).cloned());
            names.extend(wanted_partitions(table)?.into_iter().map(|partition| partition.name.to_owned()));
        }
        let asks = |names: &[String], name: &str| names.iter().any(|one| one == name);
        let is_there = |name: &str| !is_fresh && has.iter().any(|one| one == name);
        let secondary = self.secondary_indexes(table, config, view, &mut names)?;
        let expressions = self.expression_indexes(table, config, view, &mut names)?;
        if !secondary.is_empty() && !is_there(RECORD_INDEX) {
            names.push(RECORD_INDEX.to_owned());
        }
        // Those of partitions are made of those of files, and of the same columns.
        if asks(&names, PARTITION_STATS) && !is_there(COLUMN_STATS) {
            names.push(COLUMN_STATS.to_owned());
        }
        if asks(&names, COLUMN_STATS) && is_there(PARTITION_STATS) {
            names.push(PARTITION_STATS.to_owned());
        }
        if asks(&names, PARTITION_STATS) && config.partition_fields().is_empty() {
            return Err(Error::invalid_option("a table without partitions has no statistics of partitions")
                .with("table", table.storage().uri())
                .remedy("Build column_stats"));
        }
        let mut partitions: Vec<NewPartition> = Vec::new();
        // In the order in which they are made.
        for name in MAINTAINED.into_iter().filter(|name| *name != RECORD_INDEX && asks(&names, name)) {
            partitions.push(new_partition(table, name)?);
        }
        if let Some(other) = names.iter().find(|name| !MAINTAINED.contains(&name.as_str())) {
            return Err(Error::unsupported(format!("hoodoo does not build {other} of the metadata table"))
                .with("table", table.storage().uri())
                .remedy(format!(
                    "It builds {}, secondary_index and expression_index. Have Hudi build the index",
                    MAINTAINED.join(", ")
                )));
        }
        let schema = TableSchema::resolve(config, view)?;
        let has_statistics = asks(&names, COLUMN_STATS) || asks(&names, PARTITION_STATS);
        let is_written = view.timeline().is_written();
        let mut columns = match (&schema, first) {
            _ if !has_statistics => Vec::new(),
            (_, Some(first)) if !is_written => columns_of(first),
            (Some(schema), _) if is_written => self.columns(table, config, &schema.data, is_there(COLUMN_STATS))?,
            _ => Vec::new(),
        };
        if let Some(history) = schema.as_ref().and_then(|schema| schema.history.as_ref()) {
            // Files of before may have other columns of the same name.
            columns.retain(|column| history.is_unchanged(column));
        }
        let avro = |schema: &TableSchema| table_schema_to_avro(&schema.data, table.config().name(), false);
        let bloom_filters = asks(&names, BLOOM_FILTERS);
        let wanted =
            FilesPlan { columns: columns.clone(), schema: schema.as_ref().map(avro).transpose()?, bloom_filters };
        let record_index = asks(&names, RECORD_INDEX);
        Ok((Scope { is_fresh, partitions, record_index, secondary, expressions, columns }, wanted))
    }

    /// The expression indexes that are built; takes them out of the names of other partitions.
    fn expression_indexes(
        &self,
        table: &HudiTable,
        config: &TableConfig,
        view: &TableView,
        names: &mut Vec<String>,
    ) -> Result<Vec<ExpressionIndex>> {
        let mut found = Vec::new();
        for name in &self.request.partitions {
            found.extend(wanted_expression_index(table, config, view, name, self.request.expression())?);
        }
        let again = if self.request.from_scratch { config.complete_metadata_partitions() } else { Vec::new() };
        for name in again.iter().filter(|name| is_expression_index(name)) {
            let index = wanted_expression_index(table, config, view, name, (None, None));
            found.extend(unless_unkept(table, name, index)?);
        }
        names.retain(|name| !names_expression_index(name));
        Ok(found)
    }

    /// The secondary indexes that are built; takes them out of the names of other partitions.
    fn secondary_indexes(
        &self,
        table: &HudiTable,
        config: &TableConfig,
        view: &TableView,
        names: &mut Vec<String>,
    ) -> Result<Vec<SecondaryIndex>> {
        let mut found = Vec::new();
        for name in &self.request.partitions {
            found.extend(wanted_index(table, config, view, name, self.request.columns.as_deref())?);
        }
        if self.request.from_scratch {
            for name in config.complete_metadata_partitions().iter().filter(|name| is_secondary_index(name)) {
                found.extend(unless_unkept(table, name, wanted_index(table, config, view, name, None))?);
            }
        }
        names.retain(|name| name != SECONDARY_KIND && !is_secondary_index(name));
        Ok(found)
    }

    /// The columns that have statistics after the build.
    fn columns(&self, table: &HudiTable, config: &TableConfig, data: &Schema, is_there: bool) -> Result<Vec<String>> {
        if let Some(columns) = &self.request.columns {
            return table.columns_of_list(data, columns);
        }
        if is_there || self.request.from_scratch {
            let definitions = IndexDefinitions::read(table.storage(), config.get(PATH_PROPERTY))?;
            let mut columns = definitions.source_fields(COLUMN_STATS).unwrap_or_default();
            columns.retain(|name| can_have_ranges(data, name));
            if !columns.is_empty() {
                return Ok(columns);
            }
        }
        table.columns_to_index(data)
    }

    /// Builds for the state of the table that its timeline shows. `first` is what the action did that is completed next, of
    /// a table to which nothing was written. Returns the table's new properties. The caller holds the table lock.
    ///
    /// # Errors
    /// `InvalidOption`; `Corrupt`; `Storage`; those of `new_time`.
    pub(super) fn execute(
        &self,
        table: &HudiTable,
        timeline: &Timeline,
        config: &TableConfig,
        first: Option<&FileChanges>,
        new_time: impl Fn(Option<&str>) -> Result<String>,
    ) -> Result<TableConfig> {
        let storage = table.storage();
        let version = table.index_version();
        let view = TableView::new(storage.clone(), timeline.clone())?;
        let (scope, wanted) = self.scope(table, config, &view, first)?;
        let existing = match timeline.is_written() {
            true => self.existing(table, config, &view, &wanted)?,
            false => FileChanges::default(),
        };
        let path = config.get(PATH_PROPERTY).map(str::to_owned);
        let mut definitions = IndexDefinitions::read(storage, path.as_deref())?;
        let key_indexes = scope.key_indexes(table, config)?;
        let indexed = Indexed { columns: scope.columns.clone(), version };
        // First nobody reads what is made anew. Partitions that another process is building stay under construction.
        let stays = |name: &String| !scope.is_fresh && !scope.makes(name);
        let mut left: Vec<String> = config.complete_metadata_partitions();
        let mut pending: Vec<String> = config.metadata_partitions();
        pending.retain(|name| !left.contains(name) && stays(name));
        left.retain(stays);
        let pending = pending.join(",");
        let takes_out = left.len() + pending.split_terminator(',').count() != config.metadata_partitions().len();
        if takes_out {
            TableConfig::update(storage, &[(COMPLETE, &left.join(",")), (INFLIGHT, &pending)], &now(table))?;
        }
        let mut removed = false;
        let by = MadeBy { table: config.timeline(), instant: &self.instant };
        let made = if scope.is_fresh {
            let of = IndexedTable { name: config.name(), version: config.version(), by };
            for gone in config.metadata_partitions().iter().filter(|name| !scope.has(name)) {
                removed |= definitions.remove(gone);
            }
            create(storage, &of, &scope.partitions, &existing, &indexed, &new_time)?
        } else {
            add(storage, by, &scope.partitions, &existing, &indexed, &new_time)?
        };
        let mut properties = Vec::new();
        let has_column_stats = scope.has(COLUMN_STATS);
        if has_column_stats {
            definitions.set_column_stats(&indexed.columns, version);
            properties.push((PATH_PROPERTY, definitions.path().to_owned()));
        }
        if has_column_stats || removed {
            definitions.write(storage)?;
        }
        left.extend(made.into_iter().map(str::to_owned));
        left.sort_unstable();
        properties.extend([(COMPLETE, left.join(",")), (INFLIGHT, pending)]);
        let properties: Vec<(&str, &str)> = properties.iter().map(|(key, value)| (*key, value.as_str())).collect();
        let is_same = |(key, value): &(&str, &str)| config.get(key).unwrap_or_default() == *value;
        // From now on readers take it for valid.
        let mut built = match takes_out || !properties.iter().all(is_same) {
            true => TableConfig::update(storage, &properties, &now(table))?,
            false => config.clone(),
        };
        let mut staged = std::mem::take(&mut *self.staged.lock().unwrap_or_else(PoisonError::into_inner));
        let columns = TableSchema::resolve(config, &view)?.map(|schema| schema.data);
        for kind in &key_indexes {
            let known = staged.iter().position(|known| known.kind() == *kind).map(|at| staged.swap_remove(at));
            let suits = |known: &StagedIndex| columns.as_ref().map_or(Ok(true), |columns| known.suits(columns));
            let index = match known {
                Some(known) if suits(&known)? => known,
                // Somebody has changed what is to be built meanwhile, as the type of the column.
                _ => StagedIndex::build(table, &view, kind, &self.instant)?,
            };
            built = build_key_index((table, &self.instant), &view, &built, index, &[], &new_time)?;
        }
        for index in &scope.expressions {
            let ranges = read_ranges(table, (&built, &view), index, &existing, self.known_ranges(index))?;
            built = build_expression_index((table, &self.instant), &built, index, (&existing, &ranges), &new_time)?;
        }
        Ok(built)
    }

    /// The files that there are, and the columns of the table.
    fn existing(
        &self,
        table: &HudiTable,
        config: &TableConfig,
        view: &TableView,
        wanted: &FilesPlan,
    ) -> Result<FileChanges> {
        let columns = TableSchema::resolve(config, view)?.map(|schema| schema.data);
        Ok(FileChanges { columns, ..existing_files(table, view, wanted, &self.known)? })
    }

    /// What was read for an expression index before the lock was taken.
    fn known_ranges(&self, index: &ExpressionIndex) -> FunctionRanges {
        let mut read = self.expressions.lock().unwrap_or_else(PoisonError::into_inner);
        let known = read.iter().position(|(known, _)| known == index);
        known.map(|at| read.swap_remove(at).1).unwrap_or_default()
    }
}

/// An index that is built again, unless a write would not keep it.
fn unless_unkept<T>(table: &HudiTable, name: &str, index: Result<Option<T>>) -> Result<Option<T>> {
    match index {
        Err(e) if matches!(e.kind(), ErrorKind::Unsupported | ErrorKind::InvalidOption) => {
            tracing::warn!(table = table.storage().uri(), "{name} is not built again: {e}");
            Ok(None)
        }
        index => index,
    }
}
