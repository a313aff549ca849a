//! The object store of all actors, as one of them reaches it.

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

use super::scenario::FaultKind;
use super::world::{World, gone};
use crate::hooked_store::{Request, overloaded};

/// The store as an actor sees it; without an actor, as one who looks on.
#[derive(Clone)]
pub struct ActorStore {
    world: Arc<World>,
    objects: Arc<InMemory>,
    actor: Option<usize>,
}

impl ActorStore {
    pub fn new(world: &Arc<World>, objects: &Arc<InMemory>, actor: Option<usize>) -> Arc<Self> {
        Arc::new(Self { world: world.clone(), objects: objects.clone(), actor })
    }

    /// One request: waits for its turn, is carried out or not, and is answered or not.
    async fn request<T>(&self, request: Request, path: &str, work: impl Future<Output = Result<T>>) -> Result<T> {
        let Some(actor) = self.actor else {
            return work.await;
        };
        let fault = self.world.request(actor, request, path)?;
        if fault == Some(FaultKind::Error) {
            self.world.state().note(actor, request, path, "fails".to_owned());
            return Err(overloaded());
        }
        let done = work.await;
        let mut state = self.world.state();
        let outcome = match &done {
            Ok(_) => "ok".to_owned(),
            Err(object_store::Error::NotFound { .. }) => "not there".to_owned(),
            Err(object_store::Error::AlreadyExists { .. }) => "is there already".to_owned(),
            Err(object_store::Error::Precondition { .. }) => "was changed".to_owned(),
            Err(e) => e.to_string(),
        };
        match fault {
            Some(FaultKind::LostAnswer) => {
                state.note(actor, request, path, format!("{outcome}, the answer is lost"));
                Err(overloaded())
            }
            Some(FaultKind::DeathAfter | FaultKind::LateThenDeath(_)) => {
                state.note(actor, request, path, format!("{outcome}, the process has ended"));
                self.world.die(state, actor);
                Err(gone())
            }
            _ => {
                state.note(actor, request, path, outcome);
                done
            }
        }
    }

    fn timed(&self, mut meta: ObjectMeta) -> ObjectMeta {
        if let Some(ms) = self.world.state().modified.get(meta.location.as_ref()) {
            meta.last_modified = chrono::DateTime::from_timestamp_millis(*ms).unwrap();
        }
        meta
    }

    async fn put(&self, path: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        let done = self.objects.put_opts(path, payload.clone(), opts.clone()).await?;
        let again = {
            let mut state = self.world.state();
            let now = state.now;
            state.modified.insert(path.to_string(), now);
            let Some(actor) = self.actor else { return Ok(done) };
            state.written(actor, path.as_ref(), &bytes::Bytes::from(payload.clone()));
            std::mem::take(&mut state.actors[actor].sends_twice)
        };
        // The first answer was lost on the way to the client of the store.
        if again { self.objects.put_opts(path, payload, opts).await } else { Ok(done) }
    }
}

impl std::fmt::Debug for ActorStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ActorStore")
    }
}

impl std::fmt::Display for ActorStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ActorStore")
    }
}

#[async_trait]
impl ObjectStore for ActorStore {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        self.request(Request::Put, location.as_ref(), self.put(location, payload, opts)).await
    }

    async fn put_multipart_opts(&self, _: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        panic!("files of a few rows need no upload of several parts")
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let found = self.request(Request::Get, location.as_ref(), self.objects.get_opts(location, options)).await?;
        Ok(GetResult { meta: self.timed(found.meta.clone()), ..found })
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let store = self.clone();
        let delete = move |path: Result<Path>| {
            let store = store.clone();
            async move {
                let path = path?;
                let delete = async {
                    store.objects.delete(&path).await?;
                    store.world.state().deleted(path.as_ref());
                    Ok(())
                };
                store.request(Request::Delete, path.as_ref(), delete).await.map(|()| path)
            }
        };
        locations.then(delete).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let (store, prefix) = (self.clone(), prefix.cloned());
        let found = async move {
            let path = prefix.as_ref().map_or("", Path::as_ref).to_owned();
            let all = async { Ok(store.objects.list(prefix.as_ref()).collect::<Vec<_>>().await) };
            let found = store.request(Request::List, &path, all).await;
            let found = found.unwrap_or_else(|e| vec![Err(e)]);
            let found = found.into_iter().map(move |meta| meta.map(|meta| store.timed(meta)));
            futures::stream::iter(found.collect::<Vec<_>>())
        };
        futures::stream::once(found).flatten().boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let path = prefix.map_or("", Path::as_ref);
        let found = self.request(Request::List, path, self.objects.list_with_delimiter(prefix)).await?;
        let objects = found.objects.into_iter().map(|meta| self.timed(meta)).collect();
        Ok(ListResult { objects, ..found })
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        panic!("nothing is copied")
    }
}
