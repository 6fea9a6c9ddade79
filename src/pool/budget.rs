//! How often a pool tries again.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{Budget, Fault};

/// How often a pool tries again, each kind of failure with a budget of its own.
///
/// Nothing is retried for ever: a pool whose slots cannot live ends its run with the cause of the last
/// death.
///
/// ```
/// use wasmill::Budgets;
///
/// let budgets = Budgets { init_retries: 2, ..Budgets::default() };
/// assert_eq!(budgets.call_retries, 0);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Budgets {
    /// More attempts at starting a slot, when its `init` or start function fails. Each attempt is a
    /// fresh instance with the whole of `Policy::init_time`. Per slot that is started. Default 0.
    pub init_retries: u32,
    /// More attempts at a call whose slot was lost by it, each on a slot that was started again. Never
    /// for a sequence. Per call. Default 0.
    pub call_retries: u32,
    /// Slots started again after their guest trapped, ran out of a limit or broke the ABI. Per pool.
    /// Default 8.
    pub trap_restarts: u32,
    /// Slots started again for any other reason: a failed restart, a call that was cancelled, a failure
    /// of the host. Per pool. Default 8.
    pub slot_restarts: u32,
    /// The pause before an attempt, from the second in a row that follows a failure; it doubles with each
    /// up to a second. Default 10 ms.
    pub backoff: Duration,
}

impl Default for Budgets {
    fn default() -> Self {
        Budgets {
            init_retries: 0,
            call_retries: 0,
            trap_restarts: 8,
            slot_restarts: 8,
            backoff: Duration::from_millis(10),
        }
    }
}

impl Budgets {
    /// How many of a budget there are.
    pub(super) fn of(&self, budget: Budget) -> u32 {
        match budget {
            Budget::TrapRestarts => self.trap_restarts,
            Budget::SlotRestarts => self.slot_restarts,
            Budget::CallRetries => self.call_retries,
        }
    }

    /// How long to wait before an attempt, after `failures` that failed in a row. The first follows at
    /// once.
    pub(super) fn pause(&self, failures: u32) -> Duration {
        const LONGEST: Duration = Duration::from_secs(1);
        match failures.checked_sub(2) {
            None => Duration::ZERO,
            Some(doublings) => self
                .backoff
                .saturating_mul(2_u32.saturating_pow(doublings))
                .min(LONGEST),
        }
    }
}

/// The budget that a restart after this failure is taken from.
pub(super) fn budget_after(fault: &Fault) -> Budget {
    match fault {
        Fault::Trap { .. }
        | Fault::Exit { .. }
        | Fault::Time { .. }
        | Fault::Memory { .. }
        | Fault::Table { .. }
        | Fault::Contract(_) => Budget::TrapRestarts,
        _ => Budget::SlotRestarts,
    }
}

/// What a pool has spent of its budgets.
#[derive(Debug, Default)]
pub(super) struct Spent {
    traps: AtomicU32,
    slots: AtomicU32,
}

impl Spent {
    fn counter(&self, budget: Budget) -> &AtomicU32 {
        match budget {
            Budget::TrapRestarts => &self.traps,
            // Retries of a call are counted by the call.
            Budget::SlotRestarts | Budget::CallRetries => &self.slots,
        }
    }

    /// Whether nothing is left.
    pub(super) fn is_over(&self, budget: Budget, limit: u32) -> bool {
        self.counter(budget).load(Ordering::Relaxed) >= limit
    }

    /// Takes one, if there is one.
    pub(super) fn take(&self, budget: Budget, limit: u32) -> bool {
        let taken =
            self.counter(budget)
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |spent| {
                    (spent < limit).then(|| spent.saturating_add(1))
                });
        taken.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_second() {
        let budgets = Budgets::default();
        let pauses: Vec<u128> = (0..12).map(|n| budgets.pause(n).as_millis()).collect();
        assert_eq!(
            pauses,
            [0, 0, 10, 20, 40, 80, 160, 320, 640, 1000, 1000, 1000]
        );
        assert_eq!(budgets.pause(u32::MAX), Duration::from_secs(1));
        let hasty = Budgets {
            backoff: Duration::ZERO,
            ..budgets
        };
        assert_eq!(hasty.pause(u32::MAX), Duration::ZERO);
    }

    #[test]
    fn a_budget_is_spent_once() {
        let spent = Spent::default();
        let taken = (0..5)
            .filter(|_| spent.take(Budget::TrapRestarts, 3))
            .count();
        assert_eq!(taken, 3);
        assert!(spent.is_over(Budget::TrapRestarts, 3));
        assert!(!spent.is_over(Budget::SlotRestarts, 1));
        assert!(!spent.take(Budget::SlotRestarts, 0));
    }
}
