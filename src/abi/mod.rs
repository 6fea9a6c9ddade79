//! The boundary: the only place that touches guest bytes.
//!
//! `docs/abi.md` is the contract. [`layout`] describes a type once; [`write`] puts arrays into guest
//! memory in one copy; [`read`] takes results out in one copy and checks them before any Arrow array
//! exists; [`frame`] has the structs of a call; [`schema`] those of `bind`.
//!
//! Everything here works on `&[u8]` of the guest's memory between two entries into the guest, with
//! checked arithmetic: there is no unsafe code.

#![deny(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap
)]

mod arena;
pub(crate) mod frame;
mod layout;
mod read;
mod recycle;
mod schema;
mod write;

pub(crate) use arena::{Arena, Written};
pub(crate) use layout::Layout;
pub(crate) use read::{Reader, RowErrors, holds_wild_values};
pub(crate) use recycle::Shelf;
pub(crate) use schema::{read_schema, write_schemas};
pub(crate) use write::{CallPlaces, Source, dictionary_values};
