//! Files in and out: formats, readers that trust nothing, writers whose files appear whole.

mod arrow_sink;
mod arrow_table;
mod error;
mod file_table;
mod format;
mod input;
mod ipc_check;
mod ipc_read;
mod output;
mod schema;
mod staged;
mod unify;

pub(crate) use error::{InputError, OutputError};
pub(crate) use format::Format;
pub(crate) use input::{Input, open};
pub(crate) use output::{check_columns, sink};
pub(crate) use staged::StagedFile;
