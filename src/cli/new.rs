//! `wasmill new`: a crate to start a UDF from.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::{Args, ValueEnum};

use super::check::quoted;
use super::failure::Failure;
use super::print;

const EXAMPLES: &str = "\
Examples:
  wasmill new shout --sdk path/to/wasmill/guest-sdk
  wasmill new replacer --stateful --sdk path/to/wasmill/guest-sdk
  wasmill new udfs/shares --lang c

What is printed at the end are the commands to test, build and run it.";

/// Makes a folder with the beginnings of a UDF, its tests and an example to run it on
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct NewArgs {
    /// The folder to make; its name is that of the crate and the module too
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,

    /// A UDF with a state, which is made once per slot from init arguments
    #[arg(long)]
    stateful: bool,

    /// The language it is written in
    #[arg(long, value_enum, value_name = "LANGUAGE", default_value_t)]
    lang: Language,

    /// Folder of the guest SDK in a copy of Wasmill's repository: guest-sdk [default: the published crate]
    #[arg(long, value_name = "FOLDER")]
    sdk: Option<PathBuf>,
}

/// Languages with a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum Language {
    /// Rust, with the guest SDK
    #[default]
    Rust,
    /// C11, with the header wasmill.h
    C,
    /// Zig, with wasmill.zig
    Zig,
    /// AssemblyScript, with wasmill.ts
    Assemblyscript,
}

/// A file of the template: its path and contents.
type Made = (&'static str, String);

pub(crate) fn execute(args: &NewArgs) -> Result<(), Failure> {
    let folder = args.folder.as_path();
    let name = name_of(folder)?;
    if folder.exists() {
        return Err(
            Failure::usage(format!("{} exists already", folder.display()))
                .hint("choose another name, or remove the folder"),
        );
    }
    if args.lang != Language::Rust && (args.stateful || args.sdk.is_some()) {
        return Err(Failure::usage("--stateful and --sdk are for Rust")
            .hint("the other languages have one template each; Zig's has a state"));
    }
    let (files, steps) = match args.lang {
        Language::Rust => rust(args, name)?,
        Language::C => c(name),
        Language::Zig => zig(name),
        Language::Assemblyscript => assemblyscript(name),
    };
    for (path, contents) in &files {
        let path = folder.join(path);
        let failed =
            |e: std::io::Error| Failure::io(format!("cannot write {}: {e}", path.display()));
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(failed)?;
        }
        fs::write(&path, contents).map_err(failed)?;
    }
    let folder = folder.display().to_string();
    print(&format!(
        "{folder} is there. To test, build and run it:\n\n  cd {}\n{steps}",
        quoted(&folder)
    ))
}

/// The name of the crate: that of the folder.
fn name_of(folder: &Path) -> Result<&str, Failure> {
    let name = folder.file_name().and_then(|name| name.to_str());
    let name = name.unwrap_or_default();
    check_name(name)?;
    Ok(name)
}

/// What a crate, a module and a folder can be called alike.
fn check_name(name: &str) -> Result<(), Failure> {
    let begins = name.starts_with(|c: char| c.is_ascii_lowercase());
    let holds = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_');
    if !begins || !name.chars().all(holds) || name.len() > 64 {
        return Err(
            Failure::usage(format!("{name:?} cannot be the name of a crate"))
                .hint("use small letters, digits, - and _, and begin with a letter: my-udf"),
        );
    }
    // Cargo refuses these too, later and less clearly.
    const TAKEN: [&str; 6] = [
        "test",
        "core",
        "std",
        "alloc",
        "proc_macro",
        "wasmill-guest",
    ];
    match TAKEN.contains(&name) {
        true => Err(Failure::usage(format!(
            "the name {name:?} is taken by a crate that UDFs are built with"
        ))
        .hint(format!("choose another, as my-{name}"))),
        false => Ok(()),
    }
}

fn rust(args: &NewArgs, name: &str) -> Result<(Vec<Made>, String), Failure> {
    let sdk = match &args.sdk {
        Some(folder) => format!("{{ path = {:?} }}", sdk_folder(folder)?),
        None => "\"0.1\"".to_owned(),
    };
    let manifest = include_str!("templates/rust.toml")
        .replace("{name}", name)
        .replace("{sdk}", &sdk);
    let (code, data, run) = if args.stateful {
        (
            include_str!("templates/stateful.rs"),
            "text\nfrom NY to LA\nSF by night\n",
            "replace -i example.csv \\\n    --init '{\"from\":[\"NY\",\"LA\"],\"to\":[\"New York\",\"Los Angeles\"]}'",
        )
    } else {
        (
            include_str!("templates/stateless.rs"),
            "text,part,whole\nnew york city,1,4\nlos angeles,2,3\n",
            "initials -i example.csv",
        )
    };
    let files = vec![
        ("Cargo.toml", manifest),
        (
            ".cargo/config.toml",
            include_str!("templates/config.toml").to_owned(),
        ),
        (".gitignore", "/target\n".to_owned()),
        ("src/lib.rs", code.to_owned()),
        ("example.csv", data.to_owned()),
    ];
    let module = name.replace('-', "_");
    let mut steps = format!(
        "  cargo test\n  rustup target add wasm32-unknown-unknown\n  \
         cargo build --release --target wasm32-unknown-unknown\n  \
         wasmill run target/wasm32-unknown-unknown/release/{module}.wasm {run}\n"
    );
    if args.sdk.is_none() {
        steps.push_str(
            "\nThe SDK is taken from the registry; until it is published there, give --sdk FOLDER.\n",
        );
    }
    Ok((files, steps))
}

const NUMBERS: &str = "part,whole\n1,4\n2,3\n,5\n";

/// The command that Zig has on this machine, after the steps that install it where it has none.
fn zig_command() -> (&'static str, &'static str) {
    let runs = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).output();
        output.is_ok_and(|output| output.status.success())
    };
    if runs("zig", &["version"]) {
        ("", "zig")
    } else if runs("python3", &["-m", "ziglang", "version"]) {
        ("", "python3 -m ziglang")
    } else {
        (
            "  python3 -m venv .zig\n  .zig/bin/pip install ziglang==0.17.1\n",
            ".zig/bin/python -m ziglang",
        )
    }
}

fn c(name: &str) -> (Vec<Made>, String) {
    let files = vec![
        ("wasmill.h", wasmill_guest::C_HEADER.to_owned()),
        ("guest.c", include_str!("templates/guest.c").to_owned()),
        ("example.csv", NUMBERS.to_owned()),
    ];
    let (install, zig) = zig_command();
    let steps = format!(
        "{install}  {zig} cc --target=wasm32-freestanding -std=c11 -O2 -g0 -msimd128 -ffreestanding -nostdlib \\\n    \
         -Wl,--no-entry -Wl,-z,stack-size=65536 -Wl,--export=wasmill_panic guest.c -o {name}.wasm\n  \
         wasmill check {name}.wasm\n  \
         wasmill run {name}.wasm percent -i example.csv\n\n\
         Zig also comes from ziglang.org; clang does as well.\n"
    );
    (files, steps)
}

fn zig(name: &str) -> (Vec<Made>, String) {
    let sdk = include_str!("../../tests/guests/zig/wasmill.zig");
    let files = vec![
        ("wasmill.zig", sdk.to_owned()),
        ("guest.zig", include_str!("templates/guest.zig").to_owned()),
        ("example.csv", "x\n1\n2\n".to_owned()),
    ];
    let (install, zig) = zig_command();
    let steps = format!(
        "{install}  {zig} build-exe guest.zig -target wasm32-freestanding -mcpu=generic+simd128 -O ReleaseSmall \\\n    \
         -fno-entry -rdynamic --stack 65536 -femit-bin={name}.wasm\n  \
         wasmill check {name}.wasm --init '{{\"scale\":2,\"offset\":1}}'\n  \
         wasmill run {name}.wasm apply -i example.csv --init '{{\"scale\":2,\"offset\":1}}'\n\n\
         It is written for Zig 0.17, which also comes from ziglang.org.\n"
    );
    (files, steps)
}

fn assemblyscript(name: &str) -> (Vec<Made>, String) {
    let package = include_str!("templates/package.json")
        .replace("{name}", name)
        .replace("{module}", name);
    let files = vec![
        (
            "wasmill.ts",
            include_str!("../../tests/guests/assemblyscript/wasmill.ts").to_owned(),
        ),
        (
            "manifest.mjs",
            include_str!("../../tests/guests/assemblyscript/manifest.mjs").to_owned(),
        ),
        (
            "manifest.json",
            include_str!("templates/manifest.json").to_owned(),
        ),
        ("guest.ts", include_str!("templates/guest.ts").to_owned()),
        ("package.json", package),
        (".gitignore", "/node_modules\n".to_owned()),
        (
            "example.csv",
            "text\nnew york city\nlos angeles\n".to_owned(),
        ),
    ];
    let steps = format!(
        "  npm install\n  npm run build\n  wasmill check {name}.wasm\n  \
         wasmill run {name}.wasm count_words -i example.csv\n"
    );
    (files, steps)
}

/// The absolute path of the SDK, which must be one.
fn sdk_folder(folder: &Path) -> Result<String, Failure> {
    let manifest = folder.join("Cargo.toml");
    let is_sdk = fs::read_to_string(&manifest)
        .is_ok_and(|text| text.lines().any(|l| l.trim() == "name = \"wasmill-guest\""));
    if !is_sdk {
        return Err(
            Failure::usage(format!("{} is not the guest SDK", folder.display()))
                .hint("it is the folder guest-sdk of Wasmill's repository"),
        );
    }
    let absolute = fs::canonicalize(folder)
        .map_err(|e| Failure::io(format!("cannot read {}: {e}", folder.display())))?;
    absolute.into_os_string().into_string().map_err(|path| {
        Failure::usage(format!(
            "the path of the SDK is not Unicode: {}",
            path.display()
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_crates() {
        for good in ["a", "my-udf", "my_udf2"] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        for good in ["my-udf", "udfs/my-udf", "../my-udf/", "./my-udf"] {
            assert_eq!(name_of(Path::new(good)).unwrap(), "my-udf", "{good}");
        }
        for bad in ["..", "/", "My/Udf", "a/test"] {
            assert!(name_of(Path::new(bad)).is_err(), "{bad}");
        }
        for bad in ["", "A", "2a", "a b", "../a", "a/b", "test", "-a", "ä"] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }
}
