//! Filters that are made once the columns of a scan are known, from the look at the table that the scan takes itself.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::Schema;

use crate::error::Result;
use crate::file_group::base::Predicate;

/// A filter whose values get the types of their columns when the scan knows these.
#[derive(Clone)]
pub struct LateFilter(Arc<Convert>);

type Convert = dyn Fn(&Schema) -> Result<Predicate> + Send + Sync;

impl LateFilter {
    /// A filter that `convert` makes from the columns of the scan. A scan that begins anew calls it again.
    pub fn new(convert: impl Fn(&Schema) -> Result<Predicate> + Send + Sync + 'static) -> Self {
        Self(Arc::new(convert))
    }

    /// The filter for a scan of these columns.
    ///
    /// # Errors
    /// Those of the conversion: `Schema` for a column that is not there, or a value that does not fit its column's type.
    pub(super) fn for_columns(&self, columns: &Schema) -> Result<Predicate> {
        (self.0)(columns)
    }
}

/// A filter that is known already.
impl From<Predicate> for LateFilter {
    fn from(known: Predicate) -> Self {
        Self::new(move |_| Ok(known.clone()))
    }
}

impl fmt::Debug for LateFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LateFilter")
    }
}
