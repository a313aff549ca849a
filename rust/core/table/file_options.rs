//! How this table's base files are written.

use arrow::datatypes::{Fields, Schema, SchemaRef};

use super::partition_filter::check_told;
use super::{HudiTable, Options, with_meta_columns};
use crate::error::{Error, Result};
use crate::file_group::base::{BaseFileOptions, DictionaryUse, parse_codec};
use crate::format::avro::schema::{record_name, record_namespace, table_schema_to_avro};
use crate::format::bloom::{BloomFilterType, BloomOptions, BloomSizing};

impl HudiTable {
    /// The columns of data files for a table of these columns, and what a writer of such files needs to know.
    ///
    /// # Errors
    /// `InvalidOption`; `Schema` for columns that a table cannot hold; `Unsupported` for partition columns that files are to
    /// lack and paths do not tell.
    pub fn file_settings(&self, data: &Schema) -> Result<(SchemaRef, BaseFileOptions)> {
        let settings = self.config();
        let dropped = if settings.drops_partition_columns() { settings.partition_fields() } else { Vec::new() };
        if !dropped.is_empty() {
            for field in &self.key_config()?.partition_fields {
                let column = data.field_with_name(&field.name).ok();
                column.map_or(Ok(()), |column| check_told(field, column.data_type()))?;
            }
        }
        let stored = data.fields().iter().filter(|f| !dropped.contains(f.name())).cloned();
        let stored = Schema::new(stored.collect::<Fields>());
        let mut options = base_file_options(self.options())?;
        options.avro_schema = Some(table_schema_to_avro(&stored, settings.name(), true)?);
        options.message_name = format!("{}.{}", record_namespace(settings.name()), record_name(settings.name()));
        if !settings.populates_meta_fields() {
            options.bloom = None;
        }
        options.indexed_columns = self.collected_columns(data)?;
        Ok((with_meta_columns(&stored), options))
    }
}

/// What the options say about base files.
///
/// # Errors
/// `InvalidOption`.
pub(crate) fn base_file_options(options: &Options) -> Result<BaseFileOptions> {
    let mut base = BaseFileOptions::default();
    if let Some(codec) = options.get("hoodie.parquet.compression.codec") {
        base.codec = parse_codec(codec)?;
    }
    if options.get("hoodie.parquet.block.size").is_some() {
        base.row_group_bytes = options.number("hoodie.parquet.block.size", base.row_group_bytes)?.max(1);
    }
    base.page_checksums = options.flag("hoodoo.parquet.page.checksums", true)?;
    base.page_bytes = options.number("hoodie.parquet.page.size", base.page_bytes)?.max(1);
    if let Some(dictionary) = options.get("hoodie.parquet.dictionary.enabled") {
        base.dictionary = match dictionary.eq_ignore_ascii_case("false") {
            true => DictionaryUse::Never,
            false => DictionaryUse::Auto,
        };
    }
    base.bloom = match options.flag("hoodie.parquet.bloom.filter.enabled", true)? {
        true => Some(bloom_options(options)?),
        false => None,
    };
    Ok(base)
}

fn bloom_options(options: &Options) -> Result<BloomOptions> {
    // Hudi's rate of 1e-9 would make the filter a fifth of a file of narrow rows. At one in a million a batch of a
    // hundred thousand keys still opens one file in ten for nothing.
    let mut bloom = BloomOptions { fpp: 1e-6, ..BloomOptions::default() };
    if let Some(kind) = options.get("hoodie.bloom.index.filter.type") {
        bloom.filter_type = BloomFilterType::parse(kind)?;
    }
    bloom.fpp = options.number("hoodie.index.bloom.fpp", bloom.fpp)?;
    if !(bloom.fpp > 0.0 && bloom.fpp < 1.0) {
        return Err(Error::invalid_option("hoodie.index.bloom.fpp is not between 0 and 1"));
    }
    let sized = ["hoodie.index.bloom.num_entries", "hoodie.bloom.index.filter.dynamic.max.entries"];
    if sized.iter().any(|key| options.get(key).is_some()) {
        let [entries, most] = sized;
        bloom.sizing = BloomSizing::Configured {
            entries: options.number(entries, 60_000)?,
            max_entries: options.number(most, 100_000)?,
        };
    }
    Ok(bloom)
}
