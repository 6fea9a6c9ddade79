//! What takes the place of object stores in a build without them: types of which there are no values.

use std::convert::Infallible;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use datafusion::common::DataFusionError;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::object_store::{ObjectMeta, ObjectStore};

use super::address::{AddressError, StoreAddress};
use super::{InputError, OutputError, Source};

/// No stores.
#[derive(Default)]
pub(super) struct Stores;

impl Stores {
    /// There are none.
    pub(super) async fn sources(
        &mut self,
        address: &StoreAddress,
    ) -> Result<Vec<Source>, InputError> {
        Err(InputError::Address {
            path: address.name(),
            reason: AddressError::NoStores,
        })
    }
}

/// An object; there are none.
#[derive(Debug, Clone)]
pub(super) struct StoredObject(Infallible);

impl StoredObject {
    pub(super) fn read(&self) -> Result<Box<dyn Read + Send>, InputError> {
        match self.0 {}
    }

    pub(super) async fn about(&self, _: &Path) -> Result<ObjectMeta, InputError> {
        match self.0 {}
    }

    pub(super) fn store(&self) -> (&ObjectStoreUrl, Arc<dyn ObjectStore>) {
        match self.0 {}
    }

    pub(super) fn failure(&self, _: &DataFusionError) -> Option<io::Error> {
        match self.0 {}
    }
}

/// An upload; there are none.
#[derive(Debug)]
pub(crate) struct Upload(Infallible);

impl Upload {
    pub(super) async fn begin(address: &StoreAddress, _: &Uploads) -> Result<Self, OutputError> {
        Err(OutputError::Address {
            path: address.name(),
            reason: AddressError::NoStores,
        })
    }

    pub(super) fn name(&self) -> &Path {
        match self.0 {}
    }

    pub(super) fn writer(&self) -> UploadWriter {
        match self.0 {}
    }

    pub(super) async fn complete(self) -> Result<u64, OutputError> {
        match self.0 {}
    }
}

/// Writes into an upload; there are none.
#[derive(Debug, Clone)]
pub(super) struct UploadWriter(Infallible);

impl Write for UploadWriter {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        match self.0 {}
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.0 {}
    }
}

/// The uploads of a run; there are none.
#[derive(Debug, Clone, Default)]
pub(crate) struct Uploads;

impl Uploads {
    /// Nothing is waited for.
    pub(crate) async fn settle(&self, _: Duration) {}
}
