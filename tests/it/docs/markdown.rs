//! What a document holds that can be tested: commands with their output, files, programs, links.

use std::fs;
use std::path::{Path, PathBuf};

/// The repository.
pub fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A document of this repository.
pub struct Document {
    /// Its path in the repository.
    pub path: PathBuf,
    pub text: String,
}

/// A fenced block.
pub struct Block {
    /// What stands after the fence: `console`, `rust`.
    pub info: String,
    pub lines: Vec<String>,
    /// The paragraph before it, on one line.
    pub before: String,
    /// The line of its fence, counted from 1.
    pub line: usize,
}

/// What a reader does next.
pub enum Step {
    Run(Command),
    /// Writes a file: a block after a paragraph that ends in its name, in backticks, and a colon.
    Write {
        name: String,
        /// Whether it goes to the end of the file.
        append: bool,
        content: String,
    },
}

/// A command and what it prints.
pub struct Command {
    pub text: String,
    /// Nothing where the document shows nothing.
    pub shown: Vec<String>,
    pub line: usize,
}

impl Document {
    pub fn read(path: &str) -> Self {
        let text = fs::read_to_string(repository().join(path)).expect(path);
        Document {
            path: PathBuf::from(path),
            text,
        }
    }

    /// `README.md` and all of `docs/`.
    pub fn all() -> Vec<Self> {
        let entries = fs::read_dir(repository().join("docs")).expect("the folder docs");
        let mut paths: Vec<String> = entries
            .map(|entry| entry.expect("an entry").file_name())
            .map(|name| format!("docs/{}", name.to_string_lossy()))
            .filter(|path| path.ends_with(".md"))
            .collect();
        paths.push("README.md".to_owned());
        paths.sort();
        paths.iter().map(|path| Self::read(path)).collect()
    }

    pub fn blocks(&self) -> Vec<Block> {
        let mut blocks = Vec::new();
        let mut before: Vec<&str> = Vec::new();
        let mut lines = self.text.lines().enumerate();
        while let Some((number, line)) = lines.next() {
            if let Some(info) = line.strip_prefix("```") {
                let inside = lines.by_ref().map(|(_, line)| line);
                blocks.push(Block {
                    info: info.to_owned(),
                    lines: inside
                        .take_while(|line| !line.starts_with("```"))
                        .map(str::to_owned)
                        .collect(),
                    before: before.join(" "),
                    line: number + 1,
                });
                before.clear();
            } else if !line.trim().is_empty() {
                before.push(line.trim());
            } else if lines
                .clone()
                .next()
                .is_some_and(|(_, next)| !next.starts_with("```"))
            {
                before.clear();
            }
        }
        blocks
    }

    /// The steps of a reader, in order.
    pub fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        for block in self.blocks() {
            if block.info == "console" {
                steps.extend(block.commands().into_iter().map(Step::Run));
            } else if let Some(name) = block.file() {
                steps.push(Step::Write {
                    name,
                    append: block.before.contains("dd this to the end of"),
                    content: block.lines.join("\n") + "\n",
                });
            }
        }
        steps
    }

    /// The targets of links within the repository.
    pub fn links(&self) -> Vec<String> {
        let parts = self.text.split("](").skip(1);
        parts
            .filter_map(|part| part.split_once(')'))
            .map(|(target, _)| target.replace('\n', ""))
            .filter(|target| !target.contains("://"))
            .collect()
    }

    /// The names of its headings in links.
    pub fn anchors(&self) -> Vec<String> {
        let headings = self.text.lines().filter(|line| line.starts_with('#'));
        headings
            .map(|line| {
                let words = line.trim_start_matches('#').trim().to_lowercase();
                let kept = words
                    .chars()
                    .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
                kept.collect::<String>().replace(' ', "-")
            })
            .collect()
    }
}

impl Block {
    /// The file that it is, by the paragraph before it.
    fn file(&self) -> Option<String> {
        let (_, name) = self.before.strip_suffix("`:")?.rsplit_once('`')?;
        Some(name.to_owned())
    }

    /// Its commands: lines after `$ `, continued where a line ends in a backslash.
    pub fn commands(&self) -> Vec<Command> {
        let mut commands: Vec<Command> = Vec::new();
        let mut continued = false;
        for (i, line) in self.lines.iter().enumerate() {
            match (line.strip_prefix("$ "), commands.last_mut()) {
                (None, None) => panic!("line {}: output without a command", self.line + i + 1),
                (None, Some(command)) if continued => {
                    command.text.push('\n');
                    command.text.push_str(line);
                    continued = line.ends_with('\\');
                }
                (None, Some(command)) => command.shown.push(line.clone()),
                (Some(text), _) => {
                    continued = text.ends_with('\\');
                    commands.push(Command {
                        text: text.to_owned(),
                        shown: Vec::new(),
                        line: self.line + i + 1,
                    });
                }
            }
        }
        commands
    }
}

/// Whether lines are as they are shown. `…` stands for anything within a line, and as a line of its own
/// for any number of lines.
pub fn is_as_shown(shown: &[String], found: &[&str]) -> bool {
    match shown.split_first() {
        None => found.is_empty(),
        Some((line, rest)) if line.trim() == "…" => {
            (0..=found.len()).any(|skipped| is_as_shown(rest, &found[skipped..]))
        }
        Some((line, rest)) => found.split_first().is_some_and(|(first, others)| {
            line_is_as_shown(line.trim_end(), first.trim_end()) && is_as_shown(rest, others)
        }),
    }
}

fn line_is_as_shown(shown: &str, found: &str) -> bool {
    match shown.split_once('…') {
        None => shown == found,
        Some((start, rest)) => found.strip_prefix(start).is_some_and(|found| {
            let mut ends = found.char_indices().map(|(at, _)| at);
            ends.any(|at| line_is_as_shown(rest, &found[at..])) || line_is_as_shown(rest, "")
        }),
    }
}

#[test]
fn dots_stand_for_what_varies() {
    let shown = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let found = ["3 rows in 0.1 s", "a", "b"];
    assert!(is_as_shown(&shown("3 rows in … s\na\nb"), &found));
    assert!(is_as_shown(&shown("3 rows …\n…"), &found));
    assert!(is_as_shown(&shown("…\nb\n…"), &found));
    assert!(!is_as_shown(&shown("3 rows in … s\na"), &found));
    assert!(!is_as_shown(&shown("…\na"), &found));
}
