//! Casts a column of one side to the type of the other, unless a value would be lost.

use arrow::array::{Array, ArrayRef, new_null_array};
use arrow::datatypes::{DataType, Field};
use arrow_cast::{CastOptions, cast_with_options};

use crate::error::{Error, Result};
use crate::table::{Cast, cast_column};

/// A value that does not fit is an error, not null.
const STRICT: CastOptions<'static> =
    CastOptions { safe: false, format_options: arrow::util::display::FormatOptions::new() };

/// A column of the `newer` or of later `older` rows in the type of a field.
///
/// # Errors
/// `Schema` for a type that cannot be cast, or a value that would change.
pub(super) fn lossless(column: &ArrayRef, field: &Field, newer: bool) -> Result<ArrayRef> {
    let wanted = field.data_type();
    if column.data_type() == wanted {
        return Ok(column.clone());
    }
    if column.null_count() == column.len() || column.data_type() == &DataType::Null {
        return Ok(new_null_array(wanted, column.len()));
    }
    let differs = || {
        let (given, name) = (column.data_type(), field.name());
        let error = match newer {
            true => {
                Error::schema(format!("column '{name}' is {given} in the newer rows and {wanted} in the older ones"))
            }
            false => Error::schema(format!("column '{name}' is {wanted} in some older rows and {given} in others")),
        };
        error.with("column", name).remedy("Cast the column before the merge")
    };
    let out = cast_with_options(column, wanted, &STRICT).map_err(|e| differs().caused_by(e))?;
    // What comes back as it was has lost nothing.
    let back = cast_with_options(&out, column.data_type(), &STRICT);
    if back.is_ok_and(|back| back.to_data() == column.to_data()) {
        return Ok(out);
    }
    // A double may be a float by its digits.
    match (column.data_type(), wanted) {
        (DataType::Float64, DataType::Float32) => match cast_column(column, field)? {
            Cast::Lossless(column) => Ok(column),
            Cast::Lossy(_) => Err(differs()),
        },
        _ => Err(differs()),
    }
}
