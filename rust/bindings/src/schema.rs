//! Changing the columns of a table.

use arrow::datatypes::DataType;
use arrow_pyarrow::FromPyArrow;
use hoodoo::client::{self, ColumnPlace, SchemaEdit};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::call;
use crate::table::NativeTable;

/// A change: what it does, the column, a type, a text (another name, or a comment), whether it may be null, where it goes:
/// nowhere, in front of the others (an empty text), or behind a column.
type Edit<'py> = (String, String, Option<Bound<'py, PyAny>>, Option<String>, Option<bool>, Option<String>);

/// Changes the columns of a table in one commit.
#[pyfunction]
pub fn update_schema<'py>(
    py: Python<'py>,
    table: &NativeTable,
    edits: Vec<Edit<'py>>,
) -> PyResult<Option<Bound<'py, PyDict>>> {
    let edits = edits.into_iter().map(edit).collect::<PyResult<Vec<_>>>()?;
    call::commit(py, || client::update_schema(&table.table, edits).map(Some))
}

fn edit((kind, name, data_type, text, nullable, place): Edit<'_>) -> PyResult<SchemaEdit> {
    let data_type = data_type.map(|data_type| DataType::from_pyarrow_bound(&data_type)).transpose()?;
    let place = match place {
        None => ColumnPlace::Last,
        Some(other) if other.is_empty() => ColumnPlace::First,
        Some(other) => ColumnPlace::After(other),
    };
    let incomplete = || PyValueError::new_err(format!("the change '{kind}' of '{name}' is incomplete"));
    Ok(match kind.as_str() {
        "add" => SchemaEdit::Add { data_type: data_type.ok_or_else(incomplete)?, name, doc: text, place },
        "rename" => SchemaEdit::Rename { to: text.ok_or_else(incomplete)?, name },
        "drop" => SchemaEdit::Drop { name },
        "change" => SchemaEdit::Change { name, data_type, nullable, doc: text },
        "move" => SchemaEdit::Move { name, place },
        _ => return Err(incomplete()),
    })
}
