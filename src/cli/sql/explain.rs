//! `wasmill explain`: how a query is carried out, with its pool stages.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use datafusion::common::format::{ExplainFormat, ExplainStatementOptions};
use datafusion::physical_plan::collect;
use datafusion::sql::parser::{ExplainStatement, Statement};
use serde::Serialize;

use super::perform::{Outcome, Target, Telling, finish, perform, plan_text, planned, plans};
use super::session::Session;
use super::{Origin, check_stdin, refusal, script};
use crate::cli::ending::{RunKeeper, blocking, supervised};
use crate::cli::failure::Failure;
use crate::cli::io::{Encoding, Format, Uploads};
use crate::cli::runtime::runtime;
use crate::cli::{json_text, print};

use super::SessionOptions;

const EXAMPLES: &str = "\
Examples:
  wasmill explain -m math.wasm -t flights.parquet \\
    \"SELECT gcd(delay, distance) FROM flights WHERE origin = 'JFK'\"

  With what each part did and took; the query runs, and its rows are dropped:
    wasmill explain --analyze -m math.wasm \"SELECT gcd(a, b) FROM 'in.csv'\"

A line `PoolStageExec` is a stage of UDFs: its pool, the calls with their arguments, the columns that
pass by. A condition after `where` says for which rows a call is made.";

/// Shows how a query with UDFs is carried out
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ExplainArgs {
    /// The query; statements before it, separated by ;, are carried out [default: from the standard input]
    query: Option<String>,

    /// File with the query, or - for the standard input
    #[arg(short, long, value_name = "FILE", conflicts_with = "query")]
    file: Option<PathBuf>,

    /// Run the query, and show what each part did
    #[arg(long)]
    analyze: bool,

    #[command(flatten)]
    session: SessionOptions,
}

pub(crate) fn explain(args: ExplainArgs, verbose: bool, json: bool) -> Result<(), Failure> {
    let runtime = runtime(args.session.threads)?;
    let keeper = RunKeeper::default();
    let origin = match Origin::of(args.query, args.file) {
        Origin::Prompt => {
            return Err(Failure::usage("there is no query")
                .hint("write one, as in wasmill explain 'SELECT 1'"));
        }
        origin => origin,
    };
    let options = ExplainStatementOptions {
        analyze: args.analyze,
        verbose,
        format: Some(ExplainFormat::Indent),
        analyze_level: None,
        analyze_categories: None,
        show_statistics: None,
    };
    let work = run(
        origin,
        Arc::new(args.session),
        options,
        json,
        keeper.clone(),
    );
    supervised(runtime, &keeper, &Uploads::default(), work)
}

#[derive(Serialize)]
struct Plan {
    plan_type: String,
    plan: String,
}

#[derive(Serialize)]
struct Plans {
    schema_version: u32,
    plans: Vec<Plan>,
}

async fn run(
    origin: Origin,
    session: Arc<SessionOptions>,
    options: ExplainStatementOptions,
    json: bool,
    keeper: RunKeeper,
) -> Result<(), Failure> {
    check_stdin(&origin, &session)?;
    let text = blocking(move || origin.read()).await?.unwrap_or_default();
    let session = Arc::new(Session::open(session, true).await?);
    let mut statements = script::statements(&text, &session.context.state())?;
    let Some(last) = statements.pop_back() else {
        return Err(Failure::usage("there is no query"));
    };
    if let Some(query) = statements.iter().find(|s| script::gives_rows(s)) {
        let query: String = query.to_string().chars().take(60).collect();
        return Err(Failure::usage(format!(
            "only the last statement is explained, and `{query}` before it is a query"
        ))
        .hint("leave all but one out"));
    }
    for statement in statements {
        prepare(&session, statement, &keeper).await?;
    }
    let (options, statement) = match last {
        // The query of an EXPLAIN, explained as was asked for here.
        Statement::Explain(explain) => (options, explain.statement),
        statement => (options, Box::new(statement)),
    };
    session.begin(&keeper);
    let explained = |error| refusal::explained(error, &session);
    let statement = Statement::Explain(ExplainStatement { options, statement });
    let (state, plan) = planned(&session, statement).await?.into_parts();
    let plan = state.create_physical_plan(&plan).await.map_err(explained)?;
    let batches = collect(plan, state.task_ctx()).await.map_err(explained)?;
    finish(&keeper).await?;
    if !json {
        return print(&plan_text(&batches));
    }
    let plans = plans(&batches).into_iter();
    let plans = Plans {
        schema_version: 1,
        plans: plans
            .map(|(plan_type, plan)| Plan { plan_type, plan })
            .collect(),
    };
    print(&format!("{}\n", json_text(&plans)?))
}

/// Carries out a statement before the query.
async fn prepare(
    session: &Arc<Session>,
    statement: Statement,
    keeper: &RunKeeper,
) -> Result<Outcome, Failure> {
    let target = Target {
        output: None,
        encoding: Encoding::of(Format::Table),
        plain_plans: true,
    };
    let telling = Telling {
        metrics: None,
        summary: false,
        quiet: true,
    };
    let (session, keeper) = (Arc::clone(session), keeper.clone());
    Box::pin(perform(
        session,
        statement,
        target,
        telling,
        keeper,
        Uploads::default(),
    ))
    .await
}
