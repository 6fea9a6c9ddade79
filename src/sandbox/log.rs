//! Log lines of guests: bounded, escaped, never blocking the guest on more than the sink itself.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::abi::frame::clean_text;

/// Bytes of one line that are kept.
const LINE_BYTES: usize = 4 << 10;

/// How urgent a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Something failed.
    Error,
    /// Something is odd.
    Warn,
    /// Something worth knowing.
    Info,
    /// For whoever debugs the guest.
    Debug,
    /// Every detail.
    Trace,
}

impl LogLevel {
    pub(crate) fn from_guest(level: i32) -> Self {
        match level {
            i32::MIN..=1 => LogLevel::Error,
            2 => LogLevel::Warn,
            3 => LogLevel::Info,
            4 => LogLevel::Debug,
            _ => LogLevel::Trace,
        }
    }
}

impl fmt::Display for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LogLevel::Error => "error",
            LogLevel::Warn => "warn",
            LogLevel::Info => "info",
            LogLevel::Debug => "debug",
            LogLevel::Trace => "trace",
        })
    }
}

/// One line that a guest logged.
#[derive(Debug, Clone, Copy)]
pub struct LogLine<'a> {
    /// How urgent it is, as the guest says.
    pub level: LogLevel,
    /// The module's name.
    pub module: &'a str,
    /// The run that started the slot.
    pub run: &'a str,
    /// The pool's name.
    pub pool: &'a str,
    /// The slot's number.
    pub slot: usize,
    /// The text: one line, valid, without control characters, at most 4 KiB.
    pub text: &'a str,
}

/// Where log lines go. Called on the slot's thread, inside the guest's time.
pub type LogSink = Arc<dyn Fn(&LogLine<'_>) + Send + Sync>;

/// A sink that makes each line an event of `tracing`, target `wasmill::guest`.
pub(crate) fn tracing_sink() -> LogSink {
    Arc::new(|line| {
        let LogLine {
            level,
            module,
            run,
            pool,
            slot,
            text,
        } = *line;
        match level {
            LogLevel::Error => {
                tracing::error!(target: "wasmill::guest", module, run, pool, slot, "{text}")
            }
            LogLevel::Warn => {
                tracing::warn!(target: "wasmill::guest", module, run, pool, slot, "{text}")
            }
            LogLevel::Info => {
                tracing::info!(target: "wasmill::guest", module, run, pool, slot, "{text}")
            }
            LogLevel::Debug => {
                tracing::debug!(target: "wasmill::guest", module, run, pool, slot, "{text}")
            }
            LogLevel::Trace => {
                tracing::trace!(target: "wasmill::guest", module, run, pool, slot, "{text}")
            }
        }
    })
}

/// What a slot is called in messages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SlotName<'a> {
    /// The run that starts it.
    pub(crate) run: &'a str,
    /// Its pool.
    pub(crate) pool: &'a str,
    /// Its number.
    pub(crate) slot: usize,
}

/// The log of one slot: what may still be said in this entry into the guest.
pub(crate) struct SlotLog {
    sink: LogSink,
    module: String,
    run: String,
    pool: String,
    slot: usize,
    limit: u64,
    left: u64,
    dropped: u64,
}

impl SlotLog {
    pub(crate) fn new(sink: LogSink, module: &str, name: SlotName<'_>, limit: u64) -> Self {
        SlotLog {
            sink,
            module: module.to_owned(),
            run: name.run.to_owned(),
            pool: name.pool.to_owned(),
            slot: name.slot,
            limit,
            left: limit,
            dropped: 0,
        }
    }

    /// A new entry into the guest: the budget is whole again.
    pub(crate) fn begin_entry(&mut self) {
        self.note_dropped();
        self.left = self.limit;
    }

    fn note_dropped(&mut self) {
        let dropped = std::mem::take(&mut self.dropped);
        if dropped > 0 {
            let limit = self.limit;
            let text = format!("{dropped} more bytes of log were dropped (limit {limit} per call)");
            self.emit(LogLevel::Warn, &text);
        }
    }

    /// Takes what a guest said; several lines become several lines. A fixed cost is added to each, so
    /// that empty lines end too.
    pub(crate) fn write(&mut self, level: LogLevel, bytes: &[u8]) {
        const LINE_COST: u64 = 16;
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        for line in bytes.split(|b| *b == b'\n') {
            let kept = line.get(..line.len().min(LINE_BYTES)).unwrap_or_default();
            let cost = (kept.len() as u64).saturating_add(LINE_COST);
            let Some(left) = self.left.checked_sub(cost) else {
                self.left = 0;
                self.dropped = self.dropped.saturating_add(line.len() as u64);
                continue;
            };
            self.left = left;
            let mut text = clean_text(kept).replace('\t', "\\t");
            if kept.len() < line.len() {
                text.push('…');
            }
            self.emit(level, &text);
        }
    }

    /// Counts what was not even looked at.
    pub(crate) fn drop_bytes(&mut self, bytes: u64) {
        self.dropped = self.dropped.saturating_add(bytes);
    }

    /// Bytes that may still be said.
    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    fn emit(&self, level: LogLevel, text: &str) {
        (self.sink)(&LogLine {
            level,
            module: &self.module,
            run: &self.run,
            pool: &self.pool,
            slot: self.slot,
            text,
        });
    }
}

/// What was dropped in the last entry is told too.
impl Drop for SlotLog {
    fn drop(&mut self) {
        // A sink that panics here would take down whoever drops a slot.
        let _ = catch_unwind(AssertUnwindSafe(|| self.note_dropped()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn a_flood_is_bounded_and_lines_cannot_be_forged() {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let sink: LogSink = {
            let lines = Arc::clone(&lines);
            Arc::new(move |line| {
                lines
                    .lock()
                    .expect("not poisoned")
                    .push(line.text.to_owned())
            })
        };
        let mut log = SlotLog::new(
            sink,
            "m",
            SlotName {
                run: "r",
                pool: "p",
                slot: 0,
            },
            100,
        );
        log.write(LogLevel::Info, b"a\x1b[31m\r\nforged\xff");
        for _ in 0..1000 {
            log.write(LogLevel::Info, b"\n");
        }
        log.write(LogLevel::Info, &[b'x'; 5000]);
        drop(log);
        let lines = lines.lock().expect("not poisoned");
        assert_eq!(lines[0], "a\\u{1b}[31m\\r");
        assert_eq!(lines[1], "forged\u{fffd}");
        assert!(lines.len() < 10, "{}", lines.len());
        assert!(lines.last().expect("a note").contains("dropped"));
    }
}
