//! `wasmill inspect`: what a module is, without running it.

use std::fmt::Write;
use std::path::PathBuf;

use clap::Args;
use indicatif::BinaryBytes;
use serde::Serialize;

use super::failure::Failure;
use super::{json_text, print};
use crate::{
    Function, ModuleInfo, ModuleLimits, NullHandling, ParameterType, ResultType, State, StateKind,
    Volatility,
};

const EXAMPLES: &str = "\
Examples:
  wasmill inspect math.wasm
  wasmill inspect math.wasm --json | jq '.manifest.functions[].name'

Nothing of the module is run or compiled.";

/// Shows what a module is: its UDFs, their types and state, imports, sizes
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct InspectArgs {
    /// The module, a .wasm file
    module: PathBuf,
}

#[derive(Serialize)]
struct Inspected<'a> {
    schema_version: u32,
    #[serde(flatten)]
    info: &'a ModuleInfo,
}

pub(crate) fn execute(args: &InspectArgs, json: bool) -> Result<(), Failure> {
    let info = ModuleInfo::from_file(&args.module, &ModuleLimits::default())?;
    let text = if json {
        let inspected = Inspected {
            schema_version: 1,
            info: &info,
        };
        json_text(&inspected)?
    } else {
        describe(&info)
    };
    print(&format!("{}\n", text.trim_end()))
}

fn describe(info: &ModuleInfo) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "{name:<10}{value}");
    };
    line("module", info.name.clone());
    line("digest", format!("sha256:{}", info.digest));
    line("abi", info.abi.to_string());
    line(
        "size",
        format!(
            "{} (code {}, data {}, custom {})",
            BinaryBytes(info.bytes),
            BinaryBytes(info.code_bytes),
            BinaryBytes(info.data_bytes),
            BinaryBytes(info.custom_bytes)
        ),
    );
    let most = info.memory.maximum_bytes.map_or_else(
        || "no maximum of its own".to_owned(),
        |m| format!("at most {}", BinaryBytes(m)),
    );
    line(
        "memory",
        format!(
            "{} at the start, {most}",
            BinaryBytes(info.memory.initial_bytes)
        ),
    );
    line(
        "imports",
        if info.imports.is_empty() {
            "none".to_owned()
        } else {
            info.imports.join(", ")
        },
    );
    line(
        "debug",
        if info.has_debug_lines {
            "lines of source in backtraces"
        } else {
            "names only in backtraces"
        }
        .to_owned(),
    );
    for state in info.manifest.states() {
        let _ = writeln!(text, "\n{}", describe_state(state));
    }
    for function in info.manifest.functions() {
        let _ = writeln!(text, "\n{}", describe_function(function));
    }
    text
}

fn describe_state(state: &State) -> String {
    let kind = match state.kind {
        StateKind::Resource => "resource: rows are independent of each other",
        StateKind::Sequence => "sequence: rows depend on those before them; one slot, input order",
    };
    let mut text = format!("state {}\n    {kind}\n", state.name);
    let properties = state
        .init_args
        .get("properties")
        .and_then(serde_json::Value::as_object);
    let required: Vec<&str> = state
        .init_args
        .get("required")
        .and_then(serde_json::Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|v| v.as_str())
        .collect();
    for (name, schema) in properties.into_iter().flatten() {
        let word = |key: &str| schema.get(key).and_then(serde_json::Value::as_str);
        let default = schema
            .get("default")
            .map(|d| format!(", default {d}"))
            .unwrap_or_default();
        let need = if required.contains(&name.as_str()) {
            ", required"
        } else {
            ""
        };
        let choices = schema
            .get("enum")
            .and_then(serde_json::Value::as_array)
            .map(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>());
        let kind = match choices {
            Some(choices) => format!("one of {}", choices.join(", ")),
            None => word("type").unwrap_or("any").to_owned(),
        };
        let _ = writeln!(text, "    init {name}: {kind}{need}{default}");
        for line in word("description").unwrap_or_default().lines() {
            let _ = writeln!(text, "        {line}");
        }
    }
    text.trim_end().to_owned()
}

fn describe_function(function: &Function) -> String {
    let parameters: Vec<String> = function
        .parameters
        .iter()
        .map(|p| match &p.accepts {
            ParameterType::Exact(field) => format!(
                "{}: {}{}",
                p.name,
                field.data_type(),
                null_mark(field.is_nullable())
            ),
            ParameterType::Any => format!("{}: any", p.name),
        })
        .collect();
    let result = match &function.result {
        ResultType::Exact(field) => {
            format!("{}{}", field.data_type(), null_mark(field.is_nullable()))
        }
        ResultType::SameAs(n) => format!(
            "the type of {}",
            function
                .parameters
                .get(*n)
                .map_or("an argument", |p| p.name.as_str())
        ),
        ResultType::Bound => "decided by the arguments".to_owned(),
    };
    let volatility = match function.volatility {
        Volatility::Immutable => "immutable",
        Volatility::Stable => "stable",
        Volatility::Volatile => "volatile",
    };
    let nulls = match function.nulls {
        NullHandling::Propagate => "a null argument gives null",
        NullHandling::Handle => "sees nulls",
    };
    let mut traits = vec![volatility.to_owned(), nulls.to_owned()];
    traits.extend(function.state.as_ref().map(|s| format!("state {}", s.name)));
    traits.extend(function.batch_size.map(|n| format!("{n} rows per call")));
    let mut text = format!(
        "{}({}) -> {result}\n    {}\n",
        function.name,
        parameters.join(", "),
        traits.join("; ")
    );
    for line in function.doc.trim().lines() {
        let _ = writeln!(text, "    {}", line.trim_end());
    }
    text.trim_end().to_owned()
}

/// `?` as in the documentation: the column may hold nulls.
fn null_mark(nullable: bool) -> &'static str {
    if nullable { "?" } else { "" }
}
