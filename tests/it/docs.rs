//! The documentation: every command in it is run, every message and option in it exists.
//!
//! A document is followed as a reader would, in a folder of its own that looks like this repository:
//!
//! - Commands are the lines after `$ ` in blocks of the kind `console`, in order, in one shell. What is
//!   shown below a command must be printed, with `…` for what differs. A command fails if and only if a line
//!   that begins with `error:` or `FAILED` is shown.
//! - A block after a paragraph that ends in a name in backticks and a colon is a file, which is written; after
//!   "Add this to the end of" it is added to the file.
//! - Blocks of the kind `console,ignore` are not run. They are listed below, with the reason.

mod markdown;
mod programs;
mod shell;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::cli::{Workplace, module};
use markdown::{Document, Step, is_as_shown, repository};
use shell::{Shell, is_installed};

/// Commands that are not run: the document, the first command of the block, and why.
const NOT_RUN: [(&str, &str, &str); 10] = [
    (
        "README.md",
        "cargo xtask demo",
        "a step of `cargo xtask test`, which runs this test",
    ),
    (
        "README.md",
        "cargo install --path .",
        "builds everything once more, optimised",
    ),
    (
        "docs/languages.md",
        "zig cc --target=wasm32-freestanding -std=c11 -O2 -g0 -msimd128 -ffreestanding -nostdlib",
        "compilers that few have; tests/core/languages.rs runs what they build",
    ),
    (
        "docs/languages.md",
        "zig build-exe guest.zig -target wasm32-freestanding -mcpu=generic+simd128 -O ReleaseSmall",
        "as above",
    ),
    (
        "docs/languages.md",
        "asc guest.ts -O3 --enable simd --runtime minimal --exportStart _initialize",
        "as above",
    ),
    (
        "docs/cli.md",
        "cargo install --path . --features object-store",
        "builds everything once more, optimised",
    ),
    (
        "docs/recipes.md",
        "AWS_SKIP_SIGNATURE=true AWS_REGION=us-east-1 wasmill run target/udfs/math.wasm char_length",
        "needs a bucket; tests/it/object_stores.rs has a server of its own",
    ),
    (
        "docs/recipes.md",
        "wasmill run target/udfs/text.wasm slugify -i https://example.org/airports.csv --arg text=name -o gs://bucket/slugs.parquet",
        "as above",
    ),
    (
        "docs/tutorial.md",
        "git clone ADDRESS-OF-THE-REPOSITORY wasmill",
        "the shell stands in a copy already; the build takes long",
    ),
    (
        "docs/cli.md",
        "wasmill completions bash > ~/.local/share/bash-completion/completions/wasmill",
        "writes into the home folder",
    ),
];

/// Follows a document.
#[allow(clippy::print_stderr, reason = "a skipped test must be seen")]
fn follow(path: &str) {
    let document = Document::read(path);
    let needed = ["script", "bash", "jq"];
    let uses = |program: &str| program != "jq" || document.text.contains("jq ");
    if let Some(missing) = needed.iter().find(|p| uses(p) && !is_installed(p)) {
        eprintln!("SKIPPED: the commands of {path} are not run without `{missing}`");
        return;
    }
    let mut shell = Shell::new(&path.replace('/', "-"));
    let mut wrong = Vec::new();
    for step in document.steps() {
        match step {
            Step::Write {
                name,
                append,
                content,
            } => shell.write(&name, append, &content),
            Step::Run(command) => {
                let typed = shell.run(&command.text);
                let found: Vec<&str> = typed.printed.trim_end().lines().collect();
                let failure =
                    |line: &String| line.starts_with("error:") || line.starts_with("FAILED");
                let fails = command.shown.iter().any(failure);
                let as_shown = command.shown.is_empty() || is_as_shown(&command.shown, &found);
                if !as_shown || fails != (typed.status != 0) {
                    wrong.push(format!(
                        "{path}:{}: $ {}\nshown:\n{}\nprinted, with status {}:\n{}\n",
                        command.line,
                        command.text,
                        command.shown.join("\n"),
                        typed.status,
                        found.join("\n")
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_commands_of_the_readme_do_what_is_shown() {
    follow("README.md");
}

#[test]
fn the_commands_of_the_tutorial_do_what_is_shown() {
    follow("docs/tutorial.md");
}

#[test]
fn the_commands_of_the_recipes_do_what_is_shown() {
    follow("docs/recipes.md");
}

#[test]
fn the_commands_of_the_reference_do_what_is_shown() {
    follow("docs/cli.md");
}

#[test]
fn the_commands_of_embedding_do_what_is_shown() {
    follow("docs/embedding.md");
}

#[test]
fn the_commands_of_sql_do_what_is_shown() {
    follow("docs/sql.md");
}

#[test]
fn the_commands_of_troubleshooting_do_what_is_shown() {
    follow("docs/troubleshooting.md");
}

#[test]
fn commands_that_are_not_run_are_listed_and_no_document_is_forgotten() {
    let mut ignored = BTreeSet::new();
    let mut followed = BTreeSet::new();
    for document in Document::all() {
        let path = document.path.display().to_string();
        for block in document.blocks() {
            match block.info.as_str() {
                "console,ignore" => {
                    ignored.insert((path.clone(), block.commands().swap_remove(0).text));
                }
                "console" => {
                    followed.insert(path.clone());
                }
                "sh" | "bash" | "shell" => panic!("{path}:{}: use `console`", block.line),
                _ => {}
            }
        }
    }
    let first_line = |text: &str| {
        let line = text.lines().next().unwrap_or_default();
        let line = line.split(" # ").next().unwrap_or_default();
        line.trim_end_matches(['\\', ' ']).to_owned()
    };
    let ignored: BTreeSet<(String, String)> = ignored
        .into_iter()
        .map(|(path, command)| (path, first_line(&command)))
        .collect();
    let listed = NOT_RUN.map(|(path, command, _)| (path.to_owned(), command.to_owned()));
    assert_eq!(ignored, BTreeSet::from(listed));
    let tests = include_str!("docs.rs");
    for path in followed {
        assert!(tests.contains(&format!("follow(\"{path}\")")), "{path}");
    }
}

#[test]
fn links_lead_somewhere() {
    for document in Document::all() {
        let folder = document.path.parent().unwrap_or(Path::new(""));
        for link in document.links() {
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = match file {
                "" => document.path.clone(),
                file => folder.join(file),
            };
            let path = repository().join(&target);
            assert!(path.exists(), "{}: {link}", document.path.display());
            if !anchor.is_empty() {
                let there = Document::read(target.to_str().expect("UTF-8")).anchors();
                assert!(
                    there.iter().any(|a| a == anchor),
                    "{}: {link}: {there:?}",
                    document.path.display()
                );
            }
        }
    }
}

#[test]
fn quoted_programs_are_those_of_the_examples() {
    let lines = |text: &str| -> Vec<String> {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        lines.map(str::to_owned).collect()
    };
    let examples = ["datafusion", "embed", "plan"].map(|name| {
        let path = repository()
            .join("examples")
            .join(name)
            .with_extension("rs");
        lines(&fs::read_to_string(path).expect("an example"))
    });
    for block in Document::read("docs/embedding.md").blocks() {
        if block.info != "rust" {
            continue;
        }
        let quoted = lines(&block.lines.join("\n"));
        let found = examples
            .iter()
            .any(|example| example.windows(quoted.len()).any(|part| part == quoted));
        assert!(
            found,
            "docs/embedding.md:{}: in no example:\n{}",
            block.line,
            block.lines.join("\n")
        );
    }
}

#[test]
fn every_udf_has_a_recipe() {
    let recipes = Document::read("docs/recipes.md").text;
    let workplace = Workplace::new();
    for entry in fs::read_dir(repository().join("udfs")).expect("the folder udfs") {
        let name = entry.expect("an entry").file_name();
        let path = module(&name.to_string_lossy());
        let arguments = ["inspect", "--json", path.to_str().expect("UTF-8")];
        let shown = workplace.wasmill(arguments).success().stdout();
        let shown: serde_json::Value = serde_json::from_str(&shown).expect("JSON");
        for function in shown["manifest"]["functions"]
            .as_array()
            .expect("functions")
        {
            let udf = function["name"].as_str().expect("a name");
            // A loop over the twins for integers names them without their common beginning.
            let short = udf.strip_prefix("running_").unwrap_or(udf);
            assert!(
                recipes.contains(udf) || recipes.contains(short),
                "{udf} of {}",
                name.to_string_lossy()
            );
        }
    }
}

/// The options in the help of a verb, with the values that each may have.
fn options(help: &str) -> Vec<(String, Vec<String>)> {
    let mut options: Vec<(String, Vec<String>)> = Vec::new();
    for line in help.lines().map(str::trim) {
        let long = line.strip_prefix("--").or_else(|| {
            let (short, long) = line.split_once(", --")?;
            short.starts_with('-').then_some(long)
        });
        if let Some(long) = long {
            let end = long.find(|c: char| !c.is_ascii_lowercase() && c != '-');
            options.push((
                format!("--{}", &long[..end.unwrap_or(long.len())]),
                Vec::new(),
            ));
        } else if let (Some(value), Some((_, values))) =
            (line.strip_prefix("- "), options.last_mut())
            && let Some((value, _)) = value.split_once(':')
        {
            values.push(value.to_owned());
        }
    }
    options
}

#[test]
fn every_verb_and_option_is_in_the_reference() {
    let reference = Document::read("docs/cli.md").text;
    let workplace = Workplace::new();
    let help = |verb: &[&str]| {
        let arguments = verb.iter().chain(&["--help"]);
        workplace.wasmill(arguments).success().stdout()
    };
    let mut verbs: Vec<Vec<String>> = vec![Vec::new()];
    let mut known = BTreeSet::new();
    while let Some(verb) = verbs.pop() {
        let words: Vec<&str> = verb.iter().map(String::as_str).collect();
        let text = help(&words);
        let commands = text.split_once("Commands:\n").map(|(_, rest)| rest);
        for line in commands.into_iter().flat_map(str::lines) {
            let Some(name) = line.strip_prefix("  ").filter(|l| !l.starts_with(' ')) else {
                if line.is_empty() {
                    break;
                }
                continue;
            };
            let name = name.split_whitespace().next().expect("a name");
            if name != "help" {
                verbs.push([verb.clone(), vec![name.to_owned()]].concat());
            }
        }
        if !verb.is_empty() {
            let name = format!("wasmill {}", verb.join(" "));
            assert!(reference.contains(&name), "`{name}` is not in docs/cli.md");
        }
        let (_, described) = text.split_once("Options:\n").expect("options");
        let described = described.split("\nExamples:").next().unwrap_or_default();
        for (option, values) in options(described) {
            let written = [
                format!("`{option}`"),
                format!("`{option} "),
                format!(", `{option}"),
            ];
            assert!(
                written.iter().any(|w| reference.contains(w)),
                "{option} of `{}` is not in docs/cli.md",
                verb.join(" ")
            );
            for value in values {
                assert!(
                    reference.contains(&format!("`{value}`")),
                    "the value {value} of {option} is not in docs/cli.md"
                );
            }
            known.insert(option);
        }
    }
    for word in reference.split(|c: char| !c.is_ascii_alphanumeric() && c != '-') {
        let is_option = word.starts_with("--") && word.len() > 2 && !word.ends_with('-');
        // Of verbs that other commands have.
        assert!(
            !is_option || known.contains(word) || ["--path", "--features"].contains(&word),
            "docs/cli.md has {word}, which no verb has"
        );
    }
}

#[test]
fn messages_that_are_explained_are_real() {
    let mut sources = String::new();
    for folder in ["src", "guest-sdk/src", "guest-sdk/macros/src", "udfs"] {
        add_sources(&repository().join(folder), &mut sources);
    }
    // The compiler joins texts whose lines end in a backslash.
    let mut joined = String::with_capacity(sources.len());
    let mut parts = sources.split("\\\n");
    joined.push_str(parts.next().unwrap_or_default());
    parts.for_each(|part| joined.push_str(part.trim_start()));
    let joined = joined.replace("\\\"", "\"");

    let document = Document::read("docs/troubleshooting.md");
    let (mut count, mut unknown) = (0, Vec::new());
    for line in document.text.lines() {
        let Some(message) = line.strip_prefix("### `").and_then(|l| l.strip_suffix('`')) else {
            continue;
        };
        count += 1;
        let parts = message.split('…').map(str::trim);
        unknown.extend(parts.filter(|part| !joined.contains(part)));
    }
    assert!(unknown.is_empty(), "not in the sources: {unknown:#?}");
    assert!(count > 30, "{count} messages");
}

fn add_sources(folder: &Path, text: &mut String) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            add_sources(&path, text);
        } else if path.extension().is_some_and(|e| e == "rs") {
            text.push_str(&fs::read_to_string(&path).expect("a source"));
        }
    }
}
