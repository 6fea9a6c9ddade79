//! `wasmill sql`: queries with UDFs over files, from the command line, a file, a pipe or a prompt.

mod copy;
mod explain;
mod files;
mod options;
mod perform;
mod prompt;
mod refusal;
mod script;
mod session;
mod show;

use std::io::{IsTerminal, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use datafusion::sql::parser::Statement;

pub(crate) use self::explain::{ExplainArgs, explain};
pub(crate) use self::options::SessionOptions;
use self::perform::{Outcome, Target, Telling, perform};
use self::session::Session;
use super::ending::{RunKeeper, blocking, supervised};
use super::failure::Failure;
use super::io::{STANDARD, Uploads};
use super::report::MetricsForm;
use super::runtime::runtime;
use super::tables::OutputOptions;

const EXAMPLES: &str = "\
Examples:
  A UDF over a table:
    wasmill sql -m math.wasm -t flights.parquet \\
      \"SELECT origin, avg(gcd(delay, distance)) FROM flights GROUP BY origin ORDER BY 2 DESC LIMIT 10\"

  Straight from a file, into another:
    wasmill sql -m text.wasm \"SELECT *, slugify(name) AS slug FROM 'airports.csv'\" -o slugs.parquet

  Two slots of a stateful UDF:
    wasmill sql -m tokenize.wasm --init Tokenizer=@vocabulary.json --slots 2 -t texts.arrow \\
      \"SELECT encode(body) FROM texts\"

  Statements of a file, with a function that one of them creates:
    CREATE FUNCTION slug() LANGUAGE WASM AS 'text.wasm#slugify';
    COPY (SELECT slug(name) AS slug FROM 'airports.csv') TO 'slugs.csv';

  A prompt:
    wasmill sql -m math.wasm -t flights.parquet

An output file appears when it is complete, or not at all. Without ORDER BY rows come in any order.";

/// Runs SQL with UDFs over files
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SqlArgs {
    /// The query, or several statements separated by ; [default: a prompt on a terminal, else from the standard input]
    query: Option<String>,

    /// File with the statements, or - for the standard input
    #[arg(short, long, value_name = "FILE", conflicts_with = "query")]
    file: Option<PathBuf>,

    #[command(flatten)]
    session: SessionOptions,

    #[command(flatten)]
    pub(crate) writing: OutputOptions,

    /// Report what the pools did: text to stderr, json or prometheus to stdout (stderr where the rows go to stdout)
    #[arg(long, value_enum, value_name = "FORM")]
    metrics: Option<MetricsForm>,

    /// No progress bar, no summary
    #[arg(short, long)]
    quiet: bool,
}

/// Where statements come from.
pub(super) enum Origin {
    Text(String),
    Stdin,
    File(PathBuf),
    Prompt,
}

impl Origin {
    fn of(query: Option<String>, file: Option<PathBuf>) -> Self {
        match (query, file) {
            (Some(text), _) => Origin::Text(text),
            (None, Some(path)) if path == Path::new(STANDARD) => Origin::Stdin,
            (None, Some(path)) => Origin::File(path),
            (None, None) if std::io::stdin().is_terminal() => Origin::Prompt,
            (None, None) => Origin::Stdin,
        }
    }

    /// The text; none for a prompt.
    fn read(self) -> Result<Option<String>, Failure> {
        let mut text = String::new();
        match self {
            Origin::Prompt => return Ok(None),
            Origin::Text(query) => text = query,
            Origin::Stdin => {
                std::io::stdin().read_to_string(&mut text).map_err(|e| {
                    Failure::io(format!(
                        "cannot read statements from the standard input: {e}"
                    ))
                })?;
            }
            Origin::File(path) => {
                text = std::fs::read_to_string(&path).map_err(|e| {
                    Failure::io(format!(
                        "cannot read statements from {}: {e}",
                        path.display()
                    ))
                })?;
            }
        }
        Ok(Some(text))
    }
}

pub(crate) fn execute(args: SqlArgs, json: bool) -> Result<(), Failure> {
    let runtime = runtime(args.session.threads)?;
    let origin = Origin::of(args.query, args.file);
    let target = Target {
        encoding: args.writing.encoding()?,
        output: args.writing.file().map(Path::to_owned),
        plain_plans: args.writing.format.is_none() && args.writing.file().is_none(),
    };
    let telling = Telling {
        metrics: args.metrics,
        summary: !args.quiet,
        quiet: args.quiet,
    };
    let options = Arc::new(args.session);
    if matches!(origin, Origin::Prompt) {
        return prompt::execute(runtime, options, target, telling, json);
    }
    let keeper = RunKeeper::default();
    let uploads = Uploads::default();
    let work = run(
        origin,
        options,
        target,
        telling,
        keeper.clone(),
        uploads.clone(),
    );
    supervised(runtime, &keeper, &uploads, work)
}

async fn run(
    origin: Origin,
    options: Arc<SessionOptions>,
    target: Target,
    telling: Telling,
    keeper: RunKeeper,
    uploads: Uploads,
) -> Result<(), Failure> {
    check_stdin(&origin, &options)?;
    let text = blocking(move || origin.read()).await?.unwrap_or_default();
    let session = Arc::new(Session::open(options, telling.quiet).await?);
    let statements: Vec<Statement> = script::statements(&text, &session.context.state())?.into();
    check_target(&statements, &target)?;
    let count = statements.len();
    for (at, statement) in statements.into_iter().enumerate() {
        let (session, target) = (Arc::clone(&session), target.clone());
        let done = perform(
            session,
            statement,
            target,
            telling,
            keeper.clone(),
            uploads.clone(),
        );
        match Box::pin(done).await {
            Ok(Outcome::Done) => {}
            Ok(Outcome::Closed) => return Ok(()),
            Err(failure) if count > 1 && !failure.exit.is_signal() => {
                let number = at.saturating_add(1);
                let message = format!("statement {number} of {count}: {}", failure.message);
                return Err(Failure { message, ..failure });
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok(())
}

/// The standard input cannot have both statements and rows.
fn check_stdin(origin: &Origin, options: &SessionOptions) -> Result<(), Failure> {
    match origin {
        Origin::Stdin if options.reads_stdin() => Err(Failure::usage(
            "the standard input is to have both the statements and a table",
        )
        .hint("name the query on the command line, or its file with -f FILE")),
        _ => Ok(()),
    }
}

/// Refuses results for which there is no place, before anything is done.
fn check_target(statements: &[Statement], target: &Target) -> Result<(), Failure> {
    if statements.is_empty() {
        return Err(
            Failure::usage("there is no statement").hint("write one, as in wasmill sql 'SELECT 1'")
        );
    }
    let queries = statements.iter().filter(|s| script::gives_rows(s)).count();
    match (&target.output, queries) {
        (Some(_), 1) => Ok(()),
        (Some(path), 0) => Err(Failure::usage(format!(
            "no statement gives rows that could be written to {}",
            path.display()
        ))
        .hint("leave -o out; COPY says itself where its rows go")),
        (Some(path), queries) => Err(Failure::usage(format!(
            "{queries} statements give rows, and {} can have those of one",
            path.display()
        ))
        .hint("write each with COPY (SELECT …) TO 'file'")),
        (None, queries) if queries > 1 && target.encoding.format.is_binary() => {
            Err(Failure::usage(format!(
                "{queries} statements give rows, and the standard output can have those of one as {}",
                target.encoding.format.name()
            ))
            .hint("write each with COPY (SELECT …) TO 'file'"))
        }
        (None, _) => Ok(()),
    }
}
