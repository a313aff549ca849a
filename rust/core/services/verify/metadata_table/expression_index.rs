//! An expression index against the files. Hudi's readers leave out files and partitions by its ranges, so that one that is too
//! narrow hides rows; and partitions that lack a range where others have one.
//!
//! Values are compared where the function has the same ones in all time zones.

use std::cmp::Ordering;
use std::collections::HashMap;

use super::{Compared, FOLDER, Report, is_about_content, readable};
use crate::error::{ErrorKind, Result};
use crate::file_group::BaseFile;
use crate::format::column_range::{ColumnRange, RangeValue};
use crate::metadata_table::MetadataTable;
use crate::metadata_table::column_ranges::each_stored_range;
use crate::metadata_table::expression_index::ExpressionIndex;
use crate::metadata_table::keys::{column_stats_key, expression_partition_key};
use crate::parallel::run_parallel;
use crate::table::TableSchema;
use crate::transaction::RangeReader;

pub(super) fn check(compared: &Compared<'_>, metadata: &MetadataTable, name: &str, report: &mut Report) -> Result<()> {
    let subject = format!("{FOLDER}/{name}");
    let remedy = format!("Build it again with Table.index(\"{name}\"), or drop it with Table.drop_index(\"{name}\")");
    let index = match metadata.definitions()?.expression_index(name) {
        Ok(index) => index,
        // The next write drops it.
        Err(e) if e.kind() == ErrorKind::Unsupported => return readable(metadata, name, report),
        Err(e) => {
            report.error(subject, format!("the expression index cannot be kept: {e}"), &remedy);
            return Ok(());
        }
    };
    let mut stored: HashMap<String, Option<ColumnRange>> = HashMap::new();
    metadata.each_row(name, &mut |rows| {
        each_stored_range(&rows, &mut |key, range| _ = stored.insert(key.to_owned(), range))
    })?;
    report.count("metadata table expression index ranges", stored.len() as u64);
    let stored = Stored { index: &index, ranges: stored };
    for partition in stored.hidden_partitions(compared) {
        let message =
            format!("the range of the partition '{partition}' is narrower than those of its files, or is missing");
        report.error(subject.clone(), format!("{message}: Hudi's data skipping leaves out rows"), &remedy);
    }
    for path in stored.narrow_files(compared)? {
        let message = format!("the range of {path} is narrower than its values: Hudi's data skipping leaves out rows");
        report.error(subject.clone(), message, &remedy);
    }
    Ok(())
}

/// The ranges of an index, by key.
struct Stored<'a> {
    index: &'a ExpressionIndex,
    ranges: HashMap<String, Option<ColumnRange>>,
}

impl Stored<'_> {
    /// Partitions that readers leave out though a file of theirs may have the value.
    fn hidden_partitions(&self, compared: &Compared<'_>) -> Vec<String> {
        let key = |partition: &str| expression_partition_key(&self.index.column, partition);
        if !compared.latest.keys().any(|partition| self.ranges.contains_key(&key(partition))) {
            return Vec::new();
        }
        let is_hidden = |partition: &str, names: &mut dyn Iterator<Item = &str>| {
            let files = names.filter_map(|name| self.file(partition, name));
            let mut files = files.filter(|range| range.min.is_some()).peekable();
            if files.peek().is_none() {
                return false;
            }
            match self.ranges.get(&key(partition)) {
                Some(Some(whole)) => files.any(|range| !covers(whole, range)),
                Some(None) => false,
                None => true,
            }
        };
        let mut hidden = Vec::new();
        for (partition, slices) in &compared.latest {
            let bases = slices.iter().filter_map(|slice| slice.base.as_ref()).map(BaseFile::name);
            let logs = slices.iter().flat_map(|slice| &slice.logs).filter_map(|log| log.path.rsplit('/').next());
            if is_hidden(partition, &mut bases.chain(logs)) {
                hidden.push(partition.clone());
            }
        }
        hidden
    }

    /// The range of a file.
    fn file(&self, partition: &str, name: &str) -> Option<&ColumnRange> {
        self.ranges.get(&column_stats_key(&self.index.column, partition, name))?.as_ref()
    }

    /// Base files whose values are not in their range.
    fn narrow_files(&self, compared: &Compared<'_>) -> Result<Vec<String>> {
        let schema = TableSchema::resolve(compared.table.config(), compared.view)?;
        let reader = schema.as_ref().map(|schema| RangeReader::new(compared.table, self.index, &schema.data));
        // The next write drops an index whose column is gone.
        let Some(Ok(reader)) = reader else { return Ok(Vec::new()) };
        let mut work: Vec<(&BaseFile, &ColumnRange)> = Vec::new();
        for (partition, slices) in &compared.latest {
            let bases = slices.iter().filter_map(|slice| slice.base.as_ref());
            work.extend(bases.filter_map(|base| Some((base, self.file(partition, base.name())?))));
        }
        let narrow = run_parallel(work, compared.table.threads()?, |(base, range)| match reader.exact(base) {
            Ok(values) => Ok(values.is_some_and(|values| !covers(range, &values)).then(|| base.path.clone())),
            // Reported with the base files.
            Err(e) if is_about_content(&e) => Ok(None),
            Err(e) => Err(e),
        })?;
        Ok(narrow.into_iter().flatten().collect())
    }
}

/// Whether a range holds another one, as far as they compare.
fn covers(whole: &ColumnRange, part: &ColumnRange) -> bool {
    let is_before = |one: &RangeValue, other: &RangeValue| one.compare(other) == Some(Ordering::Less);
    match (&whole.min, &whole.max, &part.min, &part.max) {
        (_, _, None, _) | (_, _, _, None) => true,
        (Some(min), Some(max), Some(low), Some(high)) => !is_before(low, min) && !is_before(max, high),
        _ => false,
    }
}
