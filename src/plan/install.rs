//! Functions and rules of a session.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::{FunctionRegistry, SessionState, SessionStateBuilder};
use datafusion::logical_expr::ScalarUDF;
use datafusion::optimizer::OptimizerRule;
use datafusion::prelude::SessionContext;

use super::admit::AdmitPools;
use super::function::WasmFunction;
use super::options::{SqlSettings, UdfOptions};
use super::split::{FuseCalls, PruneCalls, SplitCalls};
use super::{query_planner, to_datafusion};
use crate::Module;

type Rule = Arc<dyn OptimizerRule + Send + Sync>;

/// Makes a session plan calls of UDFs into pool stages: its optimizer rules, its query planner and its
/// settings `wasmill.…`. Doing it again changes nothing.
///
/// A query planner that the session has is replaced. One that plans nodes of its own is combined by hand:
/// it takes [`PoolStagePlanner`](super::PoolStagePlanner) among its extension planners, and is set after
/// this.
pub fn install(context: &SessionContext) {
    let state_ref = context.state_ref();
    let mut state = state_ref.write();
    if !is_installed(&state) {
        *state = prepared(state.clone());
    }
}

/// A session's state that plans calls of UDFs into pool stages, as [`install`] makes it.
pub fn prepared(state: SessionState) -> SessionState {
    if is_installed(&state) {
        return state;
    }
    let id = state.session_id().to_owned();
    let rules = with_own_rules(state.optimizers());
    let mut physical = state.physical_optimizers().to_vec();
    physical.push(Arc::new(AdmitPools));
    let mut prepared = SessionStateBuilder::new_from_existing(state)
        .with_session_id(id)
        .with_optimizer_rules(rules)
        .with_physical_optimizer_rules(physical)
        .with_query_planner(query_planner())
        .build();
    let options = prepared.config_mut().options_mut();
    // The order of a subquery is one that a sequence reads. Sorts that nothing needs go later.
    options.sql_parser.enable_subquery_sort_elimination = false;
    if options.extensions.get::<SqlSettings>().is_none() {
        options.extensions.insert(SqlSettings::default());
    }
    prepared
}

fn is_installed(state: &SessionState) -> bool {
    let own = SplitCalls.name().to_owned();
    state.optimizers().iter().any(|rule| rule.name() == own)
}

/// Splitting comes first, so that nothing merges or moves calls before; and again when subqueries have
/// become joins, before filters move. Unread calls go before the columns that only they read.
fn with_own_rules(rules: &[Rule]) -> Vec<Rule> {
    let mut all: Vec<Rule> = vec![Arc::new(SplitCalls)];
    for rule in rules {
        match rule.name() {
            "push_down_limit" => all.push(Arc::new(SplitCalls)),
            "optimize_projections" => {
                all.push(Arc::new(PruneCalls));
                all.push(Arc::new(FuseCalls));
            }
            _ => {}
        }
        all.push(Arc::clone(rule));
    }
    all
}

/// Registers every UDF of a module as a scalar function of the session, and prepares the session as
/// [`install`] does. Gives back the names.
///
/// A function has its own name, also where DataFusion has a scalar function of that name, which is hidden
/// then; and `MODULE.NAME`. Where an aggregate or window function has the name, it has only the second.
///
/// # Errors
/// When the session's settings ask for more than `options` allow.
///
/// ```no_run
/// use datafusion::prelude::SessionContext;
/// use wasmill::plan::{UdfOptions, register};
/// use wasmill::{Engine, EngineConfig, Module};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let engine = Engine::new(&EngineConfig::default())?;
/// let module = Module::from_file(&engine, "target/udfs/math.wasm")?;
/// let context = SessionContext::new();
/// register(&context, &module, UdfOptions::default())?;
/// let rows = context.sql("SELECT gcd(12, 18)").await?.collect().await?;
/// # Ok(())
/// # }
/// ```
pub fn register(
    context: &SessionContext,
    module: &Module,
    options: UdfOptions,
) -> Result<Vec<String>> {
    install(context);
    let options = Arc::new(options);
    let mut registered = Vec::new();
    for udf in module.manifest().names() {
        let full = format!("{}.{udf}", module.name());
        let state = context.state();
        let is_free = state.udaf(udf).is_err() && state.udwf(udf).is_err();
        if state.udf(udf).is_ok_and(|f| WasmFunction::of(&f).is_none()) {
            tracing::info!(
                "`{udf}` is that of the module {} from now on",
                module.name()
            );
        }
        // Two functions, not one with an alias: either name may come to mean another function.
        let short = is_free.then(|| udf.to_owned());
        for name in short.iter().chain([&full]) {
            let function = function(module, udf, name, &options, &state)?;
            context.state_ref().write().register_udf(function)?;
        }
        registered.push(short.unwrap_or(full));
    }
    Ok(registered)
}

/// Registers one UDF of a module under a name of its own, for example twice with other init arguments.
///
/// # Errors
/// When the module has no such UDF, or the session's settings ask for more than `options` allow.
pub fn register_as(
    context: &SessionContext,
    name: &str,
    module: &Module,
    udf: &str,
    options: UdfOptions,
) -> Result<()> {
    install(context);
    let state = context.state();
    let function = function(module, udf, name, &Arc::new(options), &state)?;
    context.state_ref().write().register_udf(function)?;
    Ok(())
}

/// A UDF of a session, for people.
#[cfg(feature = "cli")]
pub(crate) struct SqlFunction {
    /// Its name and what its overloads take.
    pub(crate) takes: String,
    /// What it does.
    pub(crate) doc: String,
}

/// The UDFs of a session by name.
#[cfg(feature = "cli")]
pub(crate) fn functions(state: &SessionState) -> Vec<SqlFunction> {
    let mut functions: Vec<SqlFunction> = state
        .scalar_functions()
        .iter()
        .filter_map(|(name, function)| {
            let udf = WasmFunction::of(function)?;
            // Full names are told where the short one means another function.
            let (_, short) = name.split_once('.').unwrap_or_default();
            let short = state.scalar_functions().get(short);
            if short
                .and_then(|f| WasmFunction::of(f))
                .is_some_and(|s| s.is_other_name_of(udf))
            {
                return None;
            }
            let doc = function.documentation().map(|d| d.description.clone());
            Some(SqlFunction {
                takes: udf.takes(name),
                doc: doc.unwrap_or_default(),
            })
        })
        .collect();
    functions.sort_by(|a, b| a.takes.cmp(&b.takes));
    functions
}

/// A function as DataFusion knows it.
pub(super) fn as_udf(function: WasmFunction) -> ScalarUDF {
    ScalarUDF::from(function)
}

fn function(
    module: &Module,
    udf: &str,
    name: &str,
    options: &Arc<UdfOptions>,
    state: &SessionState,
) -> Result<Arc<ScalarUDF>> {
    let function = WasmFunction::new(module, udf, name, options).map_err(to_datafusion)?;
    let function = function.under(state.config_options())?.unwrap_or(function);
    Ok(Arc::new(as_udf(function)))
}
