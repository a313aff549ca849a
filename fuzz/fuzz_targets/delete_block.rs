//! The content of a delete block, of all versions; what is read can be written and is the same again.
#![no_main]

use hoodoo::format::log::Deletes;
use hoodoo_fuzz::refused;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let deletes = match Deletes::read(data) {
        Ok(deletes) => deletes,
        Err(e) => return refused(&e),
    };
    // What is read may have null for a key; what is written has keys.
    if deletes.keys.iter().any(|key| key.is_none()) {
        return;
    }
    let rows = deletes.keys.iter().zip(&deletes.ordering);
    let rows: Vec<(&str, &str, _)> = rows.map(|(key, value)| (key.unwrap_or_default(), "", value.clone())).collect();
    assert_eq!(rows.len(), deletes.ordering.len());
    if let Ok(content) = Deletes::write(rows.into_iter()) {
        let again = Deletes::read(&content).expect("what was written can be read");
        assert_eq!(again.keys, deletes.keys);
        assert_eq!(format!("{:?}", again.ordering), format!("{:?}", deletes.ordering));
    }
});
