//! Where things are: the root, the target folder and the packages of the workspace.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::failure::{Failure, Result};

/// The repository's root.
pub fn root() -> PathBuf {
    // Cargo sets the variable for `cargo run`, so that a moved or shared build still finds its own
    // checkout.
    let manifest_dir = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    manifest_dir
        .parent()
        .map_or(manifest_dir.clone(), Path::to_path_buf)
}

pub struct Workspace {
    pub root: PathBuf,
    /// Where cargo's output goes: `target`, or what `CARGO_TARGET_DIR` or cargo's configuration say.
    pub target: PathBuf,
    pub packages: Vec<Package>,
}

/// A package of the workspace.
pub struct Package {
    pub name: String,
    /// The folder that holds its `Cargo.toml`.
    pub folder: PathBuf,
    /// The name of its `cdylib` target, if it has one.
    pub cdylib: Option<String>,
}

impl Workspace {
    pub fn locate() -> Result<Workspace> {
        let mut command = cargo(&root());
        command.args(["metadata", "--no-deps", "--format-version", "1"]);
        let output = command
            .stderr(std::process::Stdio::inherit())
            .output()
            .map_err(|error| Failure::Failed(format!("cannot start cargo: {error}")))?;
        if !output.status.success() {
            return Err(Failure::Failed("`cargo metadata` failed".to_owned()));
        }
        serde_json::from_slice(&output.stdout)
            .ok()
            .and_then(|metadata| Workspace::from_metadata(&metadata))
            .ok_or_else(|| {
                Failure::Failed("`cargo metadata` answered something unexpected".to_owned())
            })
    }

    fn from_metadata(metadata: &Value) -> Option<Workspace> {
        let packages = metadata["packages"]
            .as_array()?
            .iter()
            .map(Package::from_metadata);
        Some(Workspace {
            root: metadata["workspace_root"].as_str()?.into(),
            target: metadata["target_directory"].as_str()?.into(),
            packages: packages.collect::<Option<_>>()?,
        })
    }

    /// The folder of the built modules.
    pub fn udfs(&self) -> PathBuf {
        self.target.join("udfs")
    }

    /// A cargo command that runs in the root.
    pub fn cargo(&self) -> Command {
        cargo(&self.root)
    }

    /// `path` as somebody in the root would type it.
    pub fn relative<'a>(&self, path: &'a Path) -> &'a Path {
        path.strip_prefix(&self.root).unwrap_or(path)
    }
}

impl Package {
    fn from_metadata(package: &Value) -> Option<Package> {
        let is_cdylib = |target: &&Value| {
            target["crate_types"]
                .as_array()
                .is_some_and(|types| types.iter().any(|kind| kind == "cdylib"))
        };
        let cdylib = package["targets"].as_array()?.iter().find(is_cdylib);
        Some(Package {
            name: package["name"].as_str()?.to_owned(),
            folder: Path::new(package["manifest_path"].as_str()?)
                .parent()?
                .to_owned(),
            cdylib: cdylib
                .and_then(|target| target["name"].as_str())
                .map(str::to_owned),
        })
    }
}

fn cargo(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    // What `cargo run` said about this package would make build scripts that watch such variables
    // run again.
    for (name, _) in std::env::vars_os() {
        let of_package = name.to_str().is_some_and(|name| {
            name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
        });
        if of_package {
            command.env_remove(name);
        }
    }
    command
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn packages_and_folders_are_read_from_metadata() {
        let metadata = json!({
            "workspace_root": "/w",
            "target_directory": "/t",
            "packages": [
                {"name": "wasmill-udf-math", "manifest_path": "/w/udfs/math/Cargo.toml", "targets": [
                    {"name": "math", "crate_types": ["cdylib", "rlib"]}]},
                {"name": "xtask", "manifest_path": "/w/xtask/Cargo.toml", "targets": [
                    {"name": "xtask", "crate_types": ["bin"]}]},
            ],
        });
        let workspace = Workspace::from_metadata(&metadata).unwrap();
        assert_eq!(workspace.udfs(), Path::new("/t/udfs"));
        assert_eq!(
            workspace.relative(Path::new("/w/data/a.csv")),
            Path::new("data/a.csv")
        );
        assert_eq!(workspace.packages[0].cdylib.as_deref(), Some("math"));
        assert_eq!(workspace.packages[0].folder, Path::new("/w/udfs/math"));
        assert!(workspace.packages[1].cdylib.is_none());
    }

    #[test]
    fn metadata_of_another_shape_is_refused() {
        assert!(Workspace::from_metadata(&json!({"packages": []})).is_none());
        assert!(Workspace::from_metadata(&json!([1, 2])).is_none());
    }
}
