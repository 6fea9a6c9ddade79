//! Inputs and outputs in object stores, behind the feature `object-store`.
//!
//! The only place that knows the crate `object_store` beyond what DataFusion wants of it. Stores are
//! configured by the environment alone.

mod connect;
mod failure;
mod list;
mod read;
mod upload;

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use datafusion::common::DataFusionError;
use datafusion::execution::object_store::ObjectStoreUrl;
use object_store::path::Path as StorePath;
use object_store::{GetOptions, ObjectMeta, ObjectStore, ObjectStoreExt};

use super::address::{Service, StoreAddress};
use super::{InputError, Source};
use crate::plan::find_error;
use failure::StoreFailure;
pub(super) use upload::UploadWriter;
pub(crate) use upload::{Upload, Uploads};

/// Most time for a request whose answer is small, or a part of an object.
const REQUEST_TIME: Duration = Duration::from_secs(120);

/// A store that can be asked.
#[derive(Debug, Clone)]
struct Store {
    service: Service,
    /// For whatever is done soon.
    objects: Arc<dyn ObjectStore>,
    /// For objects that are read from front to back, which may take any time.
    streams: Arc<dyn ObjectStore>,
    /// Its name in plans, which says nothing about it.
    url: ObjectStoreUrl,
}

/// The stores of a run.
#[derive(Default)]
pub(super) struct Stores {
    /// By what comes before the key, and the query.
    known: HashMap<(String, Option<String>), Store>,
}

impl Stores {
    /// The objects that an address names: one, those of a prefix, or those of a pattern.
    pub(super) async fn sources(
        &mut self,
        address: &StoreAddress,
    ) -> Result<Vec<Source>, InputError> {
        let name = address.name();
        let store = self.store(address).map_err(|e| unreadable(&name, e))?;
        let found = match list::wanted(address)? {
            list::Wanted::One => {
                let location = location(address).map_err(|e| unreadable(&name, e))?;
                return Ok(vec![Source::stored(
                    name,
                    StoredObject {
                        store,
                        location,
                        about: None,
                    },
                )]);
            }
            list::Wanted::Prefix => list::of_prefix(&store, address).await?,
            list::Wanted::Pattern(pattern) => list::of_pattern(&store, address, &pattern).await?,
        };
        let sources = found.into_iter().map(|about| {
            let name = address.name_of(about.location.as_ref());
            let object = StoredObject {
                store: store.clone(),
                location: about.location.clone(),
                about: Some(about),
            };
            Source::stored(name, object)
        });
        Ok(sources.collect())
    }

    fn store(&mut self, address: &StoreAddress) -> Result<Store, StoreFailure> {
        let key = (address.root.clone(), address.query.clone());
        if let Some(store) = self.known.get(&key) {
            return Ok(store.clone());
        }
        let number = self.known.len();
        let failed = |e: object_store::Error| StoreFailure::of(address.service, &e);
        let url = ObjectStoreUrl::parse(format!("wasmill-store-{number}://inputs"))
            .map_err(|e| StoreFailure::Other(e.to_string()))?;
        let store = Store {
            service: address.service,
            objects: connect::objects(address).map_err(failed)?,
            streams: connect::streams(address).map_err(failed)?,
            url,
        };
        self.known.insert(key, store.clone());
        Ok(store)
    }
}

/// Where an object is in its store.
fn location(address: &StoreAddress) -> Result<StorePath, StoreFailure> {
    let parsed = match address.service {
        Service::Http => StorePath::from_url_path(&address.key),
        _ => StorePath::parse(&address.key),
    };
    match parsed {
        Ok(location) if location.is_root() => Err(StoreFailure::NoKey),
        Ok(location) => Ok(location),
        Err(e) => Err(StoreFailure::Key(e.to_string())),
    }
}

fn unreadable(name: &Path, failure: StoreFailure) -> InputError {
    InputError::read(name)(failure.into())
}

/// An object that is read.
#[derive(Debug, Clone)]
pub(super) struct StoredObject {
    store: Store,
    location: StorePath,
    /// What its store said about it when it was found.
    about: Option<ObjectMeta>,
}

impl StoredObject {
    /// Reads it from front to back. For threads that may block, of a Tokio runtime.
    pub(super) fn read(&self) -> Result<Box<dyn io::Read + Send>, InputError> {
        Ok(Box::new(read::ObjectReader::start(
            self.store.clone(),
            self.location.clone(),
        )))
    }

    /// What its store says about it; `name` is the name in messages.
    pub(super) async fn about(&self, name: &Path) -> Result<ObjectMeta, InputError> {
        if let Some(about) = &self.about {
            return Ok(about.clone());
        }
        let objects = &self.store.objects;
        let mut asked = objects.head(&self.location).await;
        if asked.is_err() && self.store.service == Service::Http {
            // Signed addresses are for one method, and some servers know no other than GET.
            let first = GetOptions::new().with_range(Some(0_u64..1));
            let got = objects.get_opts(&self.location, first).await;
            asked = got.map(|got| got.meta).or(asked);
        }
        asked.map_err(|e| unreadable(name, StoreFailure::of(self.store.service, &e)))
    }

    /// Its store, and the name that it has in plans.
    pub(super) fn store(&self) -> (&ObjectStoreUrl, Arc<dyn ObjectStore>) {
        (&self.store.url, Arc::clone(&self.store.objects))
    }

    /// What its store said, where an error of a plan comes from there.
    pub(super) fn failure(&self, error: &DataFusionError) -> Option<io::Error> {
        let error = find_error::<object_store::Error>(error)?;
        Some(StoreFailure::of(self.store.service, error).into())
    }
}
