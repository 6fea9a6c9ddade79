//! What embedders of the core rely on: the library through its public API, without DataFusion.

mod arrays;
mod behaviour;
mod guests;
mod hostile;
mod identity;
mod languages;
mod pools;
mod udfs;
