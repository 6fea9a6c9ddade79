//! DataFusion's own tests, with each column in a call of a UDF that gives back what it gets: the answers
//! are those without it.

use std::path::PathBuf;
use std::sync::Arc;

use datafusion::execution::FunctionRegistry;
use datafusion::prelude::SessionConfig;
use wasmill::plan::{UdfOptions, register};

use super::engine::{Report, run};
use super::everywhere::CallsEverywhere;
use crate::sql::session::{Session, load};

/// The release of DataFusion whose tests these are.
const FOLDER: &str = "datafusion-sqllogictest-55.2.0";

/// The tests of DataFusion: the folder that `WASMILL_DATAFUSION_SLT` names, or that of the crate in the
/// registry's sources, where `cargo xtask slt` puts it.
#[allow(clippy::print_stderr, reason = "a skipped test must be seen")]
fn file(name: &str) -> Option<PathBuf> {
    let folder = match std::env::var_os("WASMILL_DATAFUSION_SLT") {
        Some(folder) => Some(PathBuf::from(folder)),
        None => in_registry(),
    };
    let file = folder.map(|f| f.join(name)).filter(|f| f.is_file());
    if file.is_none() {
        eprintln!(
            "SKIPPED: no {name} of the crate {FOLDER}; fetch it with `cargo xtask slt`, or name the folder in WASMILL_DATAFUSION_SLT"
        );
    }
    file
}

fn in_registry() -> Option<PathBuf> {
    let cargo = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let cargo = cargo.or_else(|| Some(std::env::home_dir()?.join(".cargo")))?;
    let registries = std::fs::read_dir(cargo.join("registry").join("src")).ok()?;
    registries
        .filter_map(|entry| Some(entry.ok()?.path().join(FOLDER).join("test_files")))
        .find(|folder| folder.is_dir())
}

/// Runs a file without and with calls: what fails with them only is a fault of ours. Left out are plans,
/// which differ, and the records with one of the given parts, each with its reason.
async fn same_answers(name: &str, left_out: &[(&str, &str)]) {
    let Some(file) = file(name) else { return };
    let config = || SessionConfig::new().with_target_partitions(4);
    let explains = |sql: &str| sql.trim_start().to_ascii_uppercase().starts_with("EXPLAIN");
    let left_out = |sql: &str| explains(sql) || left_out.iter().any(|(part, _)| sql.contains(part));

    let plain = run(&file, &Session::empty(config()).context, left_out).await;
    let failed = plain.failed();
    assert!(failed.is_empty(), "{name} without calls:\n{failed}");

    let session = Session::empty(config());
    register(&session.context, &load("identity"), UdfOptions::default()).expect("identity");
    let identity = session.context.state().udf("identity").expect("identity");
    let rule = CallsEverywhere(identity);
    session.context.add_analyzer_rule(Arc::new(rule));
    let Report { records, .. } = plain;
    let called = run(&file, &session.context, left_out).await;
    let runs = session.runs();
    assert!(
        called.failures.is_empty(),
        "{name}: {} of {records} records, {runs} of them with calls\n{}",
        called.failures.len(),
        called.failed()
    );
    // Nothing is proved where nothing is called.
    assert!(runs * 4 > records, "{runs} of {records} records had calls");
}

macro_rules! files {
    ($($test:ident: $file:literal, $left_out:expr;)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                same_answers($file, &$left_out).await;
            }
        )*
    };
}

files! {
    case: "case.slt", [];
    dictionary: "dictionary.slt", [];
    binary_view: "binary_view.slt", [];
    structs: "struct.slt", [];
    timestamps: "datetime/timestamps.slt", [(
        "FROM t_europe WHERE column1 = '2024-01-31T16:00:01' AT TIME ZONE",
        "DataFusion compares a cast of the view's without its zone, and finds equal what is an hour apart; \
         with the same values in a table it answers as we do",
    )];
}
