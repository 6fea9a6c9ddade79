//! Files of the sqllogictest format: our own in `tests/slt`, and those of DataFusion with each column in a
//! call.

mod datafusion_files;
mod engine;
pub(crate) mod everywhere;
mod own_files;
mod text;
