//! Checks Arrow IPC messages against the bytes that are really there, before arrow-rs sees them.
//!
//! arrow-rs allocates what a message claims, and some claims end the process instead of giving an
//! error. Nothing here allocates by a claim; what passes can be decoded within a small multiple of
//! the message's own size, or fails with an error or a panic that the caller catches.

use arrow::ipc::{
    CompressionType, DictionaryBatch, Endianness, Message, MessageHeader, RecordBatch, Schema,
};

/// Most bytes that one byte of LZ4 can stand for.
const LZ4_RATIO: u64 = 255;
/// A run of zeros of 128 KiB takes a block of four bytes in Zstandard.
const ZSTD_RATIO: u64 = 32 << 10;
/// Frame headers may outweigh tiny payloads.
const COMPRESSION_SLACK: u64 = 64;
/// The prefix of a compressed buffer: its size before compression.
const SIZE_PREFIX: usize = 8;

/// Refuses schemas of another byte order.
pub(super) fn check_schema(schema: &Schema<'_>) -> Result<(), String> {
    if schema.endianness() == Endianness::Big {
        return Err("it is big-endian; only little-endian Arrow data can be read. Write it again on a little-endian machine".to_owned());
    }
    Ok(())
}

/// The size of the body that a message claims to have, if it can be that large.
pub(super) fn body_length(message: &Message<'_>, remaining: u64) -> Result<usize, String> {
    let claimed = message.bodyLength();
    let length = u64::try_from(claimed)
        .map_err(|_| format!("a message claims a body of {claimed} bytes"))?;
    if length > remaining {
        return Err(format!(
            "a message claims a body of {length} bytes where {remaining} are left"
        ));
    }
    usize::try_from(length).map_err(|_| format!("a message claims a body of {length} bytes"))
}

/// Checks all that a message says about its body.
pub(super) fn check_body(message: &Message<'_>, body: &[u8]) -> Result<(), String> {
    match message.header_type() {
        MessageHeader::RecordBatch => message
            .header_as_record_batch()
            .map_or(Ok(()), |batch| check_batch(&batch, body)),
        MessageHeader::DictionaryBatch => message
            .header_as_dictionary_batch()
            .map_or(Ok(()), |batch| check_dictionary(&batch, body)),
        _ => Ok(()),
    }
}

fn check_dictionary(batch: &DictionaryBatch<'_>, body: &[u8]) -> Result<(), String> {
    match batch.data() {
        Some(data) => check_batch(&data, body),
        None => Err("a dictionary without values".to_owned()),
    }
}

fn check_batch(batch: &RecordBatch<'_>, body: &[u8]) -> Result<(), String> {
    if batch.length() < 0 {
        return Err(format!("a batch of {} rows", batch.length()));
    }
    for node in batch.nodes().into_iter().flatten() {
        if node.length() < 0 || node.null_count() < 0 || node.null_count() > node.length() {
            return Err(format!(
                "an array of {} elements with {} nulls",
                node.length(),
                node.null_count()
            ));
        }
    }
    let buffers = batch.buffers();
    let count = buffers.map_or(0, |b| b.len() as u64);
    let mut variadic = 0_u64;
    for claimed in batch.variadicBufferCounts().into_iter().flatten() {
        variadic = u64::try_from(claimed)
            .map(|n| variadic.saturating_add(n))
            .unwrap_or(u64::MAX);
    }
    if variadic > count {
        return Err(format!("view arrays claim {variadic} of {count} buffers"));
    }
    let codec = batch.compression().map(|c| c.codec());
    for buffer in buffers.into_iter().flatten() {
        let bytes = slice(body, buffer.offset(), buffer.length()).ok_or_else(|| {
            format!(
                "a buffer of {} bytes at {} lies outside its body of {} bytes",
                buffer.length(),
                buffer.offset(),
                body.len()
            )
        })?;
        if let Some(codec) = codec {
            check_compressed(codec, bytes)?;
        }
    }
    Ok(())
}

fn slice(body: &[u8], offset: i64, length: i64) -> Option<&[u8]> {
    let start = usize::try_from(offset).ok()?;
    let end = start.checked_add(usize::try_from(length).ok()?)?;
    body.get(start..end)
}

/// A compressed buffer begins with its size before compression; −1 says that it is not compressed.
fn check_compressed(codec: CompressionType, bytes: &[u8]) -> Result<(), String> {
    if bytes.is_empty() {
        return Ok(());
    }
    let (prefix, packed) = bytes
        .split_first_chunk::<SIZE_PREFIX>()
        .ok_or("a compressed buffer without its size")?;
    let claimed = i64::from_le_bytes(*prefix);
    if claimed == -1 {
        return Ok(());
    }
    let ratio = if codec == CompressionType::LZ4_FRAME {
        LZ4_RATIO
    } else {
        ZSTD_RATIO
    };
    let most = (packed.len() as u64)
        .saturating_mul(ratio)
        .saturating_add(COMPRESSION_SLACK);
    match u64::try_from(claimed) {
        Ok(size) if size <= most => Ok(()),
        _ => Err(format!(
            "a compressed buffer of {} bytes claims {claimed} bytes",
            packed.len()
        )),
    }
}
