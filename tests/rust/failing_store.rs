//! A store in memory whose n-th call fails, or after whose n-th call nothing works any more.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, UploadPart,
};

/// What happens at the chosen call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// It fails; later calls work.
    Error,
    /// It does its work, but an error comes back: the answer was lost.
    LostAnswer,
    /// It fails, and so does every later call: the process died before it.
    Death,
    /// It does its work, and no later call works: the process died after it.
    DeathAfter,
}

impl Failure {
    /// The calls to try it at. Each call meets one of the four kinds in turn, and all four in `make test-all`.
    pub fn at(self, calls: std::ops::Range<usize>) -> impl Iterator<Item = usize> {
        let everywhere = std::env::var_os("HOODOO_TEST_ALL").is_some();
        calls.filter(move |call| everywhere || (call + self as usize).is_multiple_of(4))
    }
}

pub const FAILURES: [Failure; 4] = [Failure::Error, Failure::LostAnswer, Failure::Death, Failure::DeathAfter];

#[derive(Debug)]
struct Shared {
    inner: Arc<InMemory>,
    calls: AtomicUsize,
    fail_at: usize,
    failure: Failure,
}

/// The store.
#[derive(Debug, Clone)]
pub struct FailingStore(Arc<Shared>);

impl FailingStore {
    pub fn new(inner: Arc<InMemory>, fail_at: usize, failure: Failure) -> Self {
        Self(Arc::new(Shared { inner, calls: AtomicUsize::new(0), fail_at, failure }))
    }

    /// Calls so far.
    pub fn calls(&self) -> usize {
        self.0.calls.load(Ordering::SeqCst)
    }
}

impl Shared {
    async fn run<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let number = self.calls.fetch_add(1, Ordering::SeqCst);
        let failed = || object_store::Error::Generic { store: "failing", source: format!("call {number}").into() };
        match (number.cmp(&self.fail_at), self.failure) {
            (std::cmp::Ordering::Less, _) => work.await,
            (std::cmp::Ordering::Equal, Failure::LostAnswer | Failure::DeathAfter) => {
                let _ = work.await;
                Err(failed())
            }
            (std::cmp::Ordering::Equal, _) => Err(failed()),
            (_, Failure::Death | Failure::DeathAfter) => Err(failed()),
            (_, _) => work.await,
        }
    }
}

impl std::fmt::Display for FailingStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FailingStore")
    }
}

#[async_trait]
impl ObjectStore for FailingStore {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        self.0.run(self.0.inner.put_opts(location, payload, opts)).await
    }

    async fn put_multipart_opts(&self, location: &Path, opts: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        let upload = self.0.run(self.0.inner.put_multipart_opts(location, opts)).await?;
        Ok(Box::new(FailingUpload { shared: self.0.clone(), upload }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.0.run(self.0.inner.get_opts(location, options)).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let shared = self.0.clone();
        locations
            .then(move |path| {
                let shared = shared.clone();
                async move {
                    let path = path?;
                    shared.run(shared.inner.delete(&path)).await.map(|()| path)
                }
            })
            .boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let shared = self.0.clone();
        let all = self.0.inner.list(prefix);
        async move { shared.run(async { Ok(all) }).await }
            .map(|found| match found {
                Ok(all) => all,
                Err(e) => futures::stream::iter([Err(e)]).boxed(),
            })
            .flatten_stream()
            .boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.0.run(self.0.inner.list_with_delimiter(prefix)).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.0.run(self.0.inner.copy_opts(from, to, options)).await
    }
}

#[derive(Debug)]
struct FailingUpload {
    shared: Arc<Shared>,
    upload: Box<dyn MultipartUpload>,
}

#[async_trait]
impl MultipartUpload for FailingUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let shared = self.shared.clone();
        let part = self.upload.put_part(data);
        async move { shared.run(part).await }.boxed()
    }

    async fn complete(&mut self) -> Result<PutResult> {
        self.shared.clone().run(self.upload.complete()).await
    }

    async fn abort(&mut self) -> Result<()> {
        self.shared.clone().run(self.upload.abort()).await
    }
}
