//! Where the ordering column of a name is: a column of that name, or a field of a struct column, by its dotted name.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, make_array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Field, Schema};

use hoodoo_runtime::error::{Error, Result};

/// Whether an ordering column is a column of this name, or lies in it.
pub fn lies_in(ordering: &str, column: &str) -> bool {
    ordering.strip_prefix(column).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// The type of an ordering column; `None` if a schema does not have it.
pub fn ordering_type<'s>(schema: &'s Schema, name: &str) -> Option<&'s DataType> {
    if let Some((_, field)) = schema.fields().find(name) {
        return Some(field.data_type());
    }
    let mut fields = schema.fields();
    let mut found: Option<&Field> = None;
    for part in name.split('.') {
        if let Some(around) = found {
            let DataType::Struct(inner) = around.data_type() else { return None };
            fields = inner;
        }
        found = Some(fields.find(part)?.1);
    }
    Some(found?.data_type())
}

/// The ordering column of a name: null where a struct around it is.
///
/// # Errors
/// `Schema` when the rows do not have it.
pub fn ordering_column(batch: &RecordBatch, name: &str) -> Result<ArrayRef> {
    match batch.column_by_name(name) {
        Some(column) => Ok(column.clone()),
        None => nested(batch, name)?.ok_or_else(|| missing(name)),
    }
}

/// The error of rows without an ordering column.
pub fn missing(name: &str) -> Error {
    Error::schema(format!("the ordering column '{name}' is missing")).with("column", name)
}

fn nested(batch: &RecordBatch, name: &str) -> Result<Option<ArrayRef>> {
    let mut parts = name.split('.');
    let Some(mut column) = parts.next().and_then(|first| batch.column_by_name(first)) else { return Ok(None) };
    let mut parents: Option<NullBuffer> = None;
    for part in parts {
        let Some(around) = column.as_struct_opt() else { return Ok(None) };
        parents = NullBuffer::union(parents.as_ref(), around.nulls());
        let Some(inner) = around.column_by_name(part) else { return Ok(None) };
        column = inner;
    }
    let column = match column.data_type() {
        // Its nulls may be in the values: flatten first.
        DataType::Dictionary(_, values) if parents.is_some() => arrow_cast::cast(column, values)?,
        _ => column.clone(),
    };
    let nulls = NullBuffer::union(parents.as_ref(), column.nulls());
    Ok(Some(match column.data_type() {
        DataType::Null => column,
        _ => make_array(column.to_data().into_builder().nulls(nulls).build()?),
    }))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;
    use arrow::array::{Int64Array, StructArray};
    use arrow::datatypes::{Fields, Int64Type};
    use std::sync::Arc;

    fn batch() -> RecordBatch {
        let number = Arc::new(Field::new("p", DataType::Int64, true));
        let inner: ArrayRef = Arc::new(StructArray::new(
            Fields::from(vec![number]),
            vec![Arc::new(Int64Array::from(vec![Some(1), Some(2), None]))],
            Some(NullBuffer::from(vec![true, false, true])),
        ));
        let field = Arc::new(Field::new("in", inner.data_type().clone(), true));
        let outer: ArrayRef = Arc::new(StructArray::new(Fields::from(vec![field]), vec![inner], None));
        RecordBatch::try_from_iter([("st", outer)]).unwrap()
    }

    #[test]
    fn a_field_of_a_struct_is_null_where_the_struct_is() {
        let batch = batch();
        let column = ordering_column(&batch, "st.in.p").unwrap();
        let values: Vec<Option<i64>> = column.as_primitive::<Int64Type>().iter().collect();
        assert_eq!(values, [Some(1), None, None]);
        assert_eq!(ordering_type(&batch.schema(), "st.in.p"), Some(&DataType::Int64));
    }

    #[test]
    fn a_column_whose_name_has_a_dot_comes_first() {
        let dotted: ArrayRef = Arc::new(Int64Array::from(vec![7]));
        let batch = RecordBatch::try_from_iter([("st.p", dotted)]).unwrap();
        assert_eq!(ordering_column(&batch, "st.p").unwrap().as_primitive::<Int64Type>().values()[..], [7]);
        assert_eq!(ordering_type(&batch.schema(), "st.p"), Some(&DataType::Int64));
    }

    #[test]
    fn what_is_not_there_is_missing() {
        let batch = batch();
        for name in ["st.q", "st.in.p.x", "other", "other.p", ""] {
            assert!(ordering_column(&batch, name).is_err(), "{name}");
            assert_eq!(ordering_type(&batch.schema(), name), None, "{name}");
        }
        assert!(lies_in("st.p", "st") && lies_in("st", "st") && !lies_in("star", "st") && !lies_in("st", "st.p"));
    }
}
