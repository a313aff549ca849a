//! The log file of a shard: a block of deletes, and a block of records.

use hoodoo_hfile::{HFileWriter, HFileWriterOptions};

use super::records::PartitionUpdate;
use crate::error::{Error, Result};
use crate::format::log::{BlockKind, Deletes, HeaderKey, OrderingValue, write_block};
use crate::metadata_table::encode::RECORD_SCHEMA;

/// The content of the log file that an instant writes to a shard of a partition. Records come in the order of their keys,
/// each key once.
///
/// # Errors
/// `InvalidOption` for a block of more than 2 GiB.
pub(super) fn content(instant: &str, partition: &str, mut update: PartitionUpdate) -> Result<Vec<u8>> {
    let mut file = Vec::new();
    let header = [(HeaderKey::InstantTime, instant), (HeaderKey::Schema, RECORD_SCHEMA)];
    if !update.deletes.is_empty() {
        let deletes = update.deletes.iter().map(|key| (key.as_str(), partition, OrderingValue::Default));
        write_block(&mut file, BlockKind::Delete, &header, &Deletes::write(deletes)?)?;
    }
    if !update.records.is_empty() {
        update.records.sort_by(|(one, _), (other, _)| one.as_bytes().cmp(other.as_bytes()));
        let mut records = HFileWriter::new(Vec::new(), HFileWriterOptions::default());
        let failed = |e| Error::internal("a record of the metadata table cannot be written").caused_by(e);
        let mut last: Option<&str> = None;
        for (key, value) in &update.records {
            if last == Some(key) {
                return Err(Error::internal("two records of the metadata table have one key").with("key", key));
            }
            records.append(key.as_bytes(), value).map_err(failed)?;
            last = Some(key);
        }
        let records = records.finish().map_err(failed)?;
        write_block(&mut file, BlockKind::HfileData, &header, &records)?;
    }
    Ok(file)
}
