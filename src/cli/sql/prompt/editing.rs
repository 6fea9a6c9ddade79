//! Typing: lines with history, completion of names, statements of several lines.

use std::borrow::Cow;
use std::path::PathBuf;

use rustyline::completion::{Completer, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Config, Context, Editor, Helper};

use super::commands::Command;
use crate::cli::failure::Failure;
use crate::cli::sql::script::is_complete;

/// What was typed.
#[derive(Debug)]
pub(super) enum Typed {
    Statements(String),
    Command(Command),
    Nothing,
    /// No more will be.
    End,
}

/// The line editor and its history.
pub(super) struct Editing {
    editor: Editor<Names, FileHistory>,
    history: Option<PathBuf>,
}

/// Most lines of the history.
const REMEMBERED: usize = 1_000;

/// Names that can be completed.
struct Names(Vec<String>);

impl Editing {
    /// Begins to read from the terminal.
    pub(super) fn begin() -> Result<Self, Failure> {
        let unusable =
            |e: ReadlineError| Failure::io(format!("cannot read from the terminal: {e}"));
        let config = Config::builder()
            .max_history_size(REMEMBERED)
            .map_err(unusable)?
            .completion_type(rustyline::CompletionType::List)
            .build();
        let mut editor = Editor::with_config(config).map_err(unusable)?;
        editor.set_helper(Some(Names(Vec::new())));
        let history = history_file();
        if let Some(file) = &history {
            // There is none the first time.
            if let Err(error) = editor.load_history(file) {
                tracing::debug!(%error, file = %file.display(), "no history");
            }
        }
        Ok(Editing { editor, history })
    }

    /// Names that are completed from now on.
    pub(super) fn offer(&mut self, names: Vec<String>) {
        self.editor.set_helper(Some(Names(names)));
    }

    /// Waits for a command or statements. Blocks.
    pub(super) fn read(&mut self) -> Result<Typed, Failure> {
        let text = match self.editor.readline("wasmill> ") {
            Ok(text) => text,
            Err(ReadlineError::Interrupted) => return Ok(Typed::Nothing),
            Err(ReadlineError::Eof) => return Ok(Typed::End),
            Err(e) => return Err(Failure::io(format!("cannot read from the terminal: {e}"))),
        };
        if text.trim().is_empty() {
            return Ok(Typed::Nothing);
        }
        self.remember(&text);
        Ok(match Command::parse(&text) {
            Some(command) => Typed::Command(command),
            None => Typed::Statements(text),
        })
    }

    fn remember(&mut self, text: &str) {
        let added = self.editor.add_history_entry(text);
        if let (Ok(true), Some(file)) = (added, &self.history)
            && let Err(error) = self.editor.append_history(file)
        {
            tracing::debug!(%error, file = %file.display(), "the history is not kept");
        }
    }
}

/// Where what was typed is remembered: in the user's folder for states of programs.
fn history_file() -> Option<PathBuf> {
    let absolute = |name| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let base = absolute("XDG_STATE_HOME")
        .or_else(|| Some(absolute("HOME")?.join(".local").join("state")))?;
    let folder = base.join("wasmill");
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(&folder).ok()?;
    Some(folder.join("history"))
}

impl Completer for Names {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        at: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let before = line.get(..at).unwrap_or(line);
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '"');
        let start = before
            .char_indices()
            .rev()
            .take_while(|(_, c)| is_part(*c))
            .last()
            .map_or(before.len(), |(start, _)| start);
        let begun = before.get(start..).unwrap_or_default().to_lowercase();
        if begun.is_empty() {
            return Ok((at, Vec::new()));
        }
        let fitting = self
            .0
            .iter()
            .filter(|name| name.to_lowercase().starts_with(&begun));
        let pairs = fitting.map(|name| Pair {
            display: name.clone(),
            replacement: name.clone(),
        });
        Ok((start, pairs.collect()))
    }
}

impl Validator for Names {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let text = context.input();
        let whole = Command::parse(text).is_some() || is_complete(text);
        Ok(match whole {
            true => ValidationResult::Valid(None),
            false => ValidationResult::Incomplete,
        })
    }
}

impl Hinter for Names {
    type Hint = String;
}

impl Highlighter for Names {
    fn highlight<'l>(&self, line: &'l str, _: usize) -> Cow<'l, str> {
        Cow::Borrowed(line)
    }
}

impl Helper for Names {}
