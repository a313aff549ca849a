//! Expression indexes: min and max of what a function says of the values of a column, in each file and in each partition.
//!
//! Functions and their options are those of Hudi, which has Spark compute them. Hudi's readers pass over a file, or over a
//! partition, whose range does not have the value that a filter asks for. So a range holds whatever Spark may compute:
//!
//! | functions | range |
//! |---|---|
//! | of strings (`strings.rs`) | of the values of each row; of all values where a letter may be mapped in several ways |
//! | of dates (`times.rs`) | by min and max of the column |
//! | of timestamps (`times.rs`) | the same, in any time zone: the index does not say which one the session has |
//!
//! Other functions, and indexes of bloom filters, are not kept.

mod definition;
mod options;
mod pattern;
mod strings;
mod times;

pub(crate) use definition::{COLUMN_STATS_KIND, EXPRESSION_INDEX, ExpressionIndex, is_expression_index};
pub(crate) use options::EXPRESSION_OPTION;
pub(crate) use strings::StringRange;
