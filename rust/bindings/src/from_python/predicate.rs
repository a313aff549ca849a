//! Filters: nested tuples such as `("and", [("=", "city", array), …])`, literals as Arrow arrays.

use arrow::array::{ArrayData, ArrayRef, make_array};
use arrow_pyarrow::PyArrowType;
use hoodoo::file_group::base::Predicate;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Reads a filter.
pub fn predicate(value: &Bound<'_, PyAny>) -> PyResult<Predicate> {
    let operator: String = value.get_item(0)?.extract()?;
    match operator.as_str() {
        "and" => return Ok(Predicate::And(parts(&value.get_item(1)?)?)),
        "or" => return Ok(Predicate::Or(parts(&value.get_item(1)?)?)),
        "not" => return Ok(Predicate::Not(Box::new(predicate(&value.get_item(1)?)?))),
        _ => {}
    }
    let column: String = value.get_item(1)?.extract()?;
    match operator.as_str() {
        "is_null" => return Ok(Predicate::IsNull(column)),
        "is_not_null" => return Ok(Predicate::IsNotNull(column)),
        _ => {}
    }
    let literal: PyArrowType<ArrayData> = value.get_item(2)?.extract()?;
    let literal: ArrayRef = make_array(literal.0);
    Ok(match operator.as_str() {
        "=" => Predicate::Eq(column, literal),
        "!=" => Predicate::NotEq(column, literal),
        "<" => Predicate::Lt(column, literal),
        "<=" => Predicate::LtEq(column, literal),
        ">" => Predicate::Gt(column, literal),
        ">=" => Predicate::GtEq(column, literal),
        "in" => Predicate::In(column, literal),
        other => return Err(PyValueError::new_err(format!("unknown filter operator '{other}'"))),
    })
}

fn parts(value: &Bound<'_, PyAny>) -> PyResult<Vec<Predicate>> {
    value.try_iter()?.map(|part| predicate(&part?)).collect()
}
