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
//! `chunk_pages` puts pages together, `dictionary_page` encodes dictionary pages, `page_codec` compresses them, and `encoded_chunk` is what comes out. Other types are
//! encoded by the Parquet library.

pub mod chunk_pages;
pub mod constant_column;
pub mod dictionary_column;
mod dictionary_page;
pub mod encoded_chunk;
pub mod number_column;
pub mod ordered_dictionary_column;
pub mod page_codec;
mod rle_run;
pub mod string_column;
