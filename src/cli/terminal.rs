//! The terminal: colours, the progress bar, the last word on panics.

use std::borrow::Cow;
use std::cell::Cell;
use std::io::IsTerminal;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use clap::ValueEnum;
use indicatif::{
    HumanCount, ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressState, ProgressStyle,
};
use tracing_subscriber::EnvFilter;

use super::failure::Failure;
use crate::abi::frame::misleads;

/// When to use colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

impl Color {
    /// Settles the choice for the process.
    pub(crate) fn apply(self) {
        match self {
            // anstream looks at the terminal, NO_COLOR, CLICOLOR_FORCE and TERM itself.
            Color::Auto => {}
            Color::Always => anstream::ColorChoice::Always.write_global(),
            Color::Never => anstream::ColorChoice::Never.write_global(),
        }
    }
}

/// The variable that chooses what is logged.
const LOG: &str = "WASMILL_LOG";

/// Sends the library's own log to stderr: warnings, and more for each `-v`.
pub(crate) fn start_logging(verbose: u8) -> Result<(), Failure> {
    let level = match verbose {
        0 => "wasmill=warn",
        1 => "wasmill=info",
        2 => "wasmill=debug",
        _ => "trace",
    };
    let filter = match std::env::var_os(LOG).filter(|value| !value.is_empty()) {
        None => EnvFilter::new(level),
        Some(value) => {
            let text = value.to_string_lossy();
            EnvFilter::builder().parse(&text).map_err(|e| {
                Failure::usage(format!("the variable {LOG} is {text:?}, which cannot be used: {e}"))
                    .hint("write a level, as debug, or levels by module, as wasmill=debug,datafusion=info")
            })?
        }
    };
    let colour = anstream::AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never;
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(colour)
        .compact();
    // An embedder that calls this may have one of its own.
    let _ = subscriber.try_init();
    Ok(())
}

thread_local! {
    static SILENT: Cell<bool> = const { Cell::new(false) };
}

/// Makes panics in [`without_panic_output`] silent. Call once, before threads are started.
pub(crate) fn install_panic_hook() {
    let default = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !SILENT.get() {
            default(info);
        }
    }));
}

/// Runs code that may panic on bad input. Gives the panic's message without printing it.
pub(crate) fn without_panic_output<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    let before = SILENT.replace(true);
    let result = catch_unwind(AssertUnwindSafe(run));
    SILENT.set(before);
    result.map_err(|panic| {
        let text = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied());
        text.unwrap_or("it cannot be decoded").to_owned()
    })
}

/// [`without_panic_output`] for what is done in steps.
pub(crate) async fn guarded<T>(work: impl Future<Output = T>) -> Result<T, String> {
    let mut work = std::pin::pin!(work);
    std::future::poll_fn(
        |context| match without_panic_output(|| work.as_mut().poll(context)) {
            Ok(poll) => poll.map(Ok),
            Err(panic) => Poll::Ready(Err(panic)),
        },
    )
    .await
}

/// Text of files and modules without the characters that steer a terminal or mislead its reader.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, |c| c.escape_default().to_string())
}

/// [`printable`] for JSON, which stays the same JSON.
pub(crate) fn printable_json(text: &str) -> Cow<'_, str> {
    escaped(text, |c| {
        let mut units = [0; 2];
        let units = c.encode_utf16(&mut units);
        units.iter().map(|unit| format!("\\u{unit:04x}")).collect()
    })
}

fn escaped(text: &str, escape: impl Fn(char) -> String) -> Cow<'_, str> {
    let hidden = |c: char| misleads(c) && !matches!(c, '\n' | '\t');
    if !text.contains(hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match hidden(c) {
            true => shown.push_str(&escape(c)),
            false => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

/// A bar on stderr, hidden where nobody would look at it.
pub(crate) fn progress(rows: Option<usize>, quiet: bool) -> ProgressBar {
    let hidden = quiet || !std::io::stderr().is_terminal() || std::env::var_os("CI").is_some();
    let target = if hidden {
        ProgressDrawTarget::hidden()
    } else {
        ProgressDrawTarget::stderr()
    };
    let bar = ProgressBar::with_draw_target(rows.map(|r| r as u64), target)
        .with_finish(ProgressFinish::AndClear);
    let template = match rows {
        Some(_) => "{bar:30} {rows} of {all} rows, {per_second} rows/s, {eta} left",
        None => "{spinner} {rows} rows, {per_second} rows/s, {elapsed}",
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        let style = style
            .with_key("rows", |s: &ProgressState, w: &mut dyn std::fmt::Write| {
                put(w, s.pos())
            })
            .with_key("all", |s: &ProgressState, w: &mut dyn std::fmt::Write| {
                put(w, s.len().unwrap_or(0))
            })
            .with_key(
                "per_second",
                |s: &ProgressState, w: &mut dyn std::fmt::Write| put(w, s.per_sec() as u64),
            );
        bar.set_style(style);
    }
    if !hidden {
        bar.enable_steady_tick(Duration::from_millis(200));
    }
    bar
}

/// The bar of what is done now, for those who write lines meanwhile.
#[derive(Clone, Default)]
pub(crate) struct CurrentBar(Arc<Mutex<Option<ProgressBar>>>);

impl CurrentBar {
    /// Another bar.
    pub(crate) fn set(&self, bar: &ProgressBar) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(bar.clone());
    }

    /// Takes the bar away.
    pub(crate) fn clear(&self) {
        let bar = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(bar) = bar {
            bar.finish_and_clear();
        }
    }

    /// Writes a line to stderr, above the bar where there is one.
    pub(crate) fn say(&self, line: &str) {
        let bar = self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        match bar {
            Some(bar) => bar.suspend(|| super::say(line)),
            None => super::say(line),
        }
    }
}

fn put(bar: &mut dyn std::fmt::Write, count: u64) {
    // A bar that cannot be drawn is not worth a word.
    let _ = write!(bar, "{}", HumanCount(count));
}

/// `1 call`, `2 calls`.
pub(crate) fn counted(count: u64, one: &str, more: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { more })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_mislead_are_shown_as_what_they_are() {
        assert_eq!(printable("a\tß\n漢 ✓"), "a\tß\n漢 ✓");
        assert_eq!(
            printable("a\u{202e}b\u{9b}c\x1b["),
            "a\\u{202e}b\\u{9b}c\\u{1b}["
        );
        for c in [
            '\u{61c}', '\u{85}', '\u{200e}', '\u{200f}', '\u{2028}', '\u{2029}', '\u{202a}',
            '\u{2066}', '\u{2069}',
        ] {
            assert!(!printable(&format!("x{c}y")).contains(c), "{c:?}");
        }
    }

    #[test]
    fn json_is_the_same_when_it_is_made_printable() {
        let text = "a\u{202e}b\u{9b}\u{7f}\n";
        let json = serde_json::to_string(text).unwrap();
        let shown = printable_json(&json);
        assert_eq!(shown, r#""a\u202eb\u009b\u007f\n""#);
        assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), text);
    }
}
