//! The content of a delete block, of all versions; what is read can be written, and that is the same each time.
#![no_main]

use hoodoo::Result;
use hoodoo::format::log::Deletes;
use hoodoo_fuzz::refused;
use libfuzzer_sys::fuzz_target;

fn written(deletes: &Deletes) -> Result<Vec<u8>> {
    let rows = deletes.keys.iter().zip(&deletes.ordering);
    let rows: Vec<(&str, &str, _)> = rows.map(|(key, value)| (key.unwrap_or_default(), "", value.clone())).collect();
    Deletes::write(rows.into_iter())
}

fuzz_target!(|data: &[u8]| {
    let deletes = match Deletes::read(data) {
        Ok(deletes) => deletes,
        Err(e) => return refused(&e),
    };
    assert_eq!(deletes.keys.iter().count(), deletes.ordering.len());
    // What is read may have null for a key; what is written has keys.
    if deletes.keys.iter().any(|key| key.is_none()) {
        return;
    }
    if let Ok(content) = written(&deletes) {
        let again = Deletes::read(&content).expect("what was written can be read");
        assert_eq!(again.keys, deletes.keys);
        assert_eq!(written(&again).expect("it was written before"), content);
    }
});
