//! The prompt: statements typed on a terminal, one after the other.

mod commands;
mod editing;

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Instant;

use datafusion::sql::parser::Statement;
use tokio::runtime::Runtime;
use tokio::task::AbortHandle;

use self::commands::Command;
use self::editing::{Editing, Typed};
use super::options::SessionOptions;
use super::perform::{Target, Telling, perform};
use super::script;
use super::session::Session;
use crate::cli::ending::{RunKeeper, TO_STOP, asked_to_end, blocking, internal, supervised_until};
use crate::cli::failure::{Exit, Failure};
use crate::cli::io::Uploads;
use crate::cli::{print, say};

/// Reads and carries out statements until the user has had enough.
pub(super) fn execute(
    runtime: Runtime,
    options: Arc<SessionOptions>,
    target: Target,
    telling: Telling,
    json: bool,
) -> Result<(), Failure> {
    if target.output.is_some() || !std::io::stdout().is_terminal() {
        return Err(Failure::usage("there is no query").hint(
            "write one, as in wasmill sql 'SELECT 1'; a prompt has no output but the terminal, and COPY (SELECT …) TO 'file' writes files from there",
        ));
    }
    let keeper = RunKeeper::default();
    let uploads = Uploads::default();
    let prompt = Prompt {
        telling: Telling {
            summary: false,
            ..telling
        },
        target,
        json,
        timing: false,
        keeper: keeper.clone(),
        uploads: uploads.clone(),
    };
    // An interrupt is for the statement that runs.
    supervised_until(
        asked_to_end(),
        runtime,
        &keeper,
        &uploads,
        prompt.converse(options),
    )
}

struct Prompt {
    target: Target,
    telling: Telling,
    json: bool,
    /// Whether the time of each statement is told.
    timing: bool,
    keeper: RunKeeper,
    uploads: Uploads,
}

struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Prompt {
    async fn converse(mut self, options: Arc<SessionOptions>) -> Result<(), Failure> {
        let session = Arc::new(Session::open(options, self.telling.quiet).await?);
        let mut editing = blocking(Editing::begin).await?;
        if !self.telling.quiet {
            say("SQL statements end with ; and \\? lists commands");
        }
        loop {
            editing.offer(session.names().await);
            let (back, typed) = blocking(move || {
                let typed = editing.read()?;
                Ok((editing, typed))
            })
            .await?;
            editing = back;
            let done = match typed {
                Typed::End => return Ok(()),
                Typed::Nothing => Ok(()),
                Typed::Command(Command::Quit) => return Ok(()),
                Typed::Command(Command::Help) => print(commands::HELP),
                Typed::Command(Command::Timing) => {
                    self.timing = !self.timing;
                    print(if self.timing {
                        "timing is on\n"
                    } else {
                        "timing is off\n"
                    })
                }
                Typed::Command(Command::Functions) => print(&session.functions()),
                Typed::Command(Command::Statement(text)) | Typed::Statements(text) => {
                    self.statements(&session, &text).await
                }
                Typed::Command(Command::Unknown(what)) => {
                    Err(Failure::usage(format!("there is no command {what}"))
                        .hint("\\? lists the commands"))
                }
            };
            if let Err(failure) = done {
                match failure.exit {
                    Exit::Interrupted => say("interrupted"),
                    _ => crate::cli::report(&failure, self.json),
                }
            }
        }
    }

    /// Carries out what was typed, up to the first failure.
    async fn statements(&self, session: &Arc<Session>, text: &str) -> Result<(), Failure> {
        let statements = script::statements(text, &session.context.state())?;
        for statement in statements {
            let started = Instant::now();
            self.statement(session, statement).await?;
            if self.timing {
                say(&format!("{:.3} s", started.elapsed().as_secs_f64()));
            }
        }
        Ok(())
    }

    /// Carries out one statement, which an interrupt ends.
    async fn statement(&self, session: &Arc<Session>, statement: Statement) -> Result<(), Failure> {
        let keeper = self.keeper.child();
        let work = perform(
            Arc::clone(session),
            statement,
            self.target.clone(),
            self.telling,
            keeper.clone(),
            self.uploads.clone(),
        );
        let mut task = tokio::spawn(work);
        // When the whole prompt ends, so does what it was doing.
        let _guard = AbortOnDrop(task.abort_handle());
        let result = tokio::select! {
            // Nothing is left to be said when the reader of a result has seen enough.
            result = &mut task => result.unwrap_or_else(|e| Err(internal(e))).map(|_| ()),
            _ = tokio::signal::ctrl_c() => {
                keeper.cancel().cancel();
                task.abort();
                let _ = tokio::time::timeout(TO_STOP, task).await;
                Err(Failure::stopped(Exit::Interrupted))
            }
        };
        if result.is_err() {
            // What the statement had begun is over before the next is typed.
            blocking(move || Ok(keeper.finish(TO_STOP))).await?;
            session.bar.clear();
        }
        result
    }
}
