//! Our own files, `tests/slt/*.slt`.
//!
//! Each runs in a session with the guests `identity`, `math` and `probe`, and the table `t` of
//! [`Session::new`]. `WASMILL_SLT=update` writes the answers that came into the files: read what changed
//! before you believe it.

use std::path::{Path, PathBuf};

use sqllogictest::strict_column_validator;

use super::engine::{run, runner, same_lines, scratch, without_spaces_at_the_end};
use crate::sql::session::Session;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests")
        .join("slt")
}

async fn answers(name: &str) {
    let file = folder().join(name).with_extension("slt");
    let session = Session::new(4);
    if std::env::var_os("WASMILL_SLT").is_some_and(|v| v == "update") {
        let folder = scratch(&file);
        let mut runner = runner(&session.context, folder.path());
        let (lines, spaces) = (same_lines, without_spaces_at_the_end);
        let updated = runner.update_test_file(&file, " ", lines, spaces, strict_column_validator);
        return updated.await.expect("updated");
    }
    let report = run(&file, &session.context, |_| false).await;
    assert!(report.records > 0, "{name} has no records");
    assert!(report.failures.is_empty(), "{}", report.failed());
}

macro_rules! files {
    ($($name:ident),*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                answers(stringify!($name)).await;
            }
        )*

        #[test]
        fn every_file_has_a_test() {
            let files = std::fs::read_dir(folder()).expect("the folder");
            for file in files {
                let file = file.expect("an entry").path();
                if file.extension().is_none_or(|e| e != "slt") {
                    continue;
                }
                let name = file.file_stem().expect("a name").to_string_lossy();
                assert!([$(stringify!($name)),*].contains(&&*name), "{name}");
            }
        }
    };
}

files! { behaviour, clauses, conditions, failures, types }
