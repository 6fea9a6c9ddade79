//! An output in a store: it appears whole when the run is done, or not at all.
//!
//! A task of its own sends the parts. It is told of the end, and when those who write go away without
//! telling it, whatever the reason, it takes back what it sent.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use object_store::path::Path as StorePath;
use object_store::{MultipartUpload, ObjectStore, ObjectStoreExt, PutPayload, PutPayloadMut};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinHandle, JoinSet};

use super::failure::StoreFailure;
use super::{connect, location};
use crate::cli::io::OutputError;
use crate::cli::io::address::{Service, StoreAddress};

/// Bytes of a part. S3 has 10,000 parts at most.
const PART: usize = 16 << 20;

/// Parts under way at once. With the one that is being filled they are what an upload holds in memory.
const PARALLEL: usize = 4;

/// Pieces that wait to be put into a part.
const WRITE_BEHIND: usize = 2;

/// Most bytes for a web server, which takes an object in one request.
const WHOLE: usize = 256 << 20;

/// What the task is told.
enum Step {
    Bytes(Bytes),
    Complete(oneshot::Sender<Result<u64, StoreFailure>>),
}

type Failed = Arc<Mutex<Option<StoreFailure>>>;

/// An object that is being written.
#[derive(Debug)]
pub(crate) struct Upload {
    name: PathBuf,
    steps: mpsc::Sender<Step>,
    failed: Failed,
}

impl Upload {
    /// Begins to write; shows at once whether the store lets us.
    pub(in crate::cli::io) async fn begin(
        address: &StoreAddress,
        uploads: &Uploads,
    ) -> Result<Self, OutputError> {
        let name = address.name();
        let sending = Sending::begin(address)
            .await
            .map_err(|e| OutputError::write(&name)(e.into()))?;
        let (steps, told) = mpsc::channel(WRITE_BEHIND);
        let failed = Failed::default();
        uploads.keep(tokio::spawn(send(sending, told, Arc::clone(&failed))));
        Ok(Upload {
            name,
            steps,
            failed,
        })
    }

    /// The name in messages.
    pub(in crate::cli::io) fn name(&self) -> &Path {
        &self.name
    }

    /// What the encoder writes to.
    pub(in crate::cli::io) fn writer(&self) -> UploadWriter {
        UploadWriter {
            steps: self.steps.clone(),
            failed: Arc::clone(&self.failed),
        }
    }

    /// Makes the object appear. Gives its size in bytes.
    pub(in crate::cli::io) async fn complete(self) -> Result<u64, OutputError> {
        let (answer, answered) = oneshot::channel();
        // Where the task is gone there is no answer.
        let _ = self.steps.send(Step::Complete(answer)).await;
        let completed = match answered.await {
            Ok(completed) => completed,
            Err(_) => Err(why(&self.failed)),
        };
        completed.map_err(|e| OutputError::write(&self.name)(e.into()))
    }
}

/// Writes into an upload, on threads that may block.
#[derive(Debug, Clone)]
pub(in crate::cli::io) struct UploadWriter {
    steps: mpsc::Sender<Step>,
    failed: Failed,
}

impl Write for UploadWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // No more than a part, whatever an encoder hands over at once.
        let piece = bytes.get(..PART).unwrap_or(bytes);
        let step = Step::Bytes(Bytes::copy_from_slice(piece));
        match self.steps.blocking_send(step) {
            Ok(()) => Ok(piece.len()),
            Err(_) => Err(why(&self.failed).into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Why the task has ended.
fn why(failed: &Failed) -> StoreFailure {
    let failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
    failed
        .clone()
        .unwrap_or_else(|| StoreFailure::Other("the upload was stopped".to_owned()))
}

/// The uploads of a run, which may have something to take back at its end.
#[derive(Debug, Clone, Default)]
pub(crate) struct Uploads(Arc<Mutex<Vec<JoinHandle<()>>>>);

impl Uploads {
    fn keep(&self, task: JoinHandle<()>) {
        let mut tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.push(task);
    }

    /// Waits until nothing is left of uploads that were not completed, no longer than `patience`.
    pub(crate) async fn settle(&self, patience: Duration) {
        let tasks = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let all = futures::future::join_all(tasks);
        // The store takes away what is left of an upload after a time; there is no more to do.
        let _ = tokio::time::timeout(patience, all).await;
    }
}

/// Carries out the steps. What is not completed is taken back.
async fn send(mut sending: Sending, mut steps: mpsc::Receiver<Step>, failed: Failed) {
    loop {
        match steps.recv().await {
            Some(Step::Bytes(bytes)) => {
                if let Err(failure) = sending.put(bytes).await {
                    // Said before the writer notices.
                    *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure);
                    steps.close();
                    break;
                }
            }
            Some(Step::Complete(answer)) => {
                let completed = sending.complete().await;
                let failed = completed.is_err();
                let _ = answer.send(completed);
                if !failed {
                    return;
                }
                break;
            }
            None => break,
        }
    }
    sending.abort().await;
}

/// An object on its way.
struct Sending {
    service: Service,
    size: u64,
    way: Way,
}

enum Way {
    Parts(Parts),
    Whole {
        store: Arc<dyn ObjectStore>,
        location: StorePath,
        bytes: PutPayloadMut,
    },
}

impl Sending {
    async fn begin(address: &StoreAddress) -> Result<Self, StoreFailure> {
        let service = address.service;
        let failed = |e: object_store::Error| StoreFailure::of(service, &e);
        if address.key.is_empty() || address.key.ends_with('/') {
            return Err(StoreFailure::NoKey);
        }
        let location = location(address)?;
        let store = connect::objects(address).map_err(failed)?;
        let way = match service {
            Service::Http => Way::Whole {
                store,
                location,
                bytes: PutPayloadMut::new(),
            },
            _ => Way::Parts(Parts {
                upload: store.put_multipart(&location).await.map_err(failed)?,
                filling: PutPayloadMut::new(),
                under_way: JoinSet::new(),
            }),
        };
        Ok(Sending {
            service,
            size: 0,
            way,
        })
    }

    async fn put(&mut self, piece: Bytes) -> Result<(), StoreFailure> {
        self.size = self.size.saturating_add(piece.len() as u64);
        let service = self.service;
        match &mut self.way {
            Way::Parts(parts) => parts
                .put(piece)
                .await
                .map_err(|e| StoreFailure::of(service, &e)),
            Way::Whole { bytes, .. } => {
                if self.size > WHOLE as u64 {
                    return Err(StoreFailure::TooLarge { most: WHOLE });
                }
                bytes.push(piece);
                Ok(())
            }
        }
    }

    async fn complete(&mut self) -> Result<u64, StoreFailure> {
        let service = self.service;
        let done = match &mut self.way {
            Way::Parts(parts) => parts.complete().await,
            Way::Whole {
                store,
                location,
                bytes,
            } => {
                let payload = PutPayload::from(std::mem::take(bytes));
                store.put(location, payload).await.map(drop)
            }
        };
        done.map(|()| self.size)
            .map_err(|e| StoreFailure::of(service, &e))
    }

    async fn abort(self) {
        if let Way::Parts(mut parts) = self.way {
            parts.under_way.shutdown().await;
            // The run has failed for another reason, and the store clears up by itself in time.
            let _ = parts.upload.abort().await;
        }
    }
}

/// An upload in parts.
struct Parts {
    upload: Box<dyn MultipartUpload>,
    filling: PutPayloadMut,
    under_way: JoinSet<object_store::Result<()>>,
}

impl Parts {
    async fn put(&mut self, piece: Bytes) -> object_store::Result<()> {
        let mut rest = piece;
        while !rest.is_empty() {
            let room = PART.saturating_sub(self.filling.content_length());
            self.filling.push(rest.split_to(room.min(rest.len())));
            if self.filling.content_length() >= PART {
                self.wait(PARALLEL).await?;
                self.send_part();
            }
        }
        Ok(())
    }

    fn send_part(&mut self) {
        let part = PutPayload::from(std::mem::take(&mut self.filling));
        self.under_way.spawn(self.upload.put_part(part));
    }

    /// Waits until fewer than `most` parts are under way.
    async fn wait(&mut self, most: usize) -> object_store::Result<()> {
        while self.under_way.len() >= most.max(1) {
            match self.under_way.join_next().await {
                Some(Ok(sent)) => sent?,
                Some(Err(source)) => return Err(object_store::Error::JoinError { source }),
                None => break,
            }
        }
        Ok(())
    }

    async fn complete(&mut self) -> object_store::Result<()> {
        if self.filling.content_length() > 0 {
            self.send_part();
        }
        self.wait(1).await?;
        self.upload.complete().await.map(drop)
    }
}
