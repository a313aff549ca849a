//! What the targets share: log blocks around bytes, and what every reading of them has to hold to.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use bytes::Bytes;
use hoodoo::file_group::base::{BaseFileReader, ScanOptions};
use hoodoo::format::avro::schema::avro_to_arrow_schema;
use hoodoo::format::log::{self, AvroRecords, Block, BlockKind, Deletes, LogFile, MAGIC};
use hoodoo::storage::guard::decode;
use hoodoo::{ErrorKind, Result};

/// Schemas of records; a target takes one by the first byte of its input. The last is that of the blocks in `tests/fixtures`.
pub const SCHEMAS: &[&str] = &[
    include_str!("schemas/0_flat.avsc"),
    include_str!("schemas/1_flat_too.avsc"),
    include_str!("schemas/2_nested.avsc"),
    include_str!("schemas/3_union.avsc"),
    include_str!("schemas/4_keyed.avsc"),
    include_str!("schemas/5_hudi.avsc"),
];

/// Batches that are read of a block.
const MOST_BATCHES: usize = 1000;

/// A schema by a byte, and the bytes behind it.
pub fn with_schema(data: &[u8]) -> Option<(&'static str, &[u8])> {
    let (first, rest) = data.split_first()?;
    Some((SCHEMAS[usize::from(*first) % SCHEMAS.len()], rest))
}

/// A block by the table in the documentation of `format::log`.
pub fn frame(kind: BlockKind, header: &[(i32, &str)], content: &[u8]) -> Vec<u8> {
    let mut inside = 1i32.to_be_bytes().to_vec();
    inside.extend(kind.number().unwrap_or_default().to_be_bytes());
    inside.extend((header.len() as u32).to_be_bytes());
    for (key, text) in header {
        inside.extend(key.to_be_bytes());
        inside.extend((text.len() as u32).to_be_bytes());
        inside.extend(text.as_bytes());
    }
    inside.extend((content.len() as u64).to_be_bytes());
    inside.extend(content);
    inside.extend(0i32.to_be_bytes());
    let size = inside.len() as u64 + 8;
    [MAGIC.as_slice(), &size.to_be_bytes(), &inside, &(size + 6).to_be_bytes()].concat()
}

/// The blocks of a file, as far as it can be read: they lie one behind the other and none is empty.
pub fn blocks(bytes: &[u8]) -> (LogFile<Bytes>, Vec<Block>) {
    let file = LogFile::new(Bytes::copy_from_slice(bytes));
    let mut blocks: Vec<Block> = Vec::new();
    for block in file.blocks() {
        match block {
            Ok(block) => blocks.push(block),
            Err(e) => {
                refused(&e);
                break;
            }
        }
    }
    let mut at = 0;
    for block in &blocks {
        assert!(block.range.start == at && block.range.end > at, "blocks lie behind each other: {block:?}");
        assert!(block.content.start >= block.range.start && block.content.end <= block.range.end);
        at = block.range.end;
    }
    assert!(at <= bytes.len() as u64);
    (file, blocks)
}

/// Reads what a block holds, by its kind. Nothing of it is compared.
pub fn read_block(file: &LogFile<Bytes>, block: &Block) {
    let Ok(content) = file.content(block) else { panic!("the content of a block lies in its file") };
    let Ok(schema) = AvroRecords::schema(block) else {
        if block.kind == BlockKind::Delete {
            read(|| Deletes::read(&content).map(drop));
        }
        return;
    };
    match block.kind {
        BlockKind::Delete => read(|| Deletes::read(&content).map(drop)),
        BlockKind::AvroData | BlockKind::CdcData => avro(&content, schema),
        BlockKind::HfileData => hfile(content, schema),
        BlockKind::ParquetData => parquet(content, Some(schema)),
        BlockKind::Command | BlockKind::Corrupt => {}
    }
}

/// Reads an Avro data block, whole, in smaller batches and column by column: what is read at all is the same each time.
pub fn avro(content: &[u8], schema: &str) {
    same_each_time(schema, |names, rows| log::avro_batches(content, schema, names, rows));
}

/// The same with an HFile data block.
pub fn hfile(content: Bytes, schema: &str) {
    same_each_time(schema, |names, rows| log::hfile_batches(content.clone(), schema, names, rows));
}

/// Reads a Parquet data block: in the columns of an Avro schema, or else in its own.
pub fn parquet(content: Bytes, schema: Option<&str>) {
    read(|| {
        let reader = BaseFileReader::open(content)?;
        let wanted = match schema {
            Some(schema) => Arc::new(avro_to_arrow_schema(schema)?),
            None => reader.schema().clone(),
        };
        // A few bytes may well say that there are a billion equal rows.
        for batch in reader.scan(&ScanOptions::new(wanted).with_batch_size(64))?.take(MOST_BATCHES) {
            batch?;
        }
        Ok(())
    });
}

fn same_each_time(schema: &str, read_rows: impl Fn(&[&str], usize) -> Result<Vec<RecordBatch>>) {
    let Ok(names) = log::record_columns(schema) else { return };
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let whole = |names: &[&str], rows: usize| {
        let batches = read_rows(names, rows).inspect_err(refused).ok()?;
        let schema = batches.first()?.schema();
        Some(concat_batches(&schema, &batches).expect("batches of one schema"))
    };
    let Some(all) = whole(&names, 1 << 14) else { return };
    assert_eq!(whole(&names, 3).expect("rows do not depend on batches"), all);
    for name in names {
        // A text that is no UTF-8 is not looked at where nobody wants it; the other way round there is no difference.
        let one = whole(&[name], 7).expect("a column of rows that can be read");
        let Some(column) = all.column_by_name(name) else { panic!("there is no column {name}") };
        assert_eq!(one.num_rows(), all.num_rows());
        assert_eq!(one.column(0), column, "{name}");
    }
}

/// Reads as the library does: what a decoder of the Parquet crate gives up on is damage.
pub fn read(f: impl FnOnce() -> Result<()>) {
    if let Err(e) = decode("a log block", f) {
        refused(&e);
    }
}

/// Damage is refused as such; nothing else goes wrong with bytes in memory.
pub fn refused(e: &hoodoo::Error) {
    let kinds = [ErrorKind::Corrupt, ErrorKind::Unsupported, ErrorKind::Schema];
    assert!(kinds.contains(&e.kind()), "{e:?}");
}

/// For targets over the Parquet crate, which panics at some damage: the library makes errors of that, so panics of other
/// crates are none here as long as they are caught. Those of the library itself are.
pub fn panics_are_errors() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if panic.location().is_none_or(|at| !at.file().contains("/registry/") && !at.file().contains("/rustc/")) {
            usual(panic);
        }
    }));
}
