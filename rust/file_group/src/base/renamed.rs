//! The footer of a file whose fields have other names in the table now: as if it had been written with those.

use std::sync::Arc;

use parquet::basic::{ConvertedType, LogicalType, Repetition};
use parquet::errors::Result as ParquetResult;
use parquet::file::metadata::{ColumnChunkMetaData, FileMetaData, ParquetMetaData, RowGroupMetaData};
use parquet::schema::types::{ColumnDescPtr, SchemaDescriptor, Type, TypePtr};

use hoodoo_format::internal_schema::ColumnNames;
use hoodoo_runtime::error::{Error, Result};

/// The footer with the names of the table.
///
/// # Errors
/// `Corrupt` for a footer that cannot be put together again.
pub(super) fn renamed(metadata: &ParquetMetaData, names: &ColumnNames) -> Result<ParquetMetaData> {
    with_names(metadata, names)
        .map_err(|e| Error::corrupt("the footer of a base file does not fit its schema").caused_by(e))
}

fn with_names(metadata: &ParquetMetaData, names: &ColumnNames) -> ParquetResult<ParquetMetaData> {
    let file = metadata.file_metadata();
    let root = file.schema_descr().root_schema();
    let schema = Arc::new(SchemaDescriptor::new(Arc::new(group(root, root.name(), fields(root, names)?)?)));
    let groups = metadata.row_groups().iter().map(|group| {
        let columns = group.columns().iter().zip(schema.columns());
        let columns =
            columns.map(|(chunk, descr)| of_chunk(chunk, descr.clone())).collect::<ParquetResult<Vec<_>>>()?;
        let mut new = RowGroupMetaData::builder(schema.clone())
            .set_num_rows(group.num_rows())
            .set_total_byte_size(group.total_byte_size())
            .set_sorting_columns(group.sorting_columns().cloned())
            .set_column_metadata(columns);
        if let Some(ordinal) = group.ordinal() {
            new = new.set_ordinal(ordinal);
        }
        if let Some(offset) = group.file_offset() {
            new = new.set_file_offset(offset);
        }
        new.build()
    });
    let groups = groups.collect::<ParquetResult<Vec<_>>>()?;
    let file = FileMetaData::new(
        file.version(),
        file.num_rows(),
        file.created_by().map(str::to_owned),
        file.key_value_metadata().cloned(),
        schema.clone(),
        file.column_orders().cloned(),
    );
    Ok(ParquetMetaData::new(file, groups))
}

/// The same chunk of a column that has another name.
fn of_chunk(chunk: &ColumnChunkMetaData, descr: ColumnDescPtr) -> ParquetResult<ColumnChunkMetaData> {
    let mut new = ColumnChunkMetaData::builder(descr)
        .set_encodings_mask(*chunk.encodings_mask())
        .set_num_values(chunk.num_values())
        .set_compression_codec(chunk.compression_codec())
        .set_total_compressed_size(chunk.compressed_size())
        .set_total_uncompressed_size(chunk.uncompressed_size())
        .set_data_page_offset(chunk.data_page_offset())
        .set_dictionary_page_offset(chunk.dictionary_page_offset())
        .set_index_page_offset(chunk.index_page_offset())
        .set_bloom_filter_offset(chunk.bloom_filter_offset())
        .set_bloom_filter_length(chunk.bloom_filter_length())
        .set_offset_index_offset(chunk.offset_index_offset())
        .set_offset_index_length(chunk.offset_index_length())
        .set_column_index_offset(chunk.column_index_offset())
        .set_column_index_length(chunk.column_index_length())
        .set_unencoded_byte_array_data_bytes(chunk.unencoded_byte_array_data_bytes())
        .set_repetition_level_histogram(chunk.repetition_level_histogram().cloned())
        .set_definition_level_histogram(chunk.definition_level_histogram().cloned());
    if let Some(path) = chunk.file_path() {
        new = new.set_file_path(path.to_owned());
    }
    if let Some(statistics) = chunk.statistics() {
        new = new.set_statistics(statistics.clone());
    }
    if let Some(statistics) = chunk.page_encoding_stats() {
        new = new.set_page_encoding_stats(statistics.clone());
    }
    new.build()
}

/// The fields of a struct with their names in the table.
fn fields(of: &Type, names: &ColumnNames) -> ParquetResult<Vec<TypePtr>> {
    let renamed = |field: &TypePtr| {
        let name = names.name_of(field.name());
        match names.inside(field.name()) {
            Some(inner) => named(field, name, inner),
            None => plainly_named(field, name),
        }
    };
    of.get_fields().iter().map(renamed).collect()
}

/// A field with another name.
fn plainly_named(field: &TypePtr, name: &str) -> ParquetResult<TypePtr> {
    if field.name() == name {
        return Ok(field.clone());
    }
    if field.is_group() {
        return group(field, name, field.get_fields().to_vec()).map(Arc::new);
    }
    let info = field.get_basic_info();
    let (precision, scale) = match field.as_ref() {
        Type::PrimitiveType { precision, scale, .. } => (*precision, *scale),
        Type::GroupType { .. } => (-1, -1),
    };
    let length = match field.as_ref() {
        Type::PrimitiveType { type_length, .. } => *type_length,
        Type::GroupType { .. } => -1,
    };
    let new = Type::primitive_type_builder(name, field.get_physical_type())
        .with_repetition(repetition(field))
        .with_converted_type(info.converted_type())
        .with_logical_type(info.logical_type_ref().cloned())
        .with_length(length)
        .with_precision(precision)
        .with_scale(scale)
        .with_id(info.has_id().then(|| info.id()));
    new.build().map(Arc::new)
}

/// A field with another name, and other names inside.
fn named(field: &TypePtr, name: &str, inner: &ColumnNames) -> ParquetResult<TypePtr> {
    if !field.is_group() {
        return plainly_named(field, name);
    }
    let info = field.get_basic_info();
    let is_list =
        matches!(info.logical_type_ref(), Some(LogicalType::List)) || info.converted_type() == ConvertedType::LIST;
    let is_map = matches!(info.logical_type_ref(), Some(LogicalType::Map))
        || matches!(info.converted_type(), ConvertedType::MAP | ConvertedType::MAP_KEY_VALUE);
    let children = match (is_list, is_map, field.get_fields()) {
        (true, _, [repeated]) => vec![list_child(field, repeated, inner)?],
        (_, true, [entries]) => vec![map_entries(entries, inner)?],
        _ => fields(field, inner)?,
    };
    group(field, name, children).map(Arc::new)
}

/// The repeated field of a list: the elements themselves in files of old writers, or a group around each of them.
fn list_child(list: &Type, repeated: &TypePtr, names: &ColumnNames) -> ParquetResult<TypePtr> {
    let Some(names) = names.element() else { return Ok(repeated.clone()) };
    let is_element = repeated.is_group()
        && (repeated.get_fields().len() != 1
            || repeated.name() == "array"
            || repeated.name() == format!("{}_tuple", list.name()));
    match (repeated.is_group(), is_element) {
        (false, _) => Ok(repeated.clone()),
        (true, true) => named(repeated, repeated.name(), names),
        (true, false) => {
            let inner = repeated.get_fields().iter().map(|element| named(element, element.name(), names));
            group(repeated, repeated.name(), inner.collect::<ParquetResult<Vec<_>>>()?).map(Arc::new)
        }
    }
}

fn map_entries(entries: &TypePtr, names: &ColumnNames) -> ParquetResult<TypePtr> {
    let (Some(names), [key, value]) = (names.value(), entries.get_fields()) else { return Ok(entries.clone()) };
    let pair = vec![key.clone(), named(value, value.name(), names)?];
    group(entries, entries.name(), pair).map(Arc::new)
}

fn repetition(field: &Type) -> Repetition {
    let info = field.get_basic_info();
    if info.has_repetition() { info.repetition() } else { Repetition::REQUIRED }
}

/// A group with another name and other fields.
fn group(of: &Type, name: &str, fields: Vec<TypePtr>) -> ParquetResult<Type> {
    let info = of.get_basic_info();
    let mut new = Type::group_type_builder(name)
        .with_converted_type(info.converted_type())
        .with_logical_type(info.logical_type_ref().cloned())
        .with_fields(fields)
        .with_id(info.has_id().then(|| info.id()));
    if info.has_repetition() {
        new = new.with_repetition(info.repetition());
    }
    new.build()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use hoodoo_format::internal_schema::InternalSchema;
    use parquet::schema::parser::parse_message_type;
    use parquet::schema::printer::print_schema;

    fn schema(leaf: &str, id: i32) -> InternalSchema {
        let inner = format!(r#"{{"type":"record","fields":[{{"id":{id},"name":"{leaf}","type":"int"}}]}}"#);
        let list = |number: i32| format!(r#"{{"type":"array","element_id":{number},"element":{inner}}}"#);
        let map = format!(r#"{{"type":"map","key_id":20,"key":"string","value_id":21,"value":{inner}}}"#);
        let field = |id: i32, name: &str, of: &str| format!(r#"{{"id":{id},"name":"{name}","type":{of}}}"#);
        let fields = [
            field(0, "plain", r#""int""#),
            field(1, "old", &list(10)),
            field(2, "new", &list(11)),
            field(3, "map", &map),
            field(4, "st", &inner),
        ];
        InternalSchema::parse(&format!(r#"{{"fields":[{}]}}"#, fields.join(","))).unwrap()
    }

    fn message(leaf: &str) -> String {
        format!(
            "message m {{
              optional int32 plain;
              optional group old (LIST) {{ repeated group array {{ optional int32 {leaf}; optional int32 other; }} }}
              optional group new (LIST) {{ repeated group list {{ optional group element {{ optional int32 {leaf}; }} }} }}
              optional group map (MAP) {{ repeated group key_value {{ required binary key (STRING); optional group value {{ optional int32 {leaf}; }} }} }}
              optional group st {{ optional int32 {leaf} (INTEGER(16,true)); }}
            }}"
        )
    }

    fn printed(root: &Type) -> String {
        let mut text = Vec::new();
        print_schema(&mut text, root);
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn lists_and_maps_of_all_writers_are_renamed_inside() {
        for (new, id, expected) in [("w", 30, "w"), ("u", 31, "_hoodoo_dropped_30")] {
            let names = ColumnNames::between(&schema("u", 30), &schema(new, id)).unwrap();
            let root = parse_message_type(&message("u")).unwrap();
            let renamed = group(&root, root.name(), fields(&root, &names).unwrap()).unwrap();
            assert_eq!(printed(&renamed), printed(&parse_message_type(&message(expected)).unwrap()));
        }
    }
}
