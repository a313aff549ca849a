//! Encoders of column chunks: Arrow values become the pages of a Parquet column chunk, with dictionary or without.
//!
//! | file | encodes |
//! |---|---|
//! | `dictionary_column` | strings, with a dictionary in the order of first use |
//! | `ordered_dictionary_column` | dictionary arrays whose values are sorted |
//! | `number_column` | numbers, with a dictionary or plain |
//! | `string_column` | strings without a dictionary |
//! | `constant_column` | columns with one value |
//!
//! `chunk_pages` puts pages together, `page_codec` compresses them, and `encoded_chunk` is what comes out. Other types are
//! encoded by the Parquet library.

pub(super) mod chunk_pages;
pub(super) mod constant_column;
pub(super) mod dictionary_column;
pub(super) mod encoded_chunk;
pub(super) mod number_column;
pub(super) mod ordered_dictionary_column;
pub(super) mod page_codec;
pub(super) mod string_column;
