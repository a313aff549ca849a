//! What a table or a write says about keys: generator, fields, path style; read from `hoodie.*` properties.

use arrow::datatypes::{DataType, Field, Schema};

use super::timestamp::TimestampKeyGenConfig;
use crate::error::{Error, Result};

/// `hoodie.table.recordkey.fields` and the write option of the same meaning.
const RECORD_KEY: [&str; 2] = ["hoodie.table.recordkey.fields", "hoodie.datasource.write.recordkey.field"];
const PARTITION: [&str; 2] = ["hoodie.table.partition.fields", "hoodie.datasource.write.partitionpath.field"];
/// A class wins over a type, the table over the write.
const GENERATOR: [&str; 4] = [
    "hoodie.table.keygenerator.class",
    "hoodie.table.keygenerator.type",
    "hoodie.datasource.write.keygenerator.class",
    "hoodie.datasource.write.keygenerator.type",
];
const HIVE_STYLE: &str = "hoodie.datasource.write.hive_style_partitioning";
const URL_ENCODE: &str = "hoodie.datasource.write.partitionpath.urlencode";
const SLASH_DATE: &str = "hoodie.datasource.write.slash.separated.date.partitioning";
const CONSISTENT: &str = "hoodie.datasource.write.keygenerator.consistent.logical.timestamp.enabled";
const NEW_ENCODING: &str = "hoodie.write.complex.keygen.new.encoding";

/// How keys and partition paths are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeyGeneratorType {
    /// One key field, one partition field.
    Simple,
    /// Any number of both; keys are `field:value,…`.
    Complex,
    /// One key field; one partition field, read as a time and formatted.
    Timestamp,
    /// Each partition field by the simple or the timestamp rule.
    Custom,
    /// No partitions.
    NonPartition,
    /// Keys by instant, task and row number.
    AutoRecord,
    /// No partitions; keys are `field:value,…` even for one field.
    GlobalDelete,
}

impl KeyGeneratorType {
    /// Reads a value of `hoodie.table.keygenerator.type` or a class name of Hudi's own generators.
    ///
    /// `None` stands for `SPARK_SQL`, whose rules follow from the fields. Generators that run code of the user, and those
    /// that only Hudi itself uses, are unsupported.
    pub fn parse(value: &str) -> Result<Option<Self>> {
        let trimmed = value.trim();
        let hudi_class =
            trimmed.strip_prefix("org.apache.hudi.").or(trimmed.strip_prefix("org.apache.spark.sql.hudi."));
        let found = match hudi_class {
            Some(class) => Self::from_class(class.rsplit('.').next().unwrap_or(class)),
            None => Self::from_type(&trimmed.to_ascii_uppercase()),
        };
        found.ok_or_else(|| {
            Error::unsupported(format!("the key generator {trimmed:?} is not supported"))
                .remedy("Use SIMPLE, COMPLEX, TIMESTAMP, CUSTOM, NON_PARTITION or generated keys")
        })
    }

    fn from_type(name: &str) -> Option<Option<Self>> {
        Some(match name.strip_suffix("_AVRO").unwrap_or(name) {
            "SIMPLE" => Some(Self::Simple),
            "COMPLEX" => Some(Self::Complex),
            "TIMESTAMP" => Some(Self::Timestamp),
            "CUSTOM" => Some(Self::Custom),
            "NON_PARTITION" => Some(Self::NonPartition),
            "AUTO_RECORD" => Some(Self::AutoRecord),
            "GLOBAL_DELETE" => Some(Self::GlobalDelete),
            "SPARK_SQL" => None,
            _ => return None,
        })
    }

    fn from_class(class: &str) -> Option<Option<Self>> {
        Some(match class {
            "SimpleKeyGenerator" | "SimpleAvroKeyGenerator" => Some(Self::Simple),
            "ComplexKeyGenerator" | "ComplexAvroKeyGenerator" => Some(Self::Complex),
            "TimestampBasedKeyGenerator" | "TimestampBasedAvroKeyGenerator" => Some(Self::Timestamp),
            "CustomKeyGenerator" | "CustomAvroKeyGenerator" => Some(Self::Custom),
            "NonpartitionedKeyGenerator" | "NonpartitionedAvroKeyGenerator" => Some(Self::NonPartition),
            "AutoRecordGenWrapperKeyGenerator" | "AutoRecordGenWrapperAvroKeyGenerator" => Some(Self::AutoRecord),
            "GlobalDeleteKeyGenerator" | "GlobalAvroDeleteKeyGenerator" => Some(Self::GlobalDelete),
            "SqlKeyGenerator" => None,
            _ => return None,
        })
    }

    /// What Hudi takes when nothing is set.
    pub fn infer(record_key_fields: &[String], partition_fields: &str) -> Self {
        let mut fields = partition_fields.split(',');
        let first = fields.next().unwrap_or_default();
        if partition_fields.trim().is_empty() {
            Self::NonPartition
        } else if first.contains(':') {
            Self::Custom
        } else if fields.next().is_none() && record_key_fields.len() <= 1 {
            Self::Simple
        } else {
            Self::Complex
        }
    }

    /// The value of `hoodie.table.keygenerator.type`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Simple => "SIMPLE",
            Self::Complex => "COMPLEX",
            Self::Timestamp => "TIMESTAMP",
            Self::Custom => "CUSTOM",
            Self::NonPartition => "NON_PARTITION",
            Self::AutoRecord => "AUTO_RECORD",
            Self::GlobalDelete => "GLOBAL_DELETE",
        }
    }

    /// The value of `hoodie.table.keygenerator.class`: Hudi's class for Spark.
    pub fn class(self) -> &'static str {
        match self {
            Self::Simple => "org.apache.hudi.keygen.SimpleKeyGenerator",
            Self::Complex => "org.apache.hudi.keygen.ComplexKeyGenerator",
            Self::Timestamp => "org.apache.hudi.keygen.TimestampBasedKeyGenerator",
            Self::Custom => "org.apache.hudi.keygen.CustomKeyGenerator",
            Self::NonPartition => "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
            Self::AutoRecord => "org.apache.hudi.keygen.AutoRecordGenWrapperKeyGenerator",
            Self::GlobalDelete => "org.apache.hudi.keygen.GlobalDeleteKeyGenerator",
        }
    }
}

/// The rule for one partition field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PartitionFieldKind {
    /// The value as text.
    Simple,
    /// The value as a time, formatted.
    Timestamp,
}

/// One partition field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionField {
    /// Column name; `a.b` is the field `b` of the struct `a`.
    pub name: String,
    /// How its value becomes text.
    pub kind: PartitionFieldKind,
}

/// Everything that keys and partition paths depend on.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyGenConfig {
    /// The generator.
    pub kind: KeyGeneratorType,
    /// Key columns in order; none: keys are generated.
    pub record_key_fields: Vec<String>,
    /// Partition columns in order; none: one partition, the table's folder.
    pub partition_fields: Vec<PartitionField>,
    /// `field=value` folders.
    pub hive_style: bool,
    /// Special characters as `%XX`.
    pub url_encode: bool,
    /// `2024-01-02` becomes three folders.
    pub slash_separated_date: bool,
    /// COMPLEX with one key field: `field:value`, or the bare value.
    pub complex_single_key_with_name: bool,
    /// Timestamps as `yyyy-MM-dd HH:mm:ss.f` and not as a number.
    pub consistent_logical_timestamp: bool,
    /// Settings of the TIMESTAMP rule.
    pub timestamp: Option<TimestampKeyGenConfig>,
}

impl KeyGenConfig {
    /// Reads table properties and write options, where `get` looks a key up in both.
    ///
    /// # Errors
    /// An unknown generator, fields that contradict it, or a wrong or missing setting of the TIMESTAMP rule.
    pub fn from_properties(get: &dyn Fn(&str) -> Option<String>, table_version: u32) -> Result<Self> {
        let flag = |key: &str| get(key).is_some_and(|v| v.trim().eq_ignore_ascii_case("true"));
        let first = |keys: &[&str]| keys.iter().find_map(|k| get(k));
        let record_key_fields = split_fields(&first(&RECORD_KEY).unwrap_or_default());
        let mut partition = first(&PARTITION).unwrap_or_default();
        let named = GENERATOR.iter().find_map(|k| get(k).filter(|v| !v.trim().is_empty()));
        let mut kind = match named {
            // Older tables name no class for USER_PROVIDED; the class key comes first when there is one.
            Some(value) => KeyGeneratorType::parse(&value)?,
            None => None,
        };
        if kind == Some(KeyGeneratorType::AutoRecord) && !record_key_fields.is_empty() {
            kind = None;
        }
        let kind = kind.unwrap_or_else(|| KeyGeneratorType::infer(&record_key_fields, &partition));
        if kind == KeyGeneratorType::Custom && !partition.contains(':') && !partition.trim().is_empty() {
            // Before version 8 the table keeps the names only; the write option has the types.
            partition = get(PARTITION[1]).filter(|p| p.contains(':')).unwrap_or(partition);
        }
        let partition_fields = partition_fields(kind, &partition)?;
        let timed = partition_fields.iter().any(|f| f.kind == PartitionFieldKind::Timestamp);
        let made = Self {
            kind,
            record_key_fields,
            partition_fields,
            hive_style: flag(HIVE_STYLE),
            url_encode: flag(URL_ENCODE),
            slash_separated_date: flag(SLASH_DATE),
            complex_single_key_with_name: table_version >= 9 || !flag(NEW_ENCODING),
            consistent_logical_timestamp: flag(CONSISTENT),
            timestamp: if timed { Some(TimestampKeyGenConfig::from_properties(get)?) } else { None },
        };
        made.check()?;
        Ok(made)
    }

    /// Whether keys are generated, for want of key fields.
    pub fn generates_keys(&self) -> bool {
        self.record_key_fields.is_empty()
    }

    /// The same keys without partitions: for rows that do not say in which they are.
    pub fn without_partitions(&self) -> Self {
        Self { partition_fields: Vec::new(), ..self.clone() }
    }

    /// The same partitions without keys: for rows that have no key columns.
    pub fn without_keys(&self) -> Self {
        Self { record_key_fields: Vec::new(), ..self.clone() }
    }

    fn check(&self) -> Result<()> {
        let many = |what: &str, count: usize| {
            Error::invalid_option(format!("the key generator {} takes one {what} field, not {count}", self.kind.name()))
                .remedy("Use COMPLEX")
        };
        let single = matches!(self.kind, KeyGeneratorType::Simple | KeyGeneratorType::Timestamp);
        if single && self.record_key_fields.len() > 1 {
            return Err(many("record key", self.record_key_fields.len()));
        }
        if single && self.partition_fields.len() != 1 {
            return Err(many("partition", self.partition_fields.len()));
        }
        Ok(())
    }

    /// Whether dashes of this field's value become slashes.
    pub(super) fn slashes(&self, field: &PartitionField) -> bool {
        self.slash_separated_date
            && field.kind == PartitionFieldKind::Simple
            && (self.partition_fields.len() == 1 || self.kind == KeyGeneratorType::Custom)
    }

    /// Key columns that a record key spells without loss: integers, or a text that is the whole key. A key of several
    /// parts is ambiguous where one of them is a text.
    pub fn exact_key_columns(&self, schema: &Schema) -> Vec<String> {
        let fields = &self.record_key_fields;
        let exact = |name: &String| match schema.field_with_name(name).map(Field::data_type) {
            Ok(DataType::Int32 | DataType::Int64) => true,
            Ok(DataType::Utf8) => fields.len() == 1,
            _ => false,
        };
        if self.generates_keys() || !fields.iter().all(exact) { Vec::new() } else { fields.clone() }
    }
}

fn split_fields(list: &str) -> Vec<String> {
    list.split(',').map(str::trim).filter(|f| !f.is_empty()).map(str::to_owned).collect()
}

fn partition_fields(kind: KeyGeneratorType, list: &str) -> Result<Vec<PartitionField>> {
    let typed = |field: &str| -> Result<PartitionField> {
        let (name, rule) = field.split_once(':').ok_or_else(|| {
            Error::invalid_option(format!("the partition field {field:?} of a CUSTOM key generator has no type"))
                .remedy("Write hoodie.datasource.write.partitionpath.field as city:SIMPLE,ts:TIMESTAMP")
        })?;
        let kind = match rule.trim().to_ascii_uppercase().as_str() {
            "SIMPLE" => PartitionFieldKind::Simple,
            "TIMESTAMP" => PartitionFieldKind::Timestamp,
            other => {
                return Err(
                    Error::invalid_option(format!("invalid type {other:?} of a partition field")).with("field", field)
                );
            }
        };
        Ok(PartitionField { name: name.trim().to_owned(), kind })
    };
    let fields = split_fields(list);
    match kind {
        KeyGeneratorType::NonPartition | KeyGeneratorType::GlobalDelete => Ok(Vec::new()),
        KeyGeneratorType::Custom => fields.iter().map(|f| typed(f)).collect(),
        KeyGeneratorType::AutoRecord if list.contains(':') => fields.iter().map(|f| typed(f)).collect(),
        _ => {
            let rule = match kind {
                KeyGeneratorType::Timestamp => PartitionFieldKind::Timestamp,
                _ => PartitionFieldKind::Simple,
            };
            Ok(fields.into_iter().map(|name| PartitionField { name, kind: rule }).collect())
        }
    }
}
