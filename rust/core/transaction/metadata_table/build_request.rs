//! What is to be built in the metadata table.

use super::build_expression_index::Expression;

/// What is to be built.
#[derive(Debug, Clone, Default)]
pub(crate) struct BuildRequest {
    /// Names of partitions, beside those that they need.
    pub(crate) partitions: Vec<String>,
    /// The columns that have statistics; `None`: those that the options say, or that have them already. Of a secondary index:
    /// its column; of an expression index too.
    pub(crate) columns: Option<Vec<String>>,
    /// The function of an expression index.
    pub(crate) expression: Option<Expression>,
    /// Whether the metadata table is made anew, with all partitions that it has.
    pub(crate) from_scratch: bool,
}

impl BuildRequest {
    /// The column and the function of an expression index.
    pub(super) fn expression(&self) -> (Option<&[String]>, Option<&Expression>) {
        (self.columns.as_deref(), self.expression.as_ref())
    }
}
