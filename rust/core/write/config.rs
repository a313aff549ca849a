//! The options of a write, typed.

use crate::error::{Error, Result};
use crate::file_group::base::BaseFileOptions;
use crate::file_group::log::BlockFormat;
use crate::metadata_table::RECORD_INDEX;
use crate::table::{HudiTable, Options, base_file_options};

/// Option by which a write builds a record index.
const BUILD: &str = "hoodie.metadata.global.record.level.index.enable";

/// What a write does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// New rows; keys that are there already are not looked for.
    Insert,
    /// New rows in files of full size, sorted if asked.
    BulkInsert,
    /// New rows and new versions of rows.
    Upsert,
    /// Rows go, by key.
    Delete,
    /// New rows in place of all that is in their partitions.
    InsertOverwrite,
    /// New rows in place of all that is in the table.
    InsertOverwriteTable,
    /// Whole partitions go.
    DeletePartition,
}

impl Operation {
    /// Understands a value of `hoodie.datasource.write.operation`.
    pub fn parse(name: &str) -> Result<Self> {
        Ok(match name.to_ascii_lowercase().as_str() {
            "insert" => Self::Insert,
            "bulk_insert" => Self::BulkInsert,
            "upsert" => Self::Upsert,
            "delete" => Self::Delete,
            "insert_overwrite" => Self::InsertOverwrite,
            "insert_overwrite_table" => Self::InsertOverwriteTable,
            "delete_partition" => Self::DeletePartition,
            _ => {
                return Err(Error::invalid_option(format!("'{name}' is no operation that can be written")).remedy(
                    "Use upsert, insert, bulk_insert, delete, insert_overwrite, insert_overwrite_table or delete_partition",
                ));
            }
        })
    }

    /// Hudi's name in commit metadata.
    pub fn name(self) -> &'static str {
        match self {
            Self::Insert => "INSERT",
            Self::BulkInsert => "BULK_INSERT",
            Self::Upsert => "UPSERT",
            Self::Delete => "DELETE",
            Self::InsertOverwrite => "INSERT_OVERWRITE",
            Self::InsertOverwriteTable => "INSERT_OVERWRITE_TABLE",
            Self::DeletePartition => "DELETE_PARTITION",
        }
    }

    /// Whether it replaces file groups, and so completes as a replacecommit.
    pub fn replaces(self) -> bool {
        matches!(self, Self::InsertOverwrite | Self::InsertOverwriteTable | Self::DeletePartition)
    }
}

/// How stored records are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IndexType {
    /// By key within the partition, with bloom filters.
    Bloom,
    /// By key within the partition.
    Simple,
    /// By key in the whole table, with bloom filters.
    GlobalBloom,
    /// By key in the whole table.
    GlobalSimple,
    /// By the record index of the metadata table, within the partition.
    RecordLevel,
    /// By the record index of the metadata table, in the whole table.
    GlobalRecordLevel,
    /// By the hash of the key, within the partition.
    Bucket,
}

impl IndexType {
    fn parse(name: &str) -> Result<Self> {
        match name.to_ascii_uppercase().as_str() {
            "BLOOM" => Ok(Self::Bloom),
            "SIMPLE" => Ok(Self::Simple),
            "GLOBAL_BLOOM" => Ok(Self::GlobalBloom),
            "GLOBAL_SIMPLE" => Ok(Self::GlobalSimple),
            "RECORD_LEVEL_INDEX" => Ok(Self::RecordLevel),
            "GLOBAL_RECORD_LEVEL_INDEX" | "RECORD_INDEX" => Ok(Self::GlobalRecordLevel),
            "BUCKET" => Ok(Self::Bucket),
            other => Err(Error::unsupported(format!("index type {other} is not supported")).remedy(
                "Use BLOOM, SIMPLE, BUCKET, GLOBAL_BLOOM, GLOBAL_SIMPLE, RECORD_LEVEL_INDEX or \
                 GLOBAL_RECORD_LEVEL_INDEX in hoodie.index.type",
            )),
        }
    }

    /// Whether a key is unique in the table and not only in its partition.
    pub(crate) fn is_global(self) -> bool {
        matches!(self, Self::GlobalBloom | Self::GlobalSimple | Self::GlobalRecordLevel)
    }

    /// Whether the record index is asked.
    pub(crate) fn is_record_level(self) -> bool {
        matches!(self, Self::RecordLevel | Self::GlobalRecordLevel)
    }

    /// What takes the place of a record index that is not there, as in Hudi.
    fn without_record_index(self) -> Self {
        match self {
            Self::RecordLevel => Self::Simple,
            Self::GlobalRecordLevel => Self::GlobalSimple,
            other => other,
        }
    }

    /// Whether rows whose partition changed move there, if keys are unique in the whole table.
    fn updates_partition_path(self, options: &Options) -> Result<bool> {
        match self {
            Self::GlobalBloom | Self::Bloom => options.flag("hoodie.bloom.index.update.partition.path", true),
            Self::GlobalSimple | Self::Simple => options.flag("hoodie.simple.index.update.partition.path", true),
            Self::GlobalRecordLevel | Self::RecordLevel => {
                options.flag("hoodie.record.index.update.partition.path", false)
            }
            Self::Bucket => Ok(false),
        }
    }
}

/// How `bulk_insert` orders rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SortMode {
    /// As they come.
    None,
    /// By record key within each partition. (`GLOBAL_SORT`, `PARTITION_SORT` and the like come to the same here.)
    Key,
    /// By columns within each partition.
    Columns(Vec<String>),
}

/// The options of a write.
#[derive(Debug, Clone)]
pub(crate) struct WriteConfig {
    /// How stored records are found.
    pub index: IndexType,
    /// Global index: a row whose partition changed moves there.
    pub update_partition_path: bool,
    /// Whether base files are left out by what the metadata table knows of their keys.
    pub asks_metadata_table: bool,
    /// One record for each key of an upsert.
    pub combine_before_upsert: bool,
    /// One record for each key of an insert.
    pub combine_before_insert: bool,
    /// Inserts into a small file keep rows of a key that the file holds already.
    pub allow_duplicates_on_insert: bool,
    /// Columns that the data lack become null.
    pub null_for_missing: bool,
    /// A write that would change the schema of the table is refused.
    pub refuse_schema_changes: bool,
    /// Target size of a base file in bytes.
    pub max_file_size: u64,
    /// Base files smaller than this take inserts; 0: none does.
    pub small_file_limit: u64,
    /// Rows of a new file when they are not derived from the size of records.
    pub insert_split_size: u64,
    /// Whether they are.
    pub insert_auto_split: bool,
    /// Bytes of a record while the table cannot tell.
    pub record_size_estimate: u64,
    /// A commit tells the size of a record when it wrote more than this share of `small_file_limit`.
    pub record_size_threshold: f64,
    /// Order of `bulk_insert`.
    pub sort: SortMode,
    /// How base files are written.
    pub base_file: BaseFileOptions,
    /// Bytes at which a block of a log file ends.
    pub log_block_bytes: usize,
    /// Bytes at which a log file ends.
    pub log_file_bytes: u64,
    /// Whether log blocks tell where in the base file their records are.
    pub log_positions: bool,
    /// Form of its records.
    pub log_block_format: BlockFormat,
}

impl WriteConfig {
    /// The options of a write to a table. Where it is to look keys up in a record index that the table does not have, it
    /// looks into the files instead.
    ///
    /// # Errors
    /// Those of [`WriteConfig::new`].
    pub(crate) fn of_table(table: &HudiTable) -> Result<Self> {
        let options = table.options();
        let mut config = Self::new(options)?;
        let has_index = || table.config().complete_metadata_partitions().iter().any(|name| name == RECORD_INDEX);
        if config.index.is_record_level() && !(options.flag("hoodie.metadata.enable", true)? && has_index()) {
            let index = config.index.without_record_index();
            // Where one is wanted, this write builds it.
            if table.wanted_record_index()?.is_none() {
                tracing::warn!(
                    table = table.storage().uri(),
                    "keys are looked for in the files, for the table has no record index. Set {BUILD}=true to build one, or \
                     another hoodie.index.type"
                );
            }
            config.update_partition_path = index.updates_partition_path(options)?;
            config.index = index;
        }
        Ok(config)
    }

    /// Reads and checks the options.
    pub(crate) fn new(options: &Options) -> Result<Self> {
        let index = IndexType::parse(options.get("hoodie.index.type").unwrap_or("SIMPLE"))?;
        let max_file_size = options.number("hoodie.parquet.max.file.size", 120u64 << 20)?;
        if max_file_size == 0 {
            return Err(
                Error::invalid_option("hoodie.parquet.max.file.size is 0").remedy("Set it to a number of bytes")
            );
        }
        let small_file_limit = options.number("hoodie.parquet.small.file.limit", 100i64 << 20)?;
        Ok(Self {
            index,
            update_partition_path: index.updates_partition_path(options)?,
            asks_metadata_table: options.flag("hoodie.bloom.index.use.metadata", true)?,
            combine_before_upsert: options.flag("hoodie.combine.before.upsert", true)?,
            combine_before_insert: options.flag("hoodie.combine.before.insert", false)?,
            allow_duplicates_on_insert: options.flag("hoodie.merge.allow.duplicate.on.inserts", true)?,
            null_for_missing: options.flag("hoodie.write.set.null.for.missing.columns", false)?
                || options.flag("hoodie.datasource.write.reconcile.schema", false)?,
            refuse_schema_changes: refuses_schema_changes(options)?,
            max_file_size,
            small_file_limit: u64::try_from(small_file_limit).unwrap_or(0),
            insert_split_size: options.number("hoodie.copyonwrite.insert.split.size", 500_000u64)?.max(1),
            insert_auto_split: options.flag("hoodie.copyonwrite.insert.auto.split", true)?,
            record_size_estimate: options.number("hoodie.copyonwrite.record.size.estimate", 1024u64)?.max(1),
            record_size_threshold: options.number("hoodie.record.size.estimation.threshold", 1.0f64)?,
            sort: sort_mode(options)?,
            base_file: base_file_options(options)?,
            log_block_format: BlockFormat::parse(options.get("hoodie.logfile.data.block.format").unwrap_or("avro"))?,
            log_file_bytes: options.number("hoodie.logfile.max.size", 1u64 << 30)?.max(1),
            log_positions: options.flag("hoodie.write.record.positions", true)?,
            log_block_bytes: options.number("hoodie.logfile.data.block.max.size", 256usize << 20)?.max(1),
        })
    }
}

fn refuses_schema_changes(options: &Options) -> Result<bool> {
    match options.get("hoodoo.schema.evolution").unwrap_or("allow").to_ascii_lowercase().as_str() {
        "allow" => Ok(false),
        "refuse" => Ok(true),
        other => Err(Error::invalid_option(format!("invalid value '{other}' for hoodoo.schema.evolution"))
            .remedy("Use allow or refuse (schema_evolution)")),
    }
}

fn sort_mode(options: &Options) -> Result<SortMode> {
    if let Some(columns) = options.get("hoodie.bulkinsert.user.defined.partitioner.sort.columns") {
        return Ok(SortMode::Columns(columns.split(',').map(|c| c.trim().to_owned()).collect()));
    }
    match options.get("hoodie.bulkinsert.sort.mode").unwrap_or("NONE").to_ascii_uppercase().as_str() {
        "NONE" | "PARTITION_PATH_REPARTITION" => Ok(SortMode::None),
        "GLOBAL_SORT" | "PARTITION_SORT" | "PARTITION_PATH_REPARTITION_AND_SORT" => Ok(SortMode::Key),
        other => Err(Error::invalid_option(format!("'{other}' is no sort mode")).remedy(
            "Use NONE, GLOBAL_SORT, PARTITION_SORT, PARTITION_PATH_REPARTITION or PARTITION_PATH_REPARTITION_AND_SORT",
        )),
    }
}
