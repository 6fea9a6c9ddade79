//! Data in and out: formats, readers that trust nothing, writers whose files appear whole.

mod address;
mod csv_read;
mod decode;
mod decoded_table;
mod encode;
mod error;
mod expand;
mod format;
mod in_order;
mod input;
mod ipc_check;
mod ipc_read;
mod json_read;
mod json_syntax;
mod live;
mod output;
mod parquet_check;
mod parquet_table;
mod schema;
mod sink;
mod source;
mod staged;
#[cfg(feature = "object-store")]
mod stores;
#[cfg(not(feature = "object-store"))]
#[path = "no_stores.rs"]
mod stores;
mod table;
mod unify;

pub(crate) use address::{StoreAddress, shown};
pub(crate) use csv_read::{CsvDialect, other_delimiter};
pub(crate) use encode::{Encoder, Encoding, check_columns};
pub(crate) use error::{InputError, OutputError};
pub(crate) use format::Format;
pub(crate) use input::{Input, ReadOptions, open};
pub(crate) use output::Output;
pub(crate) use sink::sink;
pub(crate) use source::STANDARD;
use source::Source;
pub(crate) use staged::{StagedFile, followed};
pub(crate) use stores::Uploads;
