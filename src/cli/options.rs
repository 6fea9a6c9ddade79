//! Values of flags: sizes, times, grants, codecs, init arguments.

use std::num::NonZeroUsize;
use std::str::FromStr;
use std::time::Duration;

use clap::ValueEnum;
use parquet::basic::{BrotliLevel, Compression as Codec, GzipLevel, ZstdLevel};

use super::failure::Failure;
use crate::Grant;

pub(crate) fn at_least_one(text: &str) -> Result<NonZeroUsize, String> {
    text.parse()
        .map_err(|_| "a whole number of at least 1 is expected".to_owned())
}

/// Threads that one process may reasonably have for reading and planning.
const MOST_THREADS: usize = 1_024;

/// A number of threads that a system can be asked for.
pub(crate) fn threads(text: &str) -> Result<NonZeroUsize, String> {
    match at_least_one(text)? {
        number if number.get() > MOST_THREADS => Err(format!(
            "at most {MOST_THREADS} are accepted; one for each processor is usually best"
        )),
        number => Ok(number),
    }
}

/// Bytes with a unit. A bare number is refused: nobody could tell bytes from mebibytes by it.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    if text.trim().bytes().all(|b| b.is_ascii_digit()) {
        return Err("add a unit, as in 256MiB".to_owned());
    }
    text.parse::<bytesize::ByteSize>().map(|size| size.as_u64())
}

/// A character of one byte, as CSV readers have it.
pub(crate) fn delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"\\t" => Ok(b'\t'),
        [b'"' | b'\n' | b'\r'] => Err("this character has a meaning of its own in CSV".to_owned()),
        [byte] if byte.is_ascii() => Ok(*byte),
        _ => Err("one ASCII character is expected, as ; or | or \\t".to_owned()),
    }
}

/// A time that is more than none.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(time) if time.is_zero() => Err("a time of more than nothing is expected".to_owned()),
        Ok(time) => Ok(time),
        Err(e) => Err(format!("{e}; write it with its unit, as in 10s or 500ms")),
    }
}

/// `HOST::GUEST` or `HOST::GUEST:rw`.
#[derive(Debug, Clone)]
pub(crate) struct GrantOption(pub(crate) Grant);

impl FromStr for GrantOption {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // The host's folder may hold `::` itself: the last one separates.
        let (host, guest) = text
            .rsplit_once("::")
            .filter(|(host, guest)| !host.is_empty() && !guest.is_empty())
            .ok_or("write HOST::GUEST, or HOST::GUEST:rw to let the guest write")?;
        let (guest, writable) = match guest.strip_suffix(":rw") {
            Some(guest) => (guest, true),
            None => (guest, false),
        };
        Ok(GrantOption(Grant {
            host: host.into(),
            guest: guest.to_owned(),
            writable,
        }))
    }
}

/// `NAME=VALUE`.
#[derive(Debug, Clone)]
pub(crate) struct EnvOption(pub(crate) (String, String));

impl FromStr for EnvOption {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
        Ok(EnvOption((name.to_owned(), value.to_owned())))
    }
}

/// Codecs of Parquet pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Compression {
    /// Zstandard: small, and fast to read
    #[default]
    Zstd,
    /// Snappy: larger, and read everywhere
    Snappy,
    /// LZ4, without a frame
    Lz4,
    /// As in gzip: small and slow
    Gzip,
    /// Brotli: smallest and slowest
    Brotli,
    /// None at all
    None,
}

impl Compression {
    /// As the writer names it.
    pub(crate) fn codec(self) -> Codec {
        match self {
            Compression::Zstd => Codec::ZSTD(ZstdLevel::default()),
            Compression::Snappy => Codec::SNAPPY,
            Compression::Lz4 => Codec::LZ4_RAW,
            Compression::Gzip => Codec::GZIP(GzipLevel::default()),
            Compression::Brotli => Codec::BROTLI(BrotliLevel::default()),
            Compression::None => Codec::UNCOMPRESSED,
        }
    }
}

pub(crate) fn init_args(given: Option<&str>) -> Result<Option<serde_json::Value>, Failure> {
    let Some(given) = given else { return Ok(None) };
    let (text, place) = match given.strip_prefix('@') {
        Some(path) => {
            let text = std::fs::read_to_string(path)
                .map_err(|e| Failure::io(format!("cannot read the init arguments {path}: {e}")))?;
            (text, path)
        }
        None => (given.to_owned(), "--init"),
    };
    serde_json::from_str(&text)
        .map(Some)
        .map_err(|e| Failure::usage(format!("the init arguments in {place} are not JSON: {e}")))
}
