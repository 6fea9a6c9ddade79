//! `cargo xtask demo`: a stateless and a stateful UDF over a real data set, from CSV to Parquet.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::{Failure, Result, io};
use crate::table::{Align, Table};
use crate::workspace::Workspace;
use crate::{csv, process, udfs};

pub const HELP: &str = "\
Build the tool and the example UDFs, and run them over data/airports.csv.

Usage: cargo xtask demo

Options:
  -h, --help  Print this text

Shows a stateless UDF (haversine: each airport's distance to New York JFK), a stateful one (encode:
the airports' names in word pieces of a vocabulary that each of two slots reads once), the metrics
of both runs, the first rows of the result, and where the files are: target/demo.
";

const ROWS_SHOWN: usize = 8;

/// Where the tool comes from.
pub enum Tool {
    Build,
    /// It was built a moment ago.
    Built,
}

pub fn execute(workspace: &Workspace, options: &[String]) -> Result<()> {
    if let Some(option) = options.first() {
        return Err(Failure::Usage(format!(
            "demo: there is no option '{option}'"
        )));
    }
    print!("{}", udfs::build(workspace, false)?);
    show(workspace, Tool::Build)
}

/// The demo proper; the modules have been built.
pub fn show(workspace: &Workspace, tool: Tool) -> Result<()> {
    let demo = Demo::prepare(workspace)?;
    if matches!(tool, Tool::Build) || !demo.tool.exists() {
        let mut cargo = workspace.cargo();
        process::run(cargo.args(["build", "-p", "wasmill", "--bin", "wasmill"]))?;
    }

    heading("A stateless UDF: kilometres from each airport to New York JFK");
    let distance = demo.file("distance.parquet");
    demo.run(
        "math",
        "haversine",
        Path::new("data/airports.csv"),
        &distance,
    )
    .args(["--arg", "lat1=lat", "--arg", "lon1=lon"])
    .args(["--arg", "lat2=lit:40.6413", "--arg", "lon2=lit:-73.7781"])
    .args(["--as", "km_to_jfk"])
    .finish()?;

    heading(
        "A stateful UDF: names as word pieces; the vocabulary is read once in each of two slots",
    );
    let tokens = demo.file("tokens.parquet");
    demo.run("tokenize", "encode", &distance, &tokens)
        .args(["--init", "@data/vocabulary.json", "--slots", "2"])
        .args(["--arg", "text=name", "--as", "tokens"])
        .finish()?;

    heading("And back: the word pieces of those tokens, as text");
    let pieces = demo.file("pieces.csv");
    demo.run("tokenize", "decode", &tokens, &pieces)
        .args(["--init", "@data/vocabulary.json"])
        .args(["--arg", "tokens=tokens", "--as", "pieces"])
        .args(["--select", "faa,name,km_to_jfk,pieces"])
        .finish()?;

    heading("The first rows");
    print!(
        "{}",
        first_rows(&fs::read_to_string(&pieces).map_err(io("read", &pieces))?)
    );

    heading("Where the output is");
    let mut table = Table::new([("file", Align::Left), ("bytes", Align::Right)]);
    for file in [&distance, &tokens, &pieces] {
        let bytes = fs::metadata(file).map_err(io("read", file))?.len();
        table.row([
            workspace.relative(file).display().to_string(),
            bytes.to_string(),
        ]);
    }
    print!("{table}");
    Ok(())
}

fn heading(text: &str) {
    println!("\n{text}\n");
}

struct Demo<'a> {
    workspace: &'a Workspace,
    tool: PathBuf,
    folder: PathBuf,
}

impl Demo<'_> {
    fn prepare(workspace: &Workspace) -> Result<Demo<'_>> {
        let folder = workspace.target.join("demo");
        fs::create_dir_all(&folder).map_err(io("make", &folder))?;
        let tool = format!("wasmill{}", std::env::consts::EXE_SUFFIX);
        Ok(Demo {
            workspace,
            tool: workspace.target.join("debug").join(tool),
            folder,
        })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// `wasmill run` of one UDF, paths as somebody in the root would type them.
    fn run(&self, module: &str, udf: &str, input: &Path, output: &Path) -> Run {
        let mut command = Command::new(&self.tool);
        command.current_dir(&self.workspace.root).arg("run");
        command.arg(
            self.workspace
                .relative(&self.workspace.udfs().join(format!("{module}.wasm"))),
        );
        command
            .args([udf, "-i"])
            .arg(self.workspace.relative(input));
        command.arg("-o").arg(self.workspace.relative(output));
        Run(command)
    }
}

struct Run(Command);

impl Run {
    fn args<const N: usize>(mut self, args: [&str; N]) -> Run {
        self.0.args(args);
        self
    }

    fn finish(mut self) -> Result<()> {
        process::run(self.0.args(["--metrics", "text"]))
    }
}

/// The first rows of a CSV file as a table, columns of numbers to the right.
fn first_rows(text: &str) -> Table {
    let mut records = csv::records(text, ROWS_SHOWN + 1).into_iter();
    let head = records.next().unwrap_or_default();
    let rows: Vec<Vec<String>> = records
        .map(|row| row.iter().map(|cell| shortened(cell)).collect())
        .collect();
    let is_number = |cell: &String| cell.parse::<f64>().is_ok();
    let columns = head.into_iter().enumerate().map(|(i, name)| {
        let numbers = !rows.is_empty() && rows.iter().all(|row| row.get(i).is_none_or(is_number));
        (name, if numbers { Align::Right } else { Align::Left })
    });
    let mut table = Table::new(columns);
    for row in rows {
        table.row(row);
    }
    table
}

/// Numbers with one decimal, long text cut, line ends and control characters as spaces.
fn shortened(cell: &str) -> String {
    const LONGEST: usize = 44;
    if cell.contains('.')
        && let Ok(number) = cell.parse::<f64>()
    {
        return format!("{number:.1}");
    }
    let mut text: String = cell
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(LONGEST + 1)
        .collect();
    if let Some((cut, _)) = text.char_indices().nth(LONGEST) {
        text.truncate(cut);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rows_are_a_table_with_numbers_to_the_right() {
        let text = "name,km\n\"Kent, \nOhio\",552.94\nErie,9.0\n";
        assert_eq!(
            first_rows(text).to_string(),
            "  name            km\n  ───────────  ─────\n  Kent,  Ohio  552.9\n  Erie           9.0\n"
        );
    }

    #[test]
    fn no_more_rows_than_fit_are_shown() {
        let text = "a\n".to_owned() + &"1\n".repeat(100);
        assert_eq!(
            first_rows(&text).to_string().lines().count(),
            2 + ROWS_SHOWN
        );
        assert_eq!(first_rows("").to_string().trim(), "");
    }

    #[test]
    fn long_cells_are_cut_between_characters() {
        assert_eq!(shortened(&"ü".repeat(44)), "ü".repeat(44));
        assert_eq!(shortened(&"ü".repeat(45)), "ü".repeat(44) + "…");
        assert_eq!(shortened("3.14159"), "3.1");
        assert_eq!(shortened("v1.2.3"), "v1.2.3");
        assert_eq!(shortened("a\u{1b}[1m"), "a [1m");
    }
}
