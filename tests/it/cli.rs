//! What the tests of the command line share: the binary, the modules, the data.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, OnceLock};

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use arrow::ipc::reader::{FileReader, StreamReader};
use arrow::ipc::writer::{FileWriter, StreamWriter};
use tempfile::TempDir;

/// A module of `target/udfs`, built by `cargo xtask udfs`, which is run when it is missing.
pub fn module(name: &str) -> PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let target = Path::new(env!("CARGO_BIN_EXE_wasmill"))
            .ancestors()
            .nth(2)
            .expect("target/PROFILE/wasmill");
        let folder = target.join("udfs");
        let stale = |name: &str| !folder.join(name).with_extension("wasm").exists();
        if crates().iter().any(|name| stale(name)) {
            let status = Command::new(env!("CARGO"))
                .args(["xtask", "udfs", "--quiet"])
                .current_dir(env!("CARGO_MANIFEST_DIR"))
                .env("CARGO_TARGET_DIR", target)
                .status()
                .expect("cargo runs");
            assert!(status.success(), "cargo xtask udfs failed");
        }
        folder
    });
    folder.join(name).with_extension("wasm")
}

/// The names of the modules: those under `udfs`, and the guests of the tests.
fn crates() -> Vec<String> {
    let udfs = Path::new(env!("CARGO_MANIFEST_DIR")).join("udfs");
    let entries = std::fs::read_dir(udfs).expect("the folder udfs");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("an entry").file_name())
        .map(|name| name.to_string_lossy().into_owned())
        .collect();
    names.extend(["identity", "probe"].map(str::to_owned));
    names
}

/// A file or folder of the test data, or `None`, said aloud, where there is none.
///
/// `WASMILL_TEST_DATA` names the folder; without it, `shared/data` beside the repository is tried.
#[allow(clippy::print_stderr, reason = "a skipped test must be seen")]
pub fn data(name: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("WASMILL_TEST_DATA")
        .map(PathBuf::from)
        .or_else(|| {
            let beside = Path::new(env!("CARGO_MANIFEST_DIR"))
                .parent()?
                .join("shared")
                .join("data");
            beside.is_dir().then_some(beside)
        });
    let path = folder.map(|f| f.join(name)).filter(|p| p.exists());
    if path.is_none() {
        eprintln!("SKIPPED: no test data `{name}`; name its folder in WASMILL_TEST_DATA");
    }
    path
}

/// A folder to work in, and the binary to work with.
pub struct Workplace {
    folder: TempDir,
}

impl Workplace {
    pub fn new() -> Self {
        Workplace {
            folder: tempfile::tempdir().expect("a folder"),
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, content).expect("a file");
        path
    }

    /// Names of the files that are there.
    pub fn files(&self) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(self.folder.path())
            .expect("a folder")
            .map(|e| {
                e.expect("an entry")
                    .file_name()
                    .to_string_lossy()
                    .into_owned()
            })
            .collect();
        names.sort();
        names
    }

    /// Runs `wasmill` here, with no colours and a cache of compiled code that the tests share.
    pub fn wasmill<I, S>(&self, arguments: I) -> Ended
    where
        I: IntoIterator<Item = S>,
        S: AsRef<std::ffi::OsStr>,
    {
        self.run(&mut self.command(arguments))
    }

    /// Runs a command of [`Workplace::command`].
    pub fn run(&self, command: &mut Command) -> Ended {
        Ended {
            output: command.output().expect("wasmill runs"),
            folder: self.folder.path().to_owned(),
        }
    }

    pub fn command<I, S>(&self, arguments: I) -> Command
    where
        I: IntoIterator<Item = S>,
        S: AsRef<std::ffi::OsStr>,
    {
        let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache");
        let mut command = Command::new(env!("CARGO_BIN_EXE_wasmill"));
        command
            .current_dir(self.folder.path())
            .env_remove("RUST_BACKTRACE")
            .env("NO_COLOR", "1")
            .env("XDG_CACHE_HOME", cache)
            .args(arguments);
        command
    }
}

/// How a command ended.
pub struct Ended {
    output: Output,
    folder: PathBuf,
}

impl Ended {
    pub fn code(&self) -> i32 {
        self.output.status.code().unwrap_or(-1)
    }

    pub fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout).into_owned()
    }

    /// What was said, without the parts that differ from run to run.
    pub fn stderr(&self) -> String {
        let text = String::from_utf8_lossy(&self.output.stderr).into_owned();
        text.replace(&self.folder.display().to_string(), "[folder]")
    }

    #[track_caller]
    pub fn success(self) -> Self {
        assert_eq!(self.code(), 0, "{}", self.stderr());
        self
    }

    #[track_caller]
    pub fn failure(self, code: i32) -> String {
        let said = self.stderr();
        assert_eq!(self.code(), code, "{said}");
        assert!(said.starts_with("error: "), "{said}");
        assert!(!said.contains("panicked"), "{said}");
        said
    }
}

/// Both forms of Arrow IPC.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Form {
    File,
    Stream,
}

/// All batches of an Arrow file or stream, as arrow-rs reads them.
pub fn read_arrow(
    path: &Path,
    form: Form,
) -> Result<(SchemaRef, Vec<RecordBatch>), arrow::error::ArrowError> {
    let file = File::open(path)?;
    match form {
        Form::File => {
            let reader = FileReader::try_new(file, None)?;
            Ok((reader.schema(), reader.collect::<Result<_, _>>()?))
        }
        Form::Stream => {
            let reader = StreamReader::try_new(file, None)?;
            Ok((reader.schema(), reader.collect::<Result<_, _>>()?))
        }
    }
}

/// Writes batches.
pub fn write_arrow(path: &Path, form: Form, batches: &[RecordBatch]) {
    let file = File::create(path).expect("a file");
    let schema = batches[0].schema();
    match form {
        Form::File => {
            let mut writer = FileWriter::try_new(file, &schema).expect("a writer");
            batches
                .iter()
                .for_each(|b| writer.write(b).expect("written"));
            writer.finish().expect("finished");
        }
        Form::Stream => {
            let mut writer = StreamWriter::try_new(file, &schema).expect("a writer");
            batches
                .iter()
                .for_each(|b| writer.write(b).expect("written"));
            writer.finish().expect("finished");
        }
    }
}

/// A batch of named columns.
pub fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, a)| (n, a, true)))
        .expect("a batch")
}

/// One column of all batches.
pub fn column(batches: &[RecordBatch], name: &str) -> Vec<ArrayRef> {
    batches
        .iter()
        .map(|b| Arc::clone(b.column_by_name(name).expect(name)))
        .collect()
}
