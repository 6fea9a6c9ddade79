//! SQL with UDFs: how it is planned, and what it gives.

mod functions;
mod planner;
mod runs;
mod sequence;
pub(crate) mod session;
