//! The real binary and the planner, from the outside.

#![cfg(feature = "cli")]

mod cli;
mod cli_arrow_files;
mod cli_bench;
mod cli_check;
mod cli_errors;
mod cli_formats;
mod cli_inspect;
mod cli_odd_input;
mod cli_outputs;
mod cli_pools;
mod cli_row_errors;
mod cli_run;
mod cli_sql;
mod cli_tools;
#[cfg(target_os = "linux")]
mod docs;
#[cfg(feature = "object-store")]
mod object_stores;
mod plan;
mod slt;
mod sql;
mod texts;
mod udf_bpe;
mod udf_fuzzy;
mod udf_geo;
mod udf_json;
mod udf_model;
mod udf_parse;
mod udf_stats;
mod udf_text;
