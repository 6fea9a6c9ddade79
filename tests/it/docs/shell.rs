//! A terminal in which the commands of a document are typed.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::markdown::repository;
use super::programs::{BEGIN, END};
use crate::cli::module;

/// A terminal, made of `bash` and of `script` from util-linux, so that programs see a terminal.
pub struct Shell {
    /// Holds everything, the copy of the repository among it.
    folder: PathBuf,
    /// Where the next command runs.
    place: PathBuf,
    /// How the last command ended.
    status: i32,
}

/// What came of a command.
pub struct Typed {
    pub status: i32,
    pub printed: String,
}

/// Whether a program is there.
pub fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// A folder that stays between runs.
fn kept(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

impl Shell {
    /// A terminal in a folder that looks like a copy of the repository after `cargo xtask udfs`. It is the
    /// same for each run of the tests, so that cargo builds its crates again and no more of them.
    pub fn new(name: &str) -> Self {
        let folder = kept("docs").join(name);
        let _ = fs::remove_dir_all(&folder);
        let place = folder.join("wasmill");
        fs::create_dir_all(place.join("target")).expect("a folder");
        for part in ["data", "docs", "guest-sdk", "udfs"] {
            symlink(repository().join(part), place.join(part)).expect("a link");
        }
        let udfs = module("math");
        let udfs = udfs.parent().expect("the folder of the modules");
        symlink(udfs, place.join("target/udfs")).expect("a link");
        Shell {
            folder,
            place,
            status: 0,
        }
    }

    /// Writes a file, or adds to it.
    pub fn write(&self, name: &str, append: bool, content: &str) {
        let path = self.place.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        let before = match append {
            true => fs::read_to_string(&path).expect("the file to add to") + "\n",
            false => String::new(),
        };
        fs::write(path, before + content).expect("a file");
    }

    /// Types a command.
    pub fn run(&mut self, command: &str) -> Typed {
        let (script, place) = (self.folder.join(".command"), self.folder.join(".place"));
        let text = format!(
            "(exit {})\n{}\nstatus=$?\npwd > '{}'\nexit $status\n",
            self.status,
            self.as_built(command),
            place.display()
        );
        fs::write(&script, text).expect("a file");
        let output = Command::new("script")
            .args([
                "-qefc",
                &format!("bash '{}'", script.display()),
                "/dev/null",
            ])
            .current_dir(&self.place)
            .stdin(Stdio::null())
            .envs(self.environment())
            .env_remove("CARGO_TARGET_DIR")
            .env_remove("RUSTFLAGS")
            .env_remove("RUST_BACKTRACE")
            .output()
            .expect("`script` runs");
        self.status = output.status.code().unwrap_or(-1);
        let place = fs::read_to_string(&place).expect("the folder of the shell");
        self.place = PathBuf::from(place.trim_end());
        Typed {
            status: self.status,
            printed: without_steering(&String::from_utf8_lossy(&output.stdout)),
        }
    }

    fn environment(&self) -> Vec<(&str, String)> {
        let binaries = Path::new(env!("CARGO_BIN_EXE_wasmill")).parent();
        let path = std::env::var("PATH").unwrap_or_default();
        let shown = |path: PathBuf| path.display().to_string();
        vec![
            (
                "PATH",
                format!("{}:{path}", binaries.expect("a folder").display()),
            ),
            ("LC_ALL", "C.UTF-8".to_owned()),
            // No colours, no bars that move.
            ("NO_COLOR", "1".to_owned()),
            ("CI", "1".to_owned()),
            ("CARGO_TERM_COLOR", "never".to_owned()),
            // What is needed has been downloaded for this repository.
            ("CARGO_NET_OFFLINE", "true".to_owned()),
            ("CARGO_BUILD_BUILD_DIR", shown(kept("docs-build"))),
            ("XDG_CACHE_HOME", shown(kept("cache"))),
            ("XDG_CONFIG_HOME", shown(self.folder.join("config"))),
        ]
    }

    /// Examples are part of the tests: what cargo would run is run without it.
    fn as_built(&self, command: &str) -> String {
        let Some(name) = command
            .strip_prefix("cargo run --example ")
            .and_then(|rest| rest.split_whitespace().next())
        else {
            return command.to_owned();
        };
        let tests = std::env::current_exe().expect("the path of the tests");
        format!(
            "set -o pipefail; '{}' --ignored --exact --nocapture docs::programs::{name}_runs \\\n\
             | sed -e '1,/^{BEGIN}$/d' -e '/^{END}$/,$d'",
            tests.display()
        )
    }
}

/// Text without what steers a terminal: colours, carriage returns, the end of input that `script` types.
fn without_steering(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let text = text.replace("^D\u{8}\u{8}", "").replace('\r', "");
    let mut parts = text.split("\u{1b}[");
    plain.push_str(parts.next().unwrap_or_default());
    for part in parts {
        plain.push_str(
            part.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';')
                .get(1..)
                .unwrap_or_default(),
        );
    }
    plain
}
