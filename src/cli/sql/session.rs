//! A session with its modules and tables.

use std::path::Path;
use std::sync::Arc;

use datafusion::catalog::DynamicFileCatalog;
use datafusion::common::TableReference;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use serde_json::Value;

use super::files::FileTables;
use super::options::{InitOption, ModuleOption, NamedTable, SessionOptions, tables};
use crate::cli::ending::{RunKeeper, blocking};
use crate::cli::failure::Failure;
use crate::cli::guests::log_to_stderr;
use crate::cli::io::{self, ReadOptions};
use crate::cli::loading::{engine, load_as};
use crate::cli::options::init_args;
use crate::cli::say;
use crate::cli::suggest::existing;
use crate::cli::terminal::CurrentBar;
use crate::plan::{
    RowErrorPolicy, SqlFunction, UdfOptions, WasmFunctions, functions, prepared, register,
    register_as,
};
use crate::{Engine, Module, Policy};

/// A session of the command line.
pub(crate) struct Session {
    pub(super) context: SessionContext,
    /// The bar of the query that runs, above which guests' lines are written.
    pub(super) bar: CurrentBar,
    options: Arc<SessionOptions>,
}

impl Session {
    /// Loads the modules and opens the tables.
    pub(super) async fn open(options: Arc<SessionOptions>, quiet: bool) -> Result<Self, Failure> {
        options.guests.check()?;
        let tables = tables(&options.table)?;
        let inits = Inits::read(&options.init)?;
        let wanted = Arc::clone(&options);
        let (engine, modules) = blocking(move || {
            let engine = engine(wanted.debug_lines)?;
            let load =
                |module: &ModuleOption| load_as(&engine, module.name.as_deref(), &module.path);
            let modules = wanted
                .module
                .iter()
                .map(load)
                .collect::<Result<Vec<_>, _>>()?;
            Ok((engine, modules))
        })
        .await?;
        options.guests.check_wasi(&modules)?;
        inits.check(&modules)?;
        let bar = CurrentBar::default();
        let udf_options = udf_options(&options, &inits, &bar);
        let functions = function_factory(&engine, &options, &udf_options)?;
        let reading = ReadOptions {
            again: true,
            ..options.reading.read()
        };
        let context = context(&options, functions, reading.clone());
        register_modules(&context, &modules, &udf_options, &inits, quiet)?;
        for NamedTable { name, inputs } in tables {
            let input = io::open(&context.state(), &inputs, reading.clone()).await?;
            if options.reading.delimiter.is_none()
                && !quiet
                && let Some(hint) = io::other_delimiter(input.format, &input.table.schema())
            {
                say(&format!("note: {name}: {hint}"));
            }
            context.register_table(TableReference::bare(name), input.table)?;
        }
        Ok(Session {
            context,
            bar,
            options,
        })
    }

    /// Has the runs of the next statement kept by `keeper`, and ended when it says so.
    pub(super) fn begin(&self, keeper: &RunKeeper) {
        let state = self.context.state_ref();
        let mut state = state.write();
        let config = state.config_mut();
        let run_config = self.options.guests.pools.run_config(keeper.cancel());
        config.set_extension(Arc::new(run_config));
        config.set_extension(Arc::new(keeper.observer()));
    }

    /// The tables that have a name, as SQL writes them.
    pub(super) fn tables(&self) -> Vec<String> {
        let state = self.context.state();
        let names = &state.config_options().catalog;
        let schema = self
            .context
            .catalog(&names.default_catalog)
            .and_then(|catalog| catalog.schema(&names.default_schema));
        let mut tables = schema.map_or_else(Vec::new, |schema| schema.table_names());
        tables.sort();
        tables.iter().map(|name| identifier(name)).collect()
    }
}

impl Session {
    /// The UDFs, a line each: what they take, and what they do.
    pub(super) fn functions(&self) -> String {
        let functions = functions(&self.context.state());
        if functions.is_empty() {
            return "there are no UDFs; give a module with -m, or CREATE FUNCTION\n".to_owned();
        }
        let width = functions.iter().map(|f| f.takes.chars().count());
        let width = width.max().unwrap_or(0).min(60);
        let line = |f: &SqlFunction| {
            let doc = f.doc.lines().next().unwrap_or_default();
            let text = format!("{:<width$}  {doc}", f.takes);
            format!("{}\n", text.trim_end())
        };
        functions.iter().map(line).collect()
    }

    /// Names of functions of every kind.
    pub(super) fn function_names(&self) -> Vec<String> {
        let state = self.context.state();
        let scalar = state.scalar_functions().keys();
        let others = state.aggregate_functions().keys();
        let others = others.chain(state.window_functions().keys());
        scalar.chain(others).cloned().collect()
    }

    /// Names of tables, columns and functions.
    pub(super) async fn names(&self) -> Vec<String> {
        let mut names = self.tables();
        for table in names.clone() {
            let table = TableReference::parse_str(&table);
            if let Ok(provider) = self.context.table_provider(table).await {
                let schema = provider.schema();
                names.extend(schema.fields().iter().map(|field| identifier(field.name())));
            }
        }
        names.extend(self.function_names());
        names.sort();
        names.dedup();
        names
    }
}

/// A name as SQL reads it.
pub(super) fn identifier(name: &str) -> String {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let begins = |c: char| c.is_ascii_lowercase() || c == '_';
    match name.starts_with(begins) && name.chars().all(plain) {
        true => name.to_owned(),
        false => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}

fn context(
    options: &SessionOptions,
    functions: WasmFunctions,
    reading: ReadOptions,
) -> SessionContext {
    let mut config = SessionConfig::new()
        .with_information_schema(true)
        .with_create_default_catalog_and_schema(true);
    if let Some(threads) = options.threads {
        config = config.with_target_partitions(threads.get());
    }
    // Types as `run` has them: texts are no views unless a file says so.
    let all = config.options_mut();
    all.sql_parser.map_string_types_to_utf8view = false;
    all.execution.parquet.schema_force_view_types = false;
    all.execution.parquet.skip_metadata = false;
    let state = SessionStateBuilder::new()
        .with_config(config)
        .with_default_features()
        .with_function_factory(Some(Arc::new(functions)))
        .build();
    let files = Arc::new(FileTables::new(reading));
    let catalogs =
        DynamicFileCatalog::new(Arc::clone(state.catalog_list()), Arc::clone(&files) as _);
    let state = SessionStateBuilder::new_from_existing(state)
        .with_catalog_list(Arc::new(catalogs))
        .build();
    let context = SessionContext::new_with_state(prepared(state));
    files.serve(&context);
    context
}

/// The most that functions may do, which is what the command line says.
fn udf_options(options: &SessionOptions, inits: &Inits, bar: &CurrentBar) -> UdfOptions {
    let on_error = RowErrorPolicy {
        action: options.on_error.0.clone(),
        limit: options.max_errors,
    };
    let udf_options = UdfOptions {
        batch_size: options.guests.batch_size,
        unordered: options.guests.unordered,
        log: Some(log_to_stderr(bar)),
        ..UdfOptions::default()
    };
    let udf_options = options
        .guests
        .pools
        .apply_to_udfs(udf_options)
        .slots(options.guests.slots)
        .policy(options.guests.policy())
        .on_error(on_error);
    match inits.for_all() {
        Some(args) => udf_options.init_args(args.clone()),
        None => udf_options,
    }
}

/// `CREATE FUNCTION`, from the current folder, the folders of the modules, and those that are allowed.
fn function_factory(
    engine: &Engine,
    options: &SessionOptions,
    udf_options: &UdfOptions,
) -> Result<WasmFunctions, Failure> {
    // Grants are for the modules that the command line names, not for those that a query does.
    let policy: Policy = options.guests.limits();
    let mut functions = WasmFunctions::new(engine, udf_options.clone().policy(policy));
    let folders = options
        .module
        .iter()
        .filter_map(|module| module.path.parent());
    let own = std::iter::once(Path::new("."))
        .chain(folders.filter(|folder| *folder != Path::new("")))
        .chain(options.allow_modules.iter().map(AsRef::as_ref));
    for folder in own {
        functions = functions.allow_folder(folder).map_err(|e| {
            Failure::io(format!(
                "cannot load modules from {}: {e}",
                folder.display()
            ))
        })?;
    }
    Ok(functions)
}

fn register_modules(
    context: &SessionContext,
    modules: &[Module],
    options: &UdfOptions,
    inits: &Inits,
    quiet: bool,
) -> Result<(), Failure> {
    for (at, module) in modules.iter().enumerate() {
        let earlier = modules.get(..at).unwrap_or_default();
        if let Some(twin) = earlier.iter().find(|m| m.name() == module.name()) {
            return Err(
                Failure::usage(format!("two modules are called `{}`", twin.name()))
                    .hint("name one of them, as in -m NAME=MODULE"),
            );
        }
        let names = register(context, module, options.clone())?;
        for udf in module.manifest().names() {
            let full = format!("{}.{udf}", module.name());
            let is_bare = names.iter().any(|name| name == udf);
            if let Some(args) = inits.for_udf(module, udf) {
                let options = options.clone().init_args(args.clone());
                if is_bare {
                    register_as(context, udf, module, udf, options.clone())?;
                }
                register_as(context, &full, module, udf, options)?;
            }
            let hidden = earlier
                .iter()
                .find(|m| m.manifest().overloads(udf).next().is_some());
            if let Some(hidden) = hidden.filter(|_| is_bare && !quiet) {
                let (other, name) = (hidden.name(), module.name());
                say(&format!(
                    "note: {udf} is that of the module {name}; that of {other} is {other}.{udf}"
                ));
            }
        }
    }
    Ok(())
}

/// Init arguments, with the state or UDF that they are for.
struct Inits(Vec<(Option<String>, Value)>);

impl Inits {
    fn read(options: &[InitOption]) -> Result<Self, Failure> {
        let mut inits: Vec<(Option<String>, Value)> = Vec::new();
        for InitOption { name, text } in options {
            if inits.iter().any(|(other, _)| other == name) {
                let what = name.as_deref().unwrap_or("all states");
                return Err(Failure::usage(format!("--init is given twice for {what}"))
                    .hint("name the state or UDF, as in --init NAME=JSON"));
            }
            if let Some(args) = init_args(Some(text))? {
                inits.push((name.clone(), args));
            }
        }
        Ok(Inits(inits))
    }

    /// Those without a name.
    fn for_all(&self) -> Option<&Value> {
        self.0
            .iter()
            .find_map(|(name, args)| name.is_none().then_some(args))
    }

    /// Those that name a UDF or its state.
    fn for_udf(&self, module: &Module, udf: &str) -> Option<&Value> {
        let names = names(module, udf);
        let is_meant = |name: &Option<String>| name.as_ref().is_some_and(|n| names.contains(n));
        self.0
            .iter()
            .find_map(|(name, args)| is_meant(name).then_some(args))
    }

    /// Refuses names that nothing has, and arguments that nothing takes.
    fn check(&self, modules: &[Module]) -> Result<(), Failure> {
        let known: Vec<String> = modules
            .iter()
            .flat_map(|module| {
                let udfs = module.manifest().names().into_iter();
                udfs.flat_map(|udf| names(module, udf))
            })
            .collect();
        for name in self.0.iter().filter_map(|(name, _)| name.as_ref()) {
            if !known.contains(name) {
                let mut short: Vec<&str> = known
                    .iter()
                    .map(String::as_str)
                    .filter(|name| !name.contains('.'))
                    .collect();
                short.sort_unstable();
                short.dedup();
                return Err(Failure::usage(format!(
                    "--init {name}=… is for no state or UDF with a state of the modules"
                ))
                .hint(existing("states and UDFs with one", name, short)));
            }
        }
        if self.for_all().is_some() && known.is_empty() && !modules.is_empty() {
            return Err(Failure::usage(
                "--init is for UDFs with a state, and the modules have none",
            )
            .hint("leave it out"));
        }
        Ok(())
    }
}

/// The names by which the init arguments of a UDF may be given; none where it has no state.
fn names(module: &Module, udf: &str) -> Vec<String> {
    let states = module
        .manifest()
        .overloads(udf)
        .filter_map(|function| function.state.as_ref())
        .map(|state| state.name.clone());
    let mut names: Vec<String> = states.collect();
    if !names.is_empty() {
        names.insert(0, udf.to_owned());
    }
    let full: Vec<String> = names
        .iter()
        .map(|name| format!("{}.{name}", module.name()))
        .collect();
    names.into_iter().chain(full).collect()
}
