//! The content of an HFile data block.
#![no_main]

use bytes::Bytes;
use hoodoo_fuzz::{hfile, with_schema};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((schema, content)) = with_schema(data) else { return };
    hfile(Bytes::copy_from_slice(content), schema);
});
