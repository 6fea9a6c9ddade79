//! `wasmill completions` and `wasmill man`.

use std::path::PathBuf;

use clap::{Args, Command};
use clap_complete::Shell;

use super::failure::Failure;
use super::{print, say};

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  wasmill completions bash > ~/.local/share/bash-completion/completions/wasmill
  wasmill completions zsh > \"${fpath[1]}/_wasmill\"
  wasmill completions fish > ~/.config/fish/completions/wasmill.fish";

/// Prints completions for a shell
#[derive(Debug, Args)]
#[command(after_help = COMPLETIONS_EXAMPLES)]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

pub(crate) fn completions(args: &CompletionsArgs, mut command: Command) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "wasmill", &mut script);
    print(&String::from_utf8_lossy(&script))
}

const MAN_EXAMPLES: &str = "\
Examples:
  wasmill man | man -l -
  wasmill man --folder /usr/local/share/man/man1";

/// Prints the manual page, or writes those of all verbs into a folder
#[derive(Debug, Args)]
#[command(after_help = MAN_EXAMPLES)]
pub(crate) struct ManArgs {
    /// Where to write wasmill.1, wasmill-run.1 and so on
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

pub(crate) fn man(args: &ManArgs, command: Command) -> Result<(), Failure> {
    match &args.folder {
        Some(folder) => {
            std::fs::create_dir_all(folder)
                .and_then(|()| clap_mangen::generate_to(command, folder))
                .map_err(|e| {
                    Failure::io(format!(
                        "cannot write manual pages to {}: {e}",
                        folder.display()
                    ))
                })?;
            say(&format!("manual pages → {}", folder.display()));
            Ok(())
        }
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(command)
                .render(&mut page)
                .map_err(|e| Failure::io(format!("cannot make the manual page: {e}")))?;
            print(&String::from_utf8_lossy(&page))
        }
    }
}
