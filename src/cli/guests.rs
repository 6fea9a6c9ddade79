//! Options of slots and their guests, for each verb that runs UDFs over tables.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;

use super::failure::Failure;
use super::options::{EnvOption, GrantOption, at_least_one, bytes, duration};
use super::pools::{self, PoolOptions};
use super::terminal::CurrentBar;
use super::without_effect;
use crate::{LogSink, Module, Policy};

/// How many slots there are, and what they may do.
#[derive(Debug, Args)]
pub(crate) struct GuestOptions {
    /// Number of slots: instances that run at once
    #[arg(long, value_name = "N", default_value_t = NonZeroUsize::MIN, value_parser = at_least_one, allow_negative_numbers = true)]
    pub(crate) slots: NonZeroUsize,

    /// Most rows per call of the guest [default: what the UDF asks for, else 8192]
    #[arg(long, value_name = "N", value_parser = at_least_one, allow_negative_numbers = true)]
    pub(crate) batch_size: Option<NonZeroUsize>,

    /// Most memory of a slot, with its unit
    #[arg(long, value_name = "BYTES", default_value = "256MiB", value_parser = bytes)]
    memory: u64,

    /// Most time of one call
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    timeout: Duration,

    /// Most time that a slot takes to start, its init included
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    init_timeout: Duration,

    /// Write rows as soon as they are computed, not in the order of the input
    #[arg(long)]
    pub(crate) unordered: bool,

    #[command(flatten)]
    pub(crate) pools: PoolOptions,

    /// Folder that the guest may see, and the name it has there; with :rw it may write too
    ///
    /// For modules built for wasm32-wasip1. Without a grant a guest sees no file at all.
    #[arg(long, value_name = "HOST::GUEST[:rw]")]
    grant: Vec<GrantOption>,

    /// Environment variable that the guest sees; it sees none of this process's
    #[arg(long, value_name = "NAME=VALUE")]
    env: Vec<EnvOption>,
}

impl GuestOptions {
    /// Limits and grants of each slot.
    pub(crate) fn policy(&self) -> Policy {
        Policy {
            grants: self.grant.iter().map(|g| g.0.clone()).collect(),
            environment: self.env.iter().map(|v| v.0.clone()).collect(),
            ..self.limits()
        }
    }

    /// The limits alone.
    pub(crate) fn limits(&self) -> Policy {
        Policy {
            memory: self.memory,
            call_time: self.timeout,
            init_time: self.init_timeout,
            ..Policy::default()
        }
    }

    /// Options that have a meaning only together with others.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        pools::check(&self.pools)
    }

    /// Refuses what a guest would see through WASI, where no module imports any of it.
    pub(crate) fn check_wasi(&self, modules: &[Module]) -> Result<(), Failure> {
        let options = [
            ("--grant", !self.grant.is_empty()),
            ("--env", !self.env.is_empty()),
        ];
        without_effect::check_wasi(options, modules)
    }
}

/// Lines of guests, above the bar where there is one.
pub(crate) fn log_to_stderr(bar: &CurrentBar) -> LogSink {
    let bar = bar.clone();
    Arc::new(move |line| {
        bar.say(&format!(
            "{}: [{} slot {}] {}",
            line.level, line.pool, line.slot, line.text
        ));
    })
}
