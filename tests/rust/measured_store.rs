//! A store in memory that answers as slowly as one that is far away, and keeps what it was asked.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

/// A request that was answered.
#[derive(Debug, Clone)]
pub struct Request {
    pub kind: &'static str,
    pub path: String,
    pub begun: Instant,
    pub ended: Instant,
}

pub struct MeasuredStore {
    inner: Arc<InMemory>,
    latency: Duration,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl MeasuredStore {
    /// A store that takes `latency` for each request.
    pub fn new(latency: Duration) -> Self {
        Self { inner: Arc::new(InMemory::new()), latency, requests: Arc::default() }
    }

    /// The requests so far, and those to come.
    pub fn requests(&self) -> Arc<Mutex<Vec<Request>>> {
        self.requests.clone()
    }
}

async fn measured<T>(
    requests: &Mutex<Vec<Request>>,
    latency: Duration,
    kind: &'static str,
    path: String,
    answer: impl Future<Output = T>,
) -> T {
    let begun = Instant::now();
    tokio::time::sleep(latency).await;
    let answer = answer.await;
    requests.lock().unwrap().push(Request { kind, path, begun, ended: Instant::now() });
    answer
}

impl std::fmt::Debug for MeasuredStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MeasuredStore")
    }
}

impl std::fmt::Display for MeasuredStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MeasuredStore")
    }
}

#[async_trait]
impl ObjectStore for MeasuredStore {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        let answer = self.inner.put_opts(location, payload, opts);
        measured(&self.requests, self.latency, "PUT", location.to_string(), answer).await
    }

    async fn put_multipart_opts(&self, location: &Path, opts: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        let answer = self.inner.put_multipart_opts(location, opts);
        measured(&self.requests, self.latency, "PUT", location.to_string(), answer).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let kind = if options.head { "HEAD" } else { "GET" };
        let answer = self.inner.get_opts(location, options);
        measured(&self.requests, self.latency, kind, location.to_string(), answer).await
    }

    /// A thousand at a time, as S3 does.
    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let (inner, requests, latency) = (self.inner.clone(), self.requests.clone(), self.latency);
        let delete = move |paths: Vec<Result<Path>>| {
            let (inner, requests) = (inner.clone(), requests.clone());
            async move {
                let first = paths.iter().flatten().next().map(Path::to_string).unwrap_or_default();
                let delete = async {
                    let mut done = Vec::new();
                    for path in paths {
                        done.push(match path {
                            Ok(path) => inner.delete(&path).await.map(|()| path),
                            Err(e) => Err(e),
                        });
                    }
                    done
                };
                futures::stream::iter(measured(&requests, latency, "DELETE", first, delete).await)
            }
        };
        locations.chunks(1000).then(delete).flatten().boxed()
    }

    /// A thousand at a time, as S3 does.
    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let path = prefix.map(Path::to_string).unwrap_or_default();
        let (requests, latency) = (self.requests.clone(), self.latency);
        let found = self.inner.list(prefix);
        let pages = async move {
            let found: Vec<_> = found.collect().await;
            for _ in 0..found.len().div_ceil(1000).max(1) {
                measured(&requests, latency, "LIST", path.clone(), async {}).await;
            }
            futures::stream::iter(found)
        };
        futures::stream::once(pages).flatten().boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let path = prefix.map(Path::to_string).unwrap_or_default();
        measured(&self.requests, self.latency, "LIST", path, self.inner.list_with_delimiter(prefix)).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        measured(&self.requests, self.latency, "COPY", from.to_string(), self.inner.copy_opts(from, to, options)).await
    }
}
