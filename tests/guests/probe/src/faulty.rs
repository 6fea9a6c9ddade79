//! A state that fails at the moment that a test asks for.

use std::hint::black_box;

use wasmill_guest::{Column, InitArgs, Writer, log, udf};

/// When and how to fail.
#[derive(InitArgs)]
pub struct FaultyArgs {
    /// `trap`, `spin`, or anything else for a state that starts well.
    #[init(default = "")]
    pub init: String,
    /// The call of this instance, counted from 1, that traps.
    #[init(default = 0)]
    pub trap_at: u64,
    /// The call of this instance that never ends.
    #[init(default = 0)]
    pub spin_at: u64,
    /// Turns of an empty loop in each call.
    #[init(default = 0)]
    pub turns: u64,
    /// `trap`, `spin`, or anything else for a state that ends well.
    #[init(default = "")]
    pub close: String,
}

/// Fails as it was told.
pub struct Faulty {
    args: FaultyArgs,
    calls: u64,
}

#[udf(state = "resource", volatility = "immutable")]
impl Faulty {
    /// Logs that it has started.
    pub fn init(args: FaultyArgs) -> Self {
        fail(&args.init);
        log::info!("faulty init");
        Self { args, calls: 0 }
    }

    /// x plus 1.
    #[udf(batch)]
    pub fn faulty(&mut self, x: Column<'_, i64>, out: &mut Writer<i64>) {
        self.calls += 1;
        for turn in 0..self.args.turns {
            black_box(turn);
        }
        if self.calls == self.args.trap_at {
            fail("trap");
        }
        if self.calls == self.args.spin_at {
            fail("spin");
        }
        out.fill(x.len(), |row| x.get(row).wrapping_add(1));
    }

    /// Logs that it ends.
    pub fn close(self) {
        log::info!("faulty close");
        fail(&self.args.close);
    }
}

fn fail(how: &str) {
    match how {
        "trap" => panic!("a trap on purpose"),
        "spin" => {
            while black_box(true) {
                black_box(());
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "on purpose")]
    fn it_fails_when_it_is_told_to() {
        fail("");
        fail("trap");
    }
}
