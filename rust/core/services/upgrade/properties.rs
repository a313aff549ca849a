//! What an upgrade makes of `hoodie.properties`. Pure.

use crate::error::{Error, Result};
use crate::format::properties::Properties;
use crate::table::keygen::KeyGeneratorType;
use crate::table::merge_upgrade;
use crate::table::{Options, TableConfig, TableType};

const VERSION: &str = "hoodie.table.version";
const LAYOUT: &str = "hoodie.timeline.layout.version";
const KEYGEN_CLASS: &str = "hoodie.table.keygenerator.class";
const KEYGEN_TYPE: &str = "hoodie.table.keygenerator.type";
const PARTITION_FIELDS: &str = "hoodie.table.partition.fields";
const PRECOMBINE: &str = "hoodie.table.precombine.field";
const ORDERING: &str = "hoodie.table.ordering.fields";
const PAYLOAD: &str = "hoodie.compaction.payload.class";
const LEGACY_PAYLOAD: &str = "hoodie.table.legacy.payload.class";
const VALIDATION: &str = "hoodie.write.complex.keygen.validation.enable";

/// The properties of a table of version 6 once its timeline has the layout of version 8. How its rows are merged stays.
///
/// # Errors
/// `InvalidOption` for what the job has to say or to confirm; `Unsupported` for other key generators.
pub(super) fn moved(old: &TableConfig, options: &Options) -> Result<Properties> {
    let mut p = old.properties().clone();
    set_if_absent(&mut p, "hoodie.timeline.path", "timeline");
    set_if_absent(&mut p, "hoodie.timeline.history.path", "history");
    // A table that Hudi downgraded still has that of another version.
    p.set("hoodie.table.initial.version", "6");
    set_key_generator(&mut p, old, options)?;
    merge_upgrade::keep_in_version_8(&mut p);
    // It is made anew: its timeline has the old layout too.
    for key in ["hoodie.table.metadata.partitions", "hoodie.table.metadata.partitions.inflight"] {
        if p.get(key).is_some() {
            p.set(key, "");
        }
    }
    p.set(LAYOUT, "2");
    p.set(VERSION, "8");
    Ok(p)
}

/// The properties of a table of version 8 that was of version 6: Hudi gives it a merge mode.
pub(super) fn version_8(mut p: Properties, table_type: TableType) -> Properties {
    let has_ordering = [ORDERING, PRECOMBINE].iter().any(|key| p.get_non_empty(key).is_some());
    merge_upgrade::upgrade_to_8(&mut p, table_type == TableType::MergeOnRead && has_ordering);
    p
}

/// The properties of version 9 for a table of version 6 whose timeline was moved. As Hudi does, the payload class that the table
/// had is kept as the legacy one, whatever version 8 made of it, and no strategy of a merge mode.
pub(super) fn version_9_of_6(p: Properties, table_type: TableType) -> Properties {
    let payload = p.get_non_empty(PAYLOAD).map(str::to_owned);
    let mut p = to_9(version_8(p, table_type), false);
    if let Some(payload) = payload.filter(|_| p.get(LEGACY_PAYLOAD).is_some()) {
        p.set(LEGACY_PAYLOAD, payload);
    }
    p
}

/// The properties of version 9 for a table of version 8.
pub(super) fn version_9(p: Properties) -> Properties {
    to_9(p, true)
}

fn to_9(mut p: Properties, keeps_strategy: bool) -> Properties {
    if let Some(fields) = p.get(PRECOMBINE).map(str::to_owned) {
        p.remove(PRECOMBINE);
        set_if_absent(&mut p, ORDERING, &fields);
    }
    merge_upgrade::upgrade_to_9(&mut p, keeps_strategy);
    p.set(VERSION, "9");
    p
}

/// Refuses tables whose keys may have been written in two forms: Hudi 1.0.2 and 0.15.0 left the name of a single key field out.
///
/// # Errors
/// `InvalidOption`; `Unsupported`.
pub(super) fn check_key_generator(config: &TableConfig, options: &Options) -> Result<()> {
    let stored = config.get(KEYGEN_CLASS).or_else(|| config.get(KEYGEN_TYPE));
    let kind = stored.map(KeyGeneratorType::parse).transpose()?.flatten();
    let is_complex = kind == Some(KeyGeneratorType::Complex) && config.record_key_fields().len() == 1;
    if is_complex && options.flag(VALIDATION, true)? {
        return Err(Error::invalid_option(
            "the table uses the complex key generator with a single record key field, of which some versions of Hudi wrote \
             keys without the name of the field",
        )
        .remedy(format!(
            "Look at _hoodie_record_key; if all keys have one form, set {VALIDATION}=false, and hoodie.write.complex.keygen.new.encoding=true \
             for keys without the name"
        )));
    }
    Ok(())
}

fn set_key_generator(p: &mut Properties, old: &TableConfig, options: &Options) -> Result<()> {
    let Some(stored) = old.get(KEYGEN_CLASS).or_else(|| old.get(KEYGEN_TYPE)) else { return Ok(()) };
    let Some(kind) = KeyGeneratorType::parse(stored)? else { return Ok(()) };
    set_if_absent(p, KEYGEN_TYPE, kind.name());
    set_if_absent(p, KEYGEN_CLASS, kind.class());
    let fields = old.get(PARTITION_FIELDS).unwrap_or_default();
    if kind == KeyGeneratorType::Custom && !fields.is_empty() && !fields.contains(':') {
        let given = options.get(PARTITION_FIELDS).filter(|given| given.contains(':'));
        let given = given.ok_or_else(|| {
            Error::invalid_option(
                "the table has a custom key generator, and does not say of which type its partition fields are",
            )
            .remedy("Set hoodie.datasource.write.partitionpath.field with types: city:SIMPLE,day:TIMESTAMP")
        })?;
        p.set(PARTITION_FIELDS, given);
    }
    Ok(())
}

fn set_if_absent(p: &mut Properties, key: &str, value: &str) {
    if p.get_non_empty(key).is_none() {
        p.set(key, value);
    }
}
