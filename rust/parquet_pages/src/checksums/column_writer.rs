//! Column writers of the Parquet library whose pages get checksums.
//!
//! The library hands the pages of a column chunk to a store, the header and the body of each one after the other. The
//! store here puts the checksum into the header. As headers are longer then than the library knows, the chunk is put
//! together here too, with the sizes and offsets that it has.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use parquet::arrow::arrow_writer::{ArrowColumnWriter, ArrowLeafColumn, ArrowRowGroupWriterFactory};
use parquet::arrow::arrow_writer::{PageKey, PageStore, PageStoreArgs, PageStoreFactory};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::{ParquetError, Result};

use crate::page_header::{is_dictionary, with_checksum};

/// Makes the writers of the columns of a row group.
pub struct ColumnWriters {
    factory: ArrowRowGroupWriterFactory,
    stores: Arc<Stores>,
}

impl ColumnWriters {
    /// Writers as `factory` makes them, whose pages have checksums or not.
    pub fn new(factory: ArrowRowGroupWriterFactory, checksums: bool) -> Self {
        let stores = Arc::new(Stores { checksums, made: Mutex::default() });
        Self { factory: factory.with_page_store_factory(stores.clone()), stores }
    }

    /// A writer for each leaf, in the order of the file.
    ///
    /// # Errors
    /// Those of the Parquet library.
    pub fn create(&self, row_group: usize) -> Result<Vec<ColumnWriter>> {
        let mut made = lock(&self.stores.made);
        made.clear();
        drop(made);
        let writers = self.factory.create_column_writers(row_group)?;
        let pages = std::mem::take(&mut *lock(&self.stores.made));
        if pages.len() != writers.len() {
            return Err(ParquetError::General("columns do not have a store of pages each".to_owned()));
        }
        Ok(writers.into_iter().zip(pages).map(|(inner, pages)| ColumnWriter { inner, pages }).collect())
    }
}

/// Encodes one leaf of a row group.
pub struct ColumnWriter {
    inner: ArrowColumnWriter,
    pages: Arc<Mutex<Pages>>,
}

impl ColumnWriter {
    /// Adds values.
    ///
    /// # Errors
    /// Those of the Parquet library.
    pub fn write(&mut self, values: &ArrowLeafColumn) -> Result<()> {
        self.inner.write(values)
    }

    /// Bytes that the values so far will take, nearly.
    pub fn estimated_bytes(&self) -> usize {
        self.inner.get_estimated_total_bytes()
    }

    /// Ends the chunk: its bytes, and what the footer is to say of it.
    ///
    /// # Errors
    /// Those of the Parquet library.
    pub fn close(self) -> Result<(Bytes, ColumnCloseResult)> {
        let close = self.inner.close()?.close().clone();
        let pages = std::mem::take(&mut *lock(&self.pages));
        pages.chunk(close)
    }
}

/// The pages of a chunk.
#[derive(Debug, Default)]
struct Pages {
    checksums: bool,
    /// A header whose body is still to come.
    header: Option<Bytes>,
    dictionary: Option<[Bytes; 2]>,
    data: Vec<[Bytes; 2]>,
    /// Bytes of all.
    bytes: usize,
    /// Bytes of all checksums.
    longer: usize,
}

impl Pages {
    fn add(&mut self, value: Bytes) -> Result<()> {
        self.bytes += value.len();
        let Some(mut header) = self.header.take() else {
            self.header = Some(value);
            return Ok(());
        };
        let dictionary = is_dictionary(&header);
        if self.checksums {
            let no_header = || ParquetError::General("the header of a page is not where it was expected".to_owned());
            let longer = with_checksum(&header, &value).ok_or_else(no_header)?;
            self.longer += longer.len() - header.len();
            header = longer.into();
        }
        match dictionary {
            true => self.dictionary = Some([header, value]),
            false => self.data.push([header, value]),
        }
        Ok(())
    }

    /// The chunk of these pages, the dictionary first.
    fn chunk(self, mut close: ColumnCloseResult) -> Result<(Bytes, ColumnCloseResult)> {
        let mut bytes = Vec::with_capacity(self.bytes + self.longer);
        let size = |n: usize| i64::try_from(n).map_err(|_| ParquetError::General("a chunk is too large".to_owned()));
        self.dictionary.iter().flatten().for_each(|blob| bytes.extend_from_slice(blob));
        let data_at = size(bytes.len())?;
        let locations = close.offset_index.iter_mut().flat_map(|index| &mut index.page_locations);
        let mut locations = locations.map(Some).chain(std::iter::repeat_with(|| None));
        for page in self.data {
            let start = bytes.len();
            page.iter().for_each(|blob| bytes.extend_from_slice(blob));
            if let Some(Some(location)) = locations.next() {
                location.offset = size(start)?;
                location.compressed_page_size = i32::try_from(bytes.len() - start)?;
            }
        }
        drop(locations);
        let longer = size(self.longer)?;
        let uncompressed = close.metadata.uncompressed_size() + longer;
        let mut metadata = close.metadata.into_builder();
        if self.dictionary.is_some() {
            metadata = metadata.set_dictionary_page_offset(Some(0));
        }
        close.metadata = metadata
            .set_data_page_offset(data_at)
            .set_total_compressed_size(size(bytes.len())?)
            .set_total_uncompressed_size(uncompressed)
            .build()?;
        close.bytes_written = bytes.len() as u64;
        Ok((bytes.into(), close))
    }
}

/// Makes a store for each column, and keeps the other end of each.
#[derive(Debug)]
struct Stores {
    checksums: bool,
    made: Mutex<Vec<Arc<Mutex<Pages>>>>,
}

impl PageStoreFactory for Stores {
    fn create(&self, _: &PageStoreArgs<'_>) -> Result<Box<dyn PageStore>> {
        let pages = Arc::new(Mutex::new(Pages { checksums: self.checksums, ..Pages::default() }));
        lock(&self.made).push(pages.clone());
        Ok(Box::new(Store(pages)))
    }
}

struct Store(Arc<Mutex<Pages>>);

impl PageStore for Store {
    fn put(&mut self, value: Bytes) -> Result<PageKey> {
        lock(&self.0).add(value).map(|()| PageKey::new(0))
    }

    fn take(&mut self, _: PageKey) -> Result<Bytes> {
        Err(ParquetError::General("pages are taken all at once".to_owned()))
    }

    fn memory_size(&self) -> usize {
        lock(&self.0).bytes
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
