//! SQL with UDFs: how it is planned, and what it gives.

mod differential;
mod functions;
mod native;
mod planner;
mod runs;
mod sequence;
pub(crate) mod session;
