//! Settings: flags, then `WASMILL_*` variables, then `wasmill.toml`, then the user's own file.
//!
//! A setting is a flag that makes sense for more than one run. Variables and files become the flag's
//! default, so that clap reads, checks and explains all of them alike.

use std::env;
use std::fmt::Display;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use clap::{Args, Command, Subcommand};
use serde::Serialize;
use toml::Value;

use super::failure::Failure;
use super::suggest::existing;
use super::{json_text, print};

/// The flags that are settings.
const SETTINGS: [&str; 17] = [
    "admission",
    "batch-size",
    "color",
    "compression",
    "init-retries",
    "init-timeout",
    "json",
    "machine",
    "max-errors",
    "memory",
    "metrics",
    "on-error",
    "quiet",
    "restarts",
    "slots",
    "threads",
    "timeout",
];

/// Those that are on or off.
const FLAGS: [&str; 2] = ["json", "quiet"];

/// The project's file, looked for in the current folder.
const PROJECT_FILE: &str = "wasmill.toml";

const EXAMPLES: &str = "\
Examples:
  wasmill config show --origin
  WASMILL_SLOTS=4 wasmill run math.wasm gcd -i in.csv

A file has the names of flags without their dashes:
  slots = 4
  memory = \"1GiB\"
  on-error = \"null\"

Flags come before variables (WASMILL_SLOTS), variables before wasmill.toml in the current folder,
and that before the user's file, $XDG_CONFIG_HOME/wasmill/config.toml.";

/// Shows the settings and where they come from
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    verb: ConfigVerb,
}

#[derive(Debug, Subcommand)]
enum ConfigVerb {
    /// Prints the settings that hold without flags
    Show {
        /// Say where each comes from
        #[arg(long)]
        origin: bool,
    },
}

/// What the files say.
pub(crate) struct Settings {
    /// Values with their files, the one that holds first.
    values: Vec<(String, String, PathBuf)>,
}

impl Settings {
    /// Reads the files that are there.
    pub(crate) fn load() -> Result<Self, Failure> {
        let mut values = Vec::new();
        for path in [Some(PathBuf::from(PROJECT_FILE)), user_file()]
            .into_iter()
            .flatten()
        {
            read(&path, &mut values)?;
        }
        Ok(Settings { values })
    }

    /// No settings, for verbs that mend them.
    pub(crate) fn none() -> Self {
        Settings { values: Vec::new() }
    }

    fn find(&self, name: &str) -> Option<(&str, &Path)> {
        let (_, value, path) = self.values.iter().find(|(n, _, _)| n == name)?;
        Some((value, path))
    }

    /// The files that have values, for a note when one of them cannot be used.
    pub(crate) fn files(&self) -> Vec<String> {
        let mut files: Vec<String> = self
            .values
            .iter()
            .map(|(_, _, path)| path.display().to_string())
            .collect();
        files.dedup();
        files
    }

    /// Makes variables and files the defaults of the flags.
    pub(crate) fn apply(&self, command: Command) -> Command {
        let command = self.apply_to(command);
        let names: Vec<String> = command
            .get_subcommands()
            .map(|verb| verb.get_name().to_owned())
            .collect();
        names.into_iter().fold(command, |command, name| {
            command.mut_subcommand(name, |verb| self.apply_to(verb))
        })
    }

    fn apply_to(&self, command: Command) -> Command {
        SETTINGS.into_iter().fold(command, |command, name| {
            let argument = command
                .get_arguments()
                .find(|argument| argument.get_long() == Some(name));
            let Some(id) = argument.map(|a| a.get_id().clone()) else {
                return command;
            };
            let default = self.find(name).map(|(value, _)| value.to_owned());
            command.mut_arg(id, |argument| {
                // Both live as long as the process does.
                let argument = argument.env(&*variable(name).leak());
                match default {
                    Some(value) => argument.default_value(&*value.leak()),
                    None => argument,
                }
            })
        })
    }
}

/// The variable of a setting.
fn variable(name: &str) -> String {
    format!("WASMILL_{}", name.replace('-', "_").to_uppercase())
}

fn user_file() -> Option<PathBuf> {
    let absolute = |name| {
        env::var_os(name)
            .map(PathBuf::from)
            .filter(|p| p.is_absolute())
    };
    let base = absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")))?;
    Some(base.join("wasmill").join("config.toml"))
}

fn read(path: &Path, values: &mut Vec<(String, String, PathBuf)>) -> Result<(), Failure> {
    let unreadable = |reason: &dyn Display| {
        let file = path.display();
        Failure::usage(format!("cannot read the settings in {file}: {reason}"))
    };
    // Looked at before it is opened: opening a FIFO would wait for a writer.
    match std::fs::metadata(path) {
        Ok(about) if !about.is_file() => return Err(unreadable(&"it is not a regular file")),
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        _ => {}
    }
    let text = std::fs::read_to_string(path).map_err(|e| unreadable(&e))?;
    let table: toml::Table = text.parse().map_err(|e| {
        Failure::usage(format!(
            "the settings in {} are malformed: {e}",
            path.display()
        ))
    })?;
    for (name, value) in table {
        if !SETTINGS.contains(&name.as_str()) {
            return Err(Failure::usage(format!(
                "{} has the setting `{name}`, which does not exist",
                path.display()
            ))
            .hint(existing("settings", &name, SETTINGS)));
        }
        let text = match value {
            Value::String(text) => text,
            Value::Integer(number) => number.to_string(),
            Value::Boolean(flag) => flag.to_string(),
            other => {
                return Err(Failure::usage(format!(
                    "the setting `{name}` in {} is a {}; a text, a number or true and false are expected",
                    path.display(),
                    other.type_str()
                )));
            }
        };
        if FLAGS.contains(&name.as_str()) && !matches!(text.as_str(), "true" | "false") {
            return Err(Failure::usage(format!(
                "the setting `{name}` in {} is {text:?}; true or false is expected",
                path.display()
            )));
        }
        values.push((name, text, path.to_owned()));
    }
    Ok(())
}

#[derive(Serialize)]
struct Shown {
    name: &'static str,
    value: Option<String>,
    origin: String,
}

#[derive(Serialize)]
struct AllShown {
    schema_version: u32,
    settings: Vec<Shown>,
}

/// `config show`.
pub(crate) fn execute(
    args: &ConfigArgs,
    settings: &Settings,
    command: &Command,
    json: bool,
) -> Result<(), Failure> {
    let ConfigVerb::Show { origin } = args.verb;
    let shown: Vec<Shown> = SETTINGS
        .into_iter()
        .map(|name| show(name, settings, command))
        .collect();
    if json {
        let all = AllShown {
            schema_version: 1,
            settings: shown,
        };
        let text = json_text(&all)?;
        return print(&format!("{text}\n"));
    }
    let mut text = String::new();
    for Shown {
        name,
        value,
        origin: from,
    } in shown
    {
        let value = value.unwrap_or_else(|| "(not set)".to_owned());
        text.push_str(&match origin {
            true => format!("{name:<14}{value:<16}{from}\n"),
            false => format!("{name:<14}{value}\n"),
        });
    }
    print(&text)
}

fn show(name: &'static str, settings: &Settings, command: &Command) -> Shown {
    if let Some(value) = env::var_os(variable(name)) {
        return Shown {
            name,
            value: Some(value.to_string_lossy().into_owned()),
            origin: format!("variable {}", variable(name)),
        };
    }
    if let Some((value, path)) = settings.find(name) {
        return Shown {
            name,
            value: Some(value.to_owned()),
            origin: path.display().to_string(),
        };
    }
    let run = command.find_subcommand("run");
    let argument = [Some(command), run]
        .into_iter()
        .flatten()
        .flat_map(Command::get_arguments)
        .find(|a| a.get_long() == Some(name));
    let value = argument
        .and_then(|a| a.get_default_values().first())
        .map(|value| value.to_string_lossy().into_owned());
    Shown {
        name,
        value,
        origin: "default".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_named_after_their_flags() {
        assert_eq!(variable("batch-size"), "WASMILL_BATCH_SIZE");
    }

    #[test]
    fn a_file_has_known_settings_of_simple_types() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("wasmill.toml");
        let load = |text: &str| {
            std::fs::write(&path, text).unwrap();
            let mut values = Vec::new();
            read(&path, &mut values).map(|()| values.into_iter().map(|(n, v, _)| (n, v)).collect())
        };
        let values: Vec<(String, String)> =
            load("slots = 4\nmemory = \"1GiB\"\nquiet = true\n").unwrap();
        let expected = [("memory", "1GiB"), ("quiet", "true"), ("slots", "4")];
        assert_eq!(values, expected.map(|(n, v)| (n.to_owned(), v.to_owned())));
        assert!(
            load("slot = 4\n")
                .unwrap_err()
                .hint
                .unwrap()
                .contains("`slots`")
        );
        assert!(load("quiet = \"maybe\"\n").is_err());
        assert!(load("slots = [4]\n").is_err());
        assert!(load("slots = \n").is_err());
    }
}
