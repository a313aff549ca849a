//! The content of a Parquet data block.
#![no_main]

use bytes::Bytes;
use hoodoo_fuzz::{SCHEMAS, parquet};
use libfuzzer_sys::fuzz_target;

fuzz_target!(init: hoodoo_fuzz::panics_are_errors(), |data: &[u8]| {
    let content = Bytes::copy_from_slice(data);
    parquet(content.clone(), None);
    parquet(content, SCHEMAS.last().copied());
});
