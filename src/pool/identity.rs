//! What tells pools apart.

use std::sync::Arc;

use super::budget::Budgets;
use crate::ledger::SlotResources;
use crate::module::Digest;
use crate::sandbox::{LogSink, Policy};

/// What tells pools apart: calls whose pools have one identity share a pool.
///
/// The settings of the run are in the policy's environment, where guests see them. Arguments of `init`
/// are compared as canonical JSON, defaults filled in.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Identity {
    pub(super) tenant: String,
    pub(super) module: Digest,
    pub(super) state: Option<String>,
    pub(super) init_args: String,
    pub(super) policy: Policy,
    pub(super) resources: SlotResources,
    pub(super) budgets: Budgets,
    pub(super) sink: SinkIdentity,
}

impl Identity {
    /// Whether stateless calls of a pool with this identity may go to that pool instead.
    pub(super) fn may_join(&self, other: &Identity) -> bool {
        self.state.is_none()
            && Identity {
                state: other.state.clone(),
                init_args: other.init_args.clone(),
                ..self.clone()
            } == *other
    }
}

/// Which sink the guests' lines go to: the address of a closure that the pool keeps alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct SinkIdentity(Option<usize>);

impl SinkIdentity {
    /// `None`: the default sink, which is the same for all.
    pub(super) fn of(sink: Option<&LogSink>) -> Self {
        SinkIdentity(sink.map(|sink| Arc::as_ptr(sink).cast::<()>().addr()))
    }
}
