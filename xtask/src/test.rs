//! `cargo xtask test`: everything that CI tests, in order, with a table of steps and times.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::failure::{Failure, Result};
use crate::table::{Align, Table};
use crate::workspace::Workspace;
use crate::{artefacts, demo, licences, other_languages, process, udfs};

pub const HELP: &str = "\
Run everything that CI tests; stop at the first step that fails.

Usage: cargo xtask test [OPTIONS]

Options:
      --only STEP,…  Run these steps only (may be repeated)
      --skip STEP,…  Leave these steps out (may be repeated)
      --list         Print the steps
  -h, --help         Print this text

Steps run in a fixed order, however they are named. `tests` and `demo` build the modules first.
The tests run with cargo-nextest where it is installed, else with `cargo test`.
";

struct Step {
    name: &'static str,
    what: &'static str,
    run: fn(&Workspace, &Plan) -> Result<()>,
}

/// What the whole tool is built with here, so that one build serves all steps.
const FEATURES: [&str; 2] = ["--features", "wasmill/object-store"];

/// Cheap checks first, then what compiles.
const STEPS: [Step; 12] = [
    Step {
        name: "format",
        what: "rustfmt has nothing to change",
        run: |w, _| format(w),
    },
    Step {
        name: "files",
        what: "no build product in the repository",
        run: |w, _| artefacts::check(w),
    },
    Step {
        name: "licences",
        what: "every dependency under a licence of the list",
        run: |w, _| licences::check(w),
    },
    Step {
        name: "udfs",
        what: "the example UDFs and test guests build",
        run: |w, _| modules(w),
    },
    Step {
        name: "c-header",
        what: "the tests of the C header pass",
        run: |w, _| other_languages::test_header(w),
    },
    Step {
        name: "clippy",
        what: "no warnings in the workspace",
        run: |w, _| clippy(w),
    },
    Step {
        name: "clippy-core",
        what: "no warnings in the library alone, without default features",
        run: |w, _| clippy_core(w),
    },
    Step {
        name: "clippy-guests",
        what: "no warnings in what only the Wasm target sees",
        run: |w, _| udfs::clippy(w),
    },
    Step {
        name: "tests",
        what: "all tests",
        run: |w, _| tests(w),
    },
    Step {
        name: "doc-tests",
        what: "the examples in the documentation",
        run: |w, _| doc_tests(w),
    },
    Step {
        name: "docs",
        what: "the documentation builds without warnings",
        run: |w, _| docs(w),
    },
    Step {
        name: "demo",
        what: "`cargo xtask demo` runs",
        run: |w, plan| demo::show(w, plan.tool()),
    },
];

pub fn execute(workspace: &Workspace, options: &[String]) -> Result<()> {
    let plan = Plan::parse(options)?;
    if plan.list {
        let mut table = Table::new([("step", Align::Left), ("says that", Align::Left)]);
        for step in &STEPS {
            table.row([step.name, step.what]);
        }
        print!("{table}");
        return Ok(());
    }

    let mut table = Table::new([
        ("step", Align::Left),
        ("result", Align::Left),
        ("time", Align::Right),
    ]);
    let mut failure = None;
    let start = Instant::now();
    for step in STEPS.iter().filter(|step| plan.selected(step.name)) {
        if failure.is_some() {
            table.row([step.name, "not run"]);
            continue;
        }
        eprintln!("\n── {}: {}", step.name, step.what);
        let begin = Instant::now();
        let result = (step.run)(workspace, &plan);
        let outcome = if result.is_ok() { "ok" } else { "FAILED" };
        table.row([step.name, outcome, &time(begin.elapsed())]);
        failure = result.err().map(|error| (step.name, error));
    }
    let outcome = if failure.is_none() { "ok" } else { "FAILED" };
    table.row(["total", outcome, &time(start.elapsed())]);
    println!("\n{table}");
    match failure {
        None => Ok(()),
        Some((step, error)) => Err(Failure::Failed(format!(
            "step {step}: {error}\n`cargo xtask test --only {step}` runs it alone"
        ))),
    }
}

/// Which steps run.
#[derive(Default, Debug)]
struct Plan {
    only: Vec<String>,
    skip: Vec<String>,
    list: bool,
}

impl Plan {
    fn parse(options: &[String]) -> Result<Plan> {
        let mut plan = Plan::default();
        let mut options = options.iter();
        while let Some(option) = options.next() {
            let (name, attached) = match option.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (option.as_str(), None),
            };
            let list = match name {
                "--only" => &mut plan.only,
                "--skip" => &mut plan.skip,
                "--list" if attached.is_none() => {
                    plan.list = true;
                    continue;
                }
                _ => {
                    return Err(Failure::Usage(format!(
                        "test: there is no option '{option}'"
                    )));
                }
            };
            let value = attached
                .or_else(|| options.next().cloned())
                .unwrap_or_default();
            for step in value.split(',') {
                if !STEPS.iter().any(|known| known.name == step) {
                    let known: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
                    return Err(Failure::Usage(format!(
                        "test: {name}: there is no step '{step}'; the steps are {}",
                        known.join(", ")
                    )));
                }
                list.push(step.to_owned());
            }
        }
        Ok(plan)
    }

    fn selected(&self, step: &str) -> bool {
        let named = |list: &[String], step: &str| list.iter().any(|name| name == step);
        let needed = step == "udfs" && (named(&self.only, "tests") || named(&self.only, "demo"));
        let wanted = self.only.is_empty() || named(&self.only, step) || needed;
        wanted && !named(&self.skip, step)
    }

    /// The tests have built the tool; without them the demo builds it.
    fn tool(&self) -> demo::Tool {
        if self.selected("tests") {
            demo::Tool::Built
        } else {
            demo::Tool::Build
        }
    }
}

fn format(workspace: &Workspace) -> Result<()> {
    process::run(workspace.cargo().args(["fmt", "--all", "--check"]))
}

fn modules(workspace: &Workspace) -> Result<()> {
    print!("{}", udfs::build(workspace, false)?);
    Ok(())
}

fn clippy(workspace: &Workspace) -> Result<()> {
    let mut cargo = workspace.cargo();
    cargo.args(["clippy", "--workspace", "--all-targets"]);
    process::run(cargo.args(FEATURES).args(["--", "-D", "warnings"]))
}

/// The library with its unit tests and benchmarks, without DataFusion and the command line.
fn clippy_core(workspace: &Workspace) -> Result<()> {
    let mut cargo = workspace.cargo();
    cargo.args([
        "clippy",
        "-p",
        "wasmill",
        "--no-default-features",
        "--lib",
        "--benches",
    ]);
    process::run(cargo.args(["--", "-D", "warnings"]))
}

fn tests(workspace: &Workspace) -> Result<()> {
    let mut cargo = workspace.cargo();
    if process::succeeds(workspace.cargo().args(["nextest", "--version"])) {
        cargo.args(["nextest", "run", "--workspace"]);
    } else {
        // Library, binaries and integration tests; examples in the documentation have their step.
        cargo.args(["test", "--workspace", "--tests"]);
    }
    process::run(snapshots_as_they_are(cargo.args(FEATURES)))
}

fn doc_tests(workspace: &Workspace) -> Result<()> {
    let mut cargo = workspace.cargo();
    process::run(cargo.args(["test", "--workspace", "--doc"]).args(FEATURES))
}

fn docs(workspace: &Workspace) -> Result<()> {
    let mut cargo = workspace.cargo();
    process::run(
        cargo
            .args(["doc", "--workspace", "--no-deps"])
            .args(FEATURES)
            .env("RUSTDOCFLAGS", "-D warnings"),
    )
}

/// A snapshot that differs fails its test; none is written.
fn snapshots_as_they_are(command: &mut Command) -> &mut Command {
    command.env("INSTA_UPDATE", "no")
}

/// `7.3 s`, `2 min 05 s`.
fn time(elapsed: Duration) -> String {
    let seconds = elapsed.as_secs();
    if seconds < 60 {
        format!("{:.1} s", elapsed.as_secs_f64())
    } else {
        format!("{} min {:02} s", seconds / 60, seconds % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(options: &[&str]) -> Result<Plan> {
        Plan::parse(
            &options
                .iter()
                .map(|&option| option.to_owned())
                .collect::<Vec<_>>(),
        )
    }

    fn selected(options: &[&str]) -> Vec<&'static str> {
        let plan = plan(options).unwrap();
        STEPS
            .iter()
            .map(|step| step.name)
            .filter(|step| plan.selected(step))
            .collect()
    }

    #[test]
    fn without_options_every_step_runs() {
        assert_eq!(selected(&[]).len(), STEPS.len());
    }

    #[test]
    fn steps_can_be_chosen_and_left_out() {
        assert_eq!(selected(&["--only", "docs"]), ["docs"]);
        assert_eq!(
            selected(&["--only=docs,format", "--only", "clippy"]),
            ["format", "clippy", "docs"]
        );
        assert_eq!(
            selected(&["--only", "docs,format", "--skip", "format"]),
            ["docs"]
        );
        let left = selected(&["--skip", "demo"]);
        assert!(left.len() == STEPS.len() - 1 && !left.contains(&"demo"));
    }

    #[test]
    fn tests_and_demo_build_their_modules_first() {
        assert_eq!(selected(&["--only", "tests"]), ["udfs", "tests"]);
        assert_eq!(selected(&["--only", "demo"]), ["udfs", "demo"]);
        assert_eq!(selected(&["--only", "tests", "--skip", "udfs"]), ["tests"]);
    }

    #[test]
    fn wrong_options_are_usage_errors_that_name_the_steps() {
        for options in [
            &["--only"][..],
            &["--only", "nothing"],
            &["--fast"],
            &["--list=x"],
            &["tests"],
        ] {
            assert_eq!(plan(options).unwrap_err().exit_code(), 2, "{options:?}");
        }
        assert!(
            plan(&["--only", "x"])
                .unwrap_err()
                .to_string()
                .contains("clippy-core")
        );
    }

    #[test]
    fn times_are_short() {
        assert_eq!(time(Duration::from_millis(7349)), "7.3 s");
        assert_eq!(time(Duration::from_secs(125)), "2 min 05 s");
    }
}
