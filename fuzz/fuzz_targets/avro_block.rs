//! The content of an Avro data block.
#![no_main]

use hoodoo_fuzz::{avro, with_schema};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((schema, content)) = with_schema(data) else { return };
    avro(content, schema);
});
