//! Reading change data logs.

use std::sync::Arc;

use arrow::array::RecordBatch;

use hoodoo_format::change_data::{AFTER, BEFORE, OP, RECORD_KEY, TS_MS};
use hoodoo_format::internal_schema::ColumnNames;
use hoodoo_format::log::{self, AvroRecords, BatchSize, Block, BlockKind, ContentChecksum, each_avro_batch};
use hoodoo_runtime::error::{Error, Result};
use hoodoo_storage::guard::decode;
use hoodoo_storage::{FileReader, Storage};

/// Rows of a batch.
const BATCH_ROWS: usize = 8192;
/// Bytes of a block that some batches are decoded from.
const BATCH_BYTES: u64 = 2 << 20;

/// The records of a change data log, batch after batch: their fields as columns, with the types of the file's own schema.
pub struct ChangeLogScan {
    table: String,
    path: String,
    file: log::LogFile<FileReader>,
    blocks: std::vec::IntoIter<Block>,
    /// The names in rows that differ from those of the table.
    names: Option<Arc<ColumnNames>>,
}

impl ChangeLogScan {
    /// Opens a file, and reads the headers of its blocks.
    ///
    /// # Errors
    /// `NotFound`; `Corrupt` for a file that is cut off or holds something else; `Storage`.
    pub fn open(storage: &Storage, path: &str, size: u64) -> Result<Self> {
        let named = |e: Error| e.with("table", storage.uri()).with("file", path);
        let file = log::LogFile::new(storage.reader(path, size).map_err(named)?);
        let blocks = file.blocks().collect::<Result<Vec<_>>>().map_err(named)?;
        if blocks.is_empty() || blocks.iter().any(|block| block.kind != BlockKind::CdcData) {
            let remedy = "The file was damaged after it was written: restore it from a copy";
            return Err(named(Error::corrupt("a change data log is cut off, or holds something else").remedy(remedy)));
        }
        Ok(Self {
            table: storage.uri().to_owned(),
            path: path.to_owned(),
            file,
            blocks: blocks.into_iter(),
            names: None,
        })
    }

    /// Gives fields of rows other names.
    #[must_use]
    pub fn with_names(self, names: Option<Arc<ColumnNames>>) -> Self {
        Self { names, ..self }
    }

    /// The batches of the next block; `None` behind the last one. `each` gets them one by one.
    ///
    /// # Errors
    /// `Corrupt`; `Storage`; and those of `each`.
    pub fn next_block(&mut self, each: &mut dyn FnMut(RecordBatch) -> Result<()>) -> Result<Option<()>> {
        let Some(block) = self.blocks.next() else { return Ok(None) };
        let read = || {
            let (content, checksum) = (self.file.content_reader(&block), ContentChecksum::of(&block));
            let size = BatchSize { rows: BATCH_ROWS, bytes: BATCH_BYTES };
            let columns = [OP, TS_MS, RECORD_KEY, BEFORE, AFTER];
            let schema = AvroRecords::schema(&block)?;
            let renamed = self.names.as_ref().map(|names| names.of_avro_in(schema, &[BEFORE, AFTER])).transpose()?;
            each_avro_batch(&content, checksum, renamed.as_deref().unwrap_or(schema), &columns, size, each)
        };
        decode("a change data log", read)
            .map_err(|e| e.with("table", &self.table).with("file", &self.path).with("offset", block.range.start))?;
        Ok(Some(()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use arrow::array::{Array, AsArray};
    use arrow::datatypes::Int64Type;
    use hoodoo_runtime::error::ErrorKind;
    use hoodoo_storage::StorageOptions;

    fn fixture() -> Vec<u8> {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/logs/v9_cdc.hudi_log");
        std::fs::read(path).unwrap()
    }

    fn scan(name: &str, content: Vec<u8>) -> Result<ChangeLogScan> {
        let storage = Storage::open(&format!("memory://changes-{name}/t"), &StorageOptions::new()).unwrap();
        let size = content.len() as u64;
        storage.create(".f_1.log.1_0-0-0.cdc", content).unwrap();
        ChangeLogScan::open(&storage, ".f_1.log.1_0-0-0.cdc", size)
    }

    #[test]
    fn what_hudi_logged_is_read() {
        let mut scan = scan("hudi", fixture()).unwrap();
        let mut batches = Vec::new();
        let mut keep = |batch| {
            batches.push(batch);
            Ok(())
        };
        assert!(scan.next_block(&mut keep).unwrap().is_some());
        assert!(scan.next_block(&mut keep).unwrap().is_none());
        let [batch] = batches.as_slice() else { unreachable!("{batches:?}") };
        let ops: Vec<_> = batch.column_by_name(OP).unwrap().as_string::<i32>().iter().flatten().collect();
        assert_eq!(ops, ["u", "u", "u"]);
        let row = |name: &str| batch.column_by_name(name).unwrap().as_struct().clone();
        let ts = |name: &str| row(name).column_by_name("ts").unwrap().as_primitive::<Int64Type>().values().to_vec();
        assert_eq!((row(BEFORE).null_count(), ts(BEFORE), ts(AFTER)), (0, vec![1, 1, 1], vec![2, 2, 2]));
    }

    #[test]
    fn other_files_and_parts_of_files_are_refused() {
        let mut cut = fixture();
        cut.truncate(cut.len() - 9);
        for (name, content) in [("cut", cut), ("empty", Vec::new()), ("other", b"no log file at all".to_vec())] {
            assert!(scan(name, content).is_err_and(|e| e.kind() == ErrorKind::Corrupt), "{name}");
        }
    }
}
