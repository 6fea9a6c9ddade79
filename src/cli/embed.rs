//! `wasmill embed`: gives a module its manifest, for languages that cannot write custom sections.

use std::fs;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use wasmparser::{Parser, Payload};

use super::failure::{Failure, is_broken_pipe};
use super::io::{STANDARD, StagedFile};
use super::say;
use crate::{ModuleInfo, ModuleLimits};

const EXAMPLES: &str = "\
Examples:
  wasmill embed plain.wasm manifest.json -o udf.wasm
  wasmill embed udf.wasm manifest.json            (in place)

The manifest is JSON as docs/abi.md describes it: records one after the other, or in an array. It takes the place of one that is there. The
result is checked as a module is that is loaded.";

/// Puts a manifest into a module
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct EmbedArgs {
    /// The module, a .wasm file
    module: PathBuf,

    /// The manifest, a JSON file
    manifest: PathBuf,

    /// Output file, or - for the standard output [default: the module itself]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// The custom section of the manifest, as the ABI names it.
const SECTION: &str = "wasmill.manifest";

pub(crate) fn execute(args: &EmbedArgs) -> Result<(), Failure> {
    let read = |path: &Path| {
        fs::read(path).map_err(|e| Failure::io(format!("cannot read {}: {e}", path.display())))
    };
    let module = read(&args.module)?;
    let manifest = read(&args.manifest)?;
    let manifest = records(&manifest).map_err(|e| {
        Failure::usage(format!(
            "the manifest {} is not JSON: {e}",
            args.manifest.display()
        ))
    })?;
    let mut bytes = without_manifest(&module).map_err(|reason| Failure {
        exit: super::failure::Exit::Module,
        message: format!("{} is not a module: {reason}", args.module.display()),
        hint: None,
    })?;
    append(&mut bytes, manifest.as_bytes());
    let name = args
        .module
        .file_stem()
        .map_or_else(|| "module".to_owned(), |s| s.to_string_lossy().into_owned());
    let info = ModuleInfo::from_bytes(&name, &bytes, &ModuleLimits::default())?;
    let target = args.output.as_ref().unwrap_or(&args.module);
    let name = if target == Path::new(STANDARD) {
        write_to_stdout(&bytes)?;
        "the standard output".to_owned()
    } else {
        let staged = StagedFile::create(target)?;
        fs::write(staged.path(), &bytes)
            .map_err(|e| Failure::io(format!("cannot write {}: {e}", target.display())))?;
        staged.commit()?;
        target.display().to_string()
    };
    let udfs = match info.manifest.functions().len() {
        1 => "1 UDF".to_owned(),
        n => format!("{n} UDFs"),
    };
    say(&format!("{udfs} → {name}"));
    Ok(())
}

fn write_to_stdout(module: &[u8]) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    if stdout.is_terminal() {
        return Err(Failure::io("a module is not for a terminal")
            .hint("name a file with -o FILE, or send it into a pipe"));
    }
    match stdout.write_all(module).and_then(|()| stdout.flush()) {
        Err(error) if !is_broken_pipe(&error) => Err(Failure::io(format!(
            "cannot write to the standard output: {error}"
        ))),
        _ => Ok(()),
    }
}

/// The records one a line, as the ABI has them; they may be given so, or spread over lines, or in an
/// array.
fn records(json: &[u8]) -> Result<String, serde_json::Error> {
    let mut lines = String::new();
    for value in serde_json::Deserializer::from_slice(json).into_iter::<serde_json::Value>() {
        let records = match value? {
            serde_json::Value::Array(records) => records,
            record => vec![record],
        };
        for record in records {
            lines.push_str(&format!("{record}\n"));
        }
    }
    Ok(lines)
}

/// The module without its manifest sections.
fn without_manifest(module: &[u8]) -> Result<Vec<u8>, String> {
    let mut kept = Vec::with_capacity(module.len());
    // What is kept from here to the next section that is left out.
    let mut from = 0_usize;
    // Where the section before ended, and with it where the header of the next begins.
    let mut end = 0_usize;
    for payload in Parser::new(0).parse_all(module) {
        let payload = payload.map_err(|e| e.message().to_owned())?;
        match &payload {
            Payload::Version {
                encoding, range, ..
            } => {
                if *encoding != wasmparser::Encoding::Module {
                    return Err("it is a component; a core module is expected".to_owned());
                }
                end = range.end;
            }
            Payload::CustomSection(section) if section.name() == SECTION => {
                kept.extend_from_slice(module.get(from..end).unwrap_or_default());
                from = section.range().end;
            }
            _ => {}
        }
        if let Some((_, range)) = payload.as_section() {
            end = range.end;
        }
    }
    kept.extend_from_slice(module.get(from..).unwrap_or_default());
    Ok(kept)
}

fn append(module: &mut Vec<u8>, manifest: &[u8]) {
    let mut contents = leb(SECTION.len());
    contents.extend_from_slice(SECTION.as_bytes());
    contents.extend_from_slice(manifest);
    module.push(0);
    module.extend(leb(contents.len()));
    module.extend(contents);
}

/// An unsigned number in LEB128, as the binary format of WebAssembly has them.
fn leb(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = u8::try_from(number & 0x7f).unwrap_or(0);
        number >>= 7;
        if number == 0 {
            bytes.push(low);
            return bytes;
        }
        bytes.push(low | 0x80);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_may_stand_in_any_form_of_json() {
        let expected = "{\"a\":1}\n{\"b\":2}\n";
        for json in [
            "{\"a\":1}\n{\"b\":2}\n",
            "[{\"a\":1},\n {\"b\":2}]",
            "{\n \"a\": 1\n}\n[{\"b\":2}]",
        ] {
            assert_eq!(records(json.as_bytes()).unwrap(), expected, "{json}");
        }
        assert!(records(b"{").is_err());
    }

    #[test]
    fn a_manifest_can_be_replaced() {
        let wat = "(module (memory (export \"memory\") 1) (func (export \"f\")))";
        let plain = wat::parse_str(wat).unwrap();
        let mut twice = plain.clone();
        append(&mut twice, b"{\"a\":1}");
        append(&mut twice, &[b' '; 300]);
        assert_eq!(without_manifest(&twice).unwrap(), plain);
        // A size may be written longer than it needs to be.
        let mut padded = plain.clone();
        padded.push(0);
        padded.extend([0x80 | 18, 0x80, 0x80, 0x80, 0]);
        padded.push(16);
        padded.extend(SECTION.as_bytes());
        padded.push(b'1');
        assert_eq!(without_manifest(&padded).unwrap(), plain);
        assert!(without_manifest(b"not a module").is_err());
    }
}
