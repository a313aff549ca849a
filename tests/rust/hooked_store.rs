//! A store in memory in which a test does something at chosen requests.

use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

/// What a request is about to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    Put,
    Get,
    List,
    Delete,
}

/// Called before a request with its kind and its path; an error is the answer to the request.
pub type Hook = Box<dyn Fn(Request, &str) -> Result<()> + Send + Sync>;

/// What is answered by a server that has too much to do.
pub fn overloaded() -> object_store::Error {
    let source = "Server returned non-2xx status code: 503 Service Unavailable: ".into();
    object_store::Error::Generic { store: "hooked", source }
}

pub struct HookedStore {
    inner: Arc<InMemory>,
    before: Arc<Hook>,
    /// Every request to write is sent once more when it was answered, as if the answer had been lost.
    repeat: bool,
}

impl HookedStore {
    pub fn new(inner: Arc<InMemory>, before: Hook) -> Self {
        Self { inner, before: Arc::new(before), repeat: false }
    }

    pub fn repeating(inner: Arc<InMemory>) -> Self {
        Self { inner, before: Arc::new(Box::new(|_, _| Ok(()))), repeat: true }
    }
}

impl std::fmt::Debug for HookedStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HookedStore")
    }
}

impl std::fmt::Display for HookedStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HookedStore")
    }
}

#[async_trait]
impl ObjectStore for HookedStore {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        (self.before)(Request::Put, location.as_ref())?;
        if self.repeat {
            self.inner.put_opts(location, payload.clone(), opts.clone()).await?;
        }
        self.inner.put_opts(location, payload, opts).await
    }

    async fn put_multipart_opts(&self, location: &Path, opts: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, opts).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        (self.before)(Request::Get, location.as_ref())?;
        self.inner.get_opts(location, options).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let (inner, before) = (self.inner.clone(), self.before.clone());
        let delete = move |path: Result<Path>| {
            let (inner, before) = (inner.clone(), before.clone());
            async move {
                let path = path?;
                before(Request::Delete, path.as_ref())?;
                inner.delete(&path).await.map(|()| path)
            }
        };
        locations.then(delete).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        match (self.before)(Request::List, prefix.map_or("", Path::as_ref)) {
            Ok(()) => self.inner.list(prefix),
            Err(e) => futures::stream::iter([Err(e)]).boxed(),
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        (self.before)(Request::List, prefix.map_or("", Path::as_ref))?;
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}
