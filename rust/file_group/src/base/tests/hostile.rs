use proptest::prelude::*;

use super::*;
use hoodoo_runtime::ErrorKind;

#[test]
fn what_is_not_parquet_is_corrupt() {
    let (file, _) = write(&[all_types(20)], BaseFileOptions::default());
    let inputs = [Bytes::new(), Bytes::from_static(b"PAR1"), Bytes::from_static(b"not a parquet file")];
    for input in inputs.into_iter().chain([1, 8, 100, file.len() - 1].map(|n| file.slice(..n))) {
        assert_eq!(BaseFileReader::open(input).err().unwrap().kind(), ErrorKind::Corrupt);
    }
}

/// Reads all there is to read; every failure must be a typed error.
fn read_everything(file: Bytes) -> Option<ErrorKind> {
    let run = || -> hoodoo_runtime::Result<()> {
        let reader = BaseFileReader::open(file)?;
        reader.bloom_filter()?;
        reader.key_range();
        let predicate = Predicate::Gt("long".into(), Arc::new(Int64Array::from(vec![5])));
        for batch in reader.scan(&ScanOptions::new(reader.schema().clone()))? {
            batch?;
        }
        for batch in reader.scan(&ScanOptions::new(reader.schema().clone()).with_predicate(Some(predicate)))? {
            batch?;
        }
        for keys in reader.key_column()? {
            keys?;
        }
        Ok(())
    };
    run().err().map(|e| e.kind())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..Default::default() })]

    #[test]
    fn damaged_files_give_typed_errors(
        hits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        footer in any::<bool>(),
        cut in prop::option::weighted(0.2, any::<prop::sample::Index>()),
    ) {
        thread_local! {
            static FILE: Bytes = write(&[all_types(60)], BaseFileOptions { row_group_rows: 25, ..Default::default() }).0;
        }
        let mut bytes = FILE.with(|f| f.to_vec());
        let footer_start = {
            let tail: [u8; 4] = bytes[bytes.len() - 8..bytes.len() - 4].try_into().unwrap();
            bytes.len() - 8 - u32::from_le_bytes(tail) as usize
        };
        for (at, value) in hits {
            let at = if footer { footer_start + at.index(bytes.len() - footer_start) } else { at.index(bytes.len()) };
            bytes[at] = value;
        }
        if let Some(cut) = cut {
            bytes.drain(cut.index(bytes.len())..);
        }
        if let Some(kind) = read_everything(bytes.into()) {
            prop_assert!(matches!(kind, ErrorKind::Corrupt | ErrorKind::Schema), "{:?}", kind);
        }
    }
}

/// Fails as a store does when the network goes away.
struct Gone(Bytes, std::sync::atomic::AtomicUsize);

impl parquet::file::reader::Length for Gone {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }
}

impl parquet::file::reader::ChunkReader for Gone {
    type T = bytes::buf::Reader<Bytes>;

    fn get_read(&self, start: u64) -> parquet::errors::Result<Self::T> {
        self.0.get_read(start)
    }

    fn get_bytes(&self, start: u64, length: usize) -> parquet::errors::Result<Bytes> {
        if self.1.fetch_sub(1, std::sync::atomic::Ordering::Relaxed) == 0 {
            let own = hoodoo_runtime::Error::storage("the network is gone").with("file", "x.parquet");
            return Err(parquet::errors::ParquetError::External(Box::new(own)));
        }
        self.0.get_bytes(start, length)
    }
}

#[test]
fn errors_of_the_storage_stay_what_they_are() {
    let (file, _) = write(&[all_types(60)], BaseFileOptions { row_group_rows: 25, ..Default::default() });
    for calls in 0..12 {
        let run = || -> hoodoo_runtime::Result<()> {
            let reader = BaseFileReader::open(Gone(file.clone(), calls.into()))?;
            for batch in reader.scan(&ScanOptions::new(reader.schema().clone()))? {
                batch?;
            }
            Ok(())
        };
        let error = run().unwrap_err();
        assert!(error.kind() == ErrorKind::Storage && error.to_string().contains("x.parquet"), "{calls}: {error}");
    }
}
