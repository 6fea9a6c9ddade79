//! Reads an object from front to back, for decoders that know files.

use std::io::{self, Read};

use bytes::{Buf, Bytes};
use futures::StreamExt;
use object_store::ObjectStoreExt;
use object_store::path::Path as StorePath;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::failure::StoreFailure;
use super::{REQUEST_TIME, Store};

/// Pieces that wait to be decoded. Stores send them as they come, some tens of kilobytes each.
const READ_AHEAD: usize = 16;

/// What comes from the store; without an end the runtime was stopped.
type Piece = Result<Option<Bytes>, StoreFailure>;

/// The bytes of an object. Reading blocks.
pub(super) struct ObjectReader {
    pieces: mpsc::Receiver<Piece>,
    current: Bytes,
    ended: bool,
}

impl ObjectReader {
    /// Begins to fetch on the current runtime.
    pub(super) fn start(store: Store, location: StorePath) -> Self {
        let (send, pieces) = mpsc::channel(READ_AHEAD);
        // It ends when nobody listens any more.
        tokio::spawn(async move {
            let end = match fetch(&store, &location, &send).await {
                Ok(()) => Ok(None),
                Err(failure) => Err(failure),
            };
            let _ = send.send(end).await;
        });
        ObjectReader {
            pieces,
            current: Bytes::new(),
            ended: false,
        }
    }
}

async fn fetch(
    store: &Store,
    location: &StorePath,
    send: &mpsc::Sender<Piece>,
) -> Result<(), StoreFailure> {
    let failed = |e: object_store::Error| StoreFailure::of(store.service, &e);
    let stalled = |_| StoreFailure::Stalled(REQUEST_TIME);
    let answer = timeout(REQUEST_TIME, store.streams.get(location));
    let mut bytes = answer
        .await
        .map_err(stalled)?
        .map_err(failed)?
        .into_stream();
    // Only waiting for the store is timed, not waiting for the decoder.
    while let Some(piece) = timeout(REQUEST_TIME, bytes.next()).await.map_err(stalled)? {
        if send.send(Ok(Some(piece.map_err(failed)?))).await.is_err() {
            break;
        }
    }
    Ok(())
}

impl Read for ObjectReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while !self.ended && self.current.is_empty() && !out.is_empty() {
            match self.pieces.blocking_recv() {
                Some(Ok(Some(piece))) => self.current = piece,
                Some(Ok(None)) => self.ended = true,
                Some(Err(failure)) => return Err(failure.into()),
                None => return Err(io::Error::other("the run was stopped")),
            }
        }
        let count = self.current.len().min(out.len());
        if let Some(out) = out.get_mut(..count) {
            self.current.copy_to_slice(out);
        }
        Ok(count)
    }
}
