//! What a guest may do: policy, engine settings, limits, host functions, deadlines. Nothing outside
//! this module grants a capability.

mod deadline;
mod engine;
mod guest;
mod log;
mod names;
mod policy;
mod state;
mod wasi;

pub use deadline::Cancel;
pub use engine::{Engine, EngineConfig};
pub(crate) use guest::Guest;
pub(crate) use guest::NoGuest;
pub use log::{LogLevel, LogLine, LogSink};
pub(crate) use log::{SlotName, tracing_sink};
pub(crate) use names::is_wasi_name;
pub use policy::{Grant, Policy};
pub(crate) use state::{SlotState, link};
