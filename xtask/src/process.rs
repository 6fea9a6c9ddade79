//! Child processes: each command line is printed before it runs.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::failure::{Failure, Result};

/// Prints and runs `command`; its output goes to the terminal.
pub fn run(command: &mut Command) -> Result<()> {
    eprintln!("$ {}", render(command));
    let status = command
        .status()
        .map_err(|error| not_started(command, &error))?;
    if status.success() {
        Ok(())
    } else {
        Err(Failure::Failed(format!(
            "`{}` failed: {status}",
            render(command)
        )))
    }
}

/// Prints and runs `command`, and returns its standard output.
pub fn capture(command: &mut Command) -> Result<Vec<u8>> {
    eprintln!("$ {}", render(command));
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| not_started(command, &error))?;
    if output.status.success() {
        Ok(output.stdout)
    } else {
        Err(Failure::Failed(format!(
            "`{}` failed: {}",
            render(command),
            output.status
        )))
    }
}

/// Whether `command` can be started and succeeds; prints nothing.
pub fn succeeds(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

fn not_started(command: &Command, error: &std::io::Error) -> Failure {
    Failure::Failed(format!("cannot start `{}`: {error}", render(command)))
}

/// The command line as somebody would type it: set variables, program name, quoted arguments.
fn render(command: &Command) -> String {
    let mut words = Vec::new();
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            words.push(format!("{}={}", name.to_string_lossy(), quote(value)));
        }
    }
    let program = Path::new(command.get_program());
    // A tool of the toolchain by its name, something of ours by its path.
    let shown = if program.is_absolute() && !program.starts_with(crate::workspace::root()) {
        program.file_stem().unwrap_or(program.as_os_str())
    } else {
        program
            .strip_prefix(crate::workspace::root())
            .unwrap_or(program)
            .as_os_str()
    };
    words.push(quote(shown));
    words.extend(command.get_args().map(quote));
    words.join(" ")
}

fn quote(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let plain = |c: char| c.is_alphanumeric() || "-_./=:,@+%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.into_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_is_shown_as_it_would_be_typed() {
        let mut command = Command::new("cargo");
        command
            .args(["doc", "it's", ""])
            .env("RUSTDOCFLAGS", "-D warnings")
            .env_remove("RUSTFLAGS");
        assert_eq!(
            render(&command),
            r"RUSTDOCFLAGS='-D warnings' cargo doc 'it'\''s' ''"
        );
    }

    #[test]
    fn a_tool_of_the_toolchain_is_shown_by_its_name() {
        assert_eq!(render(&Command::new("/somewhere/bin/cargo")), "cargo");
    }

    #[test]
    fn a_missing_program_is_an_error_that_names_it() {
        let error = run(&mut Command::new("no-such-program-anywhere")).unwrap_err();
        assert!(
            error.to_string().contains("no-such-program-anywhere"),
            "{error}"
        );
        assert!(!succeeds(&mut Command::new("no-such-program-anywhere")));
    }
}
