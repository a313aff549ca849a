//! A store that is reached over connections: a forked child opens its own. Those of its parent have their requests
//! answered by threads that the child does not have.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions,
    PutOptions, PutPayload, PutResult, Result,
};

use hoodoo_runtime::process::Process;

/// Opens the store once more.
pub(super) type Open = Box<dyn Fn() -> Result<Arc<dyn ObjectStore>> + Send + Sync>;

/// A store with the process that opened it.
pub(super) struct RemoteStore {
    process: Process,
    store: Arc<dyn ObjectStore>,
    open: Open,
    /// That of a child; locked in children only, so that no thread holds it when the first process forks.
    of_child: Mutex<Option<(Process, Arc<dyn ObjectStore>)>>,
}

impl RemoteStore {
    pub(super) fn new(store: Arc<dyn ObjectStore>, open: Open) -> Self {
        Self { process: Process::this(), store, open, of_child: Mutex::new(None) }
    }

    fn store(&self) -> Result<Arc<dyn ObjectStore>> {
        let this = Process::this();
        if this == self.process {
            return Ok(self.store.clone());
        }
        let mut of_child = self.of_child.lock().unwrap_or_else(PoisonError::into_inner);
        match &*of_child {
            Some((process, store)) if *process == this => Ok(store.clone()),
            _ => {
                let store = (self.open)()?;
                if let Some(inherited) = of_child.replace((this, store.clone())) {
                    std::mem::forget(inherited);
                }
                Ok(store)
            }
        }
    }
}

impl Drop for RemoteStore {
    fn drop(&mut self) {
        if !self.process.is_this() {
            // Its connections belong to the parent.
            std::mem::forget(self.store.clone());
        }
    }
}

impl fmt::Debug for RemoteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.store, f)
    }
}

impl fmt::Display for RemoteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.store, f)
    }
}

fn failed<T: Send + 'static>(e: object_store::Error) -> BoxStream<'static, Result<T>> {
    futures::stream::iter([Err(e)]).boxed()
}

#[async_trait]
impl ObjectStore for RemoteStore {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.store()?.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.store()?.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.store()?.get_opts(location, options).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.store()?.get_ranges(location, ranges).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.store().map_or_else(failed, |store| store.delete_stream(locations))
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.store().map_or_else(failed, |store| store.list(prefix))
    }

    fn list_with_offset(&self, prefix: Option<&Path>, offset: &Path) -> BoxStream<'static, Result<ObjectMeta>> {
        self.store().map_or_else(failed, |store| store.list_with_offset(prefix, offset))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.store()?.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.store()?.copy_opts(from, to, options).await
    }
}
