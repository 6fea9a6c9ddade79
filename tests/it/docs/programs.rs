//! The examples, which are run by the test of `docs/embedding.md`: in a process of their own, that of one
//! test of this program.

#[path = "../../../examples/datafusion.rs"]
mod datafusion;
#[path = "../../../examples/embed.rs"]
mod embed;
#[path = "../../../examples/plan.rs"]
mod plan;

/// What stands before the output of an example.
pub const BEGIN: &str = "the example begins";
/// What stands after it.
pub const END: &str = "the example ends";

#[allow(clippy::print_stdout, reason = "the output is what is tested")]
fn show<E: std::fmt::Debug>(run: impl FnOnce() -> Result<(), E>) {
    println!("{BEGIN}");
    run().expect("the example works");
    println!("{END}");
}

#[test]
#[ignore = "run in a folder of its own by the test of docs/embedding.md"]
fn datafusion_runs() {
    show(datafusion::main);
}

#[test]
#[ignore = "run in a folder of its own by the test of docs/embedding.md"]
fn embed_runs() {
    show(embed::main);
}

#[test]
#[ignore = "run in a folder of its own by the test of docs/embedding.md"]
fn plan_runs() {
    show(plan::main);
}
