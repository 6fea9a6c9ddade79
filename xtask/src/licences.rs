//! The licence check: every crate that any build of the workspace may use can be used under a
//! licence of a fixed list.

use std::collections::HashSet;

use serde_json::Value;

use crate::failure::{Failure, Result};
use crate::process;
use crate::workspace::Workspace;

/// What we accept. `deny.toml` has the same list.
const ALLOWED: [&str; 14] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
    "bzip2-1.0.6",
];

/// Checks the whole resolved graph: all targets, all features, development dependencies as well.
pub fn check(workspace: &Workspace) -> Result<()> {
    let mut cargo = workspace.cargo();
    cargo.args([
        "metadata",
        "--format-version",
        "1",
        "--all-features",
        "--locked",
    ]);
    let metadata: Value = serde_json::from_slice(&process::capture(&mut cargo)?)
        .map_err(|error| Failure::Failed(format!("`cargo metadata` answered no JSON: {error}")))?;
    let (packages, faults) = faults(&metadata);
    if packages == 0 {
        return Err(Failure::Failed(
            "`cargo metadata` named no packages".to_owned(),
        ));
    }
    if faults.is_empty() {
        println!("{packages} packages, all under licences of the list");
        return Ok(());
    }
    Err(Failure::Failed(format!(
        "licences that are not on the list in xtask/src/licences.rs:\n  {}",
        faults.join("\n  ")
    )))
}

/// The number of packages in the resolved graph, and a line for each that is not acceptable.
fn faults(metadata: &Value) -> (usize, Vec<String>) {
    let list = |value: &'_ Value| value.as_array().cloned().unwrap_or_default();
    let nodes = list(&metadata["resolve"]["nodes"]);
    let resolved: HashSet<&str> = nodes
        .iter()
        .filter_map(|node| node["id"].as_str())
        .collect();
    let packages = list(&metadata["packages"]);
    let used = packages.iter().filter(|package| {
        package["id"]
            .as_str()
            .is_some_and(|id| resolved.contains(id))
    });
    let mut count = 0;
    let mut faults = Vec::new();
    for package in used {
        count += 1;
        let fault = match package["license"].as_str() {
            None => Some("no licence expression".to_owned()),
            Some(expression) => match acceptable(expression) {
                Ok(true) => None,
                Ok(false) => Some(expression.to_owned()),
                Err(why) => Some(format!("'{expression}' cannot be read: {why}")),
            },
        };
        if let Some(fault) = fault {
            let text = |key: &str| package[key].as_str().unwrap_or("?").to_owned();
            faults.push(format!("{} {}: {fault}", text("name"), text("version")));
        }
    }
    (count, faults)
}

/// Whether an SPDX expression can be met with the licences of the list. The old form with `/`
/// between alternatives is read as well.
fn acceptable(expression: &str) -> std::result::Result<bool, String> {
    let mut parser = Parser {
        tokens: tokens(expression)?,
        at: 0,
    };
    let value = parser.either()?;
    match parser.peek() {
        None => Ok(value),
        Some(token) => Err(format!("'{token}' is not expected")),
    }
}

fn tokens(expression: &str) -> std::result::Result<Vec<&str>, String> {
    let mut tokens = Vec::new();
    let mut rest = expression.trim_start();
    while let Some(first) = rest.chars().next() {
        let in_word = |c: char| c.is_ascii_alphanumeric() || "-.+:".contains(c);
        let len = match first {
            '(' | ')' | '/' => 1,
            _ => rest.find(|c| !in_word(c)).unwrap_or(rest.len()),
        };
        if len == 0 {
            return Err(format!("'{first}' is not expected"));
        }
        let (token, tail) = rest.split_at(len);
        tokens.push(token);
        rest = tail.trim_start();
    }
    Ok(tokens)
}

/// Recursive descent over: either = both ("OR" both)*; both = one ("AND" one)*;
/// one = "(" either ")" | licence ["WITH" exception].
struct Parser<'a> {
    tokens: Vec<&'a str>,
    at: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.tokens.get(self.at).copied()
    }

    fn accept(&mut self, words: &[&str]) -> bool {
        let found = self.peek().is_some_and(|token| words.contains(&token));
        self.at += usize::from(found);
        found
    }

    fn either(&mut self) -> std::result::Result<bool, String> {
        let mut value = self.both()?;
        while self.accept(&["OR", "or", "/"]) {
            value |= self.both()?;
        }
        Ok(value)
    }

    fn both(&mut self) -> std::result::Result<bool, String> {
        let mut value = self.one()?;
        while self.accept(&["AND", "and"]) {
            value &= self.one()?;
        }
        Ok(value)
    }

    fn one(&mut self) -> std::result::Result<bool, String> {
        if self.accept(&["("]) {
            let value = self.either()?;
            return if self.accept(&[")"]) {
                Ok(value)
            } else {
                Err("')' is missing".to_owned())
            };
        }
        let licence = self.identifier()?;
        if self.accept(&["WITH", "with"]) {
            let exception = self.identifier()?;
            Ok(ALLOWED.contains(&format!("{licence} WITH {exception}").as_str()))
        } else {
            Ok(ALLOWED.contains(&licence))
        }
    }

    fn identifier(&mut self) -> std::result::Result<&'a str, String> {
        const RESERVED: [&str; 9] = ["(", ")", "/", "OR", "or", "AND", "and", "WITH", "with"];
        let token = self.peek().ok_or("it ends too early")?;
        if RESERVED.contains(&token) {
            return Err(format!("'{token}' stands where a licence should"));
        }
        self.at += 1;
        Ok(token)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn expressions_are_met_as_spdx_says() {
        let cases = [
            ("MIT", true),
            ("GPL-3.0-only", false),
            ("MIT OR Apache-2.0", true),
            ("GPL-2.0-only OR BSD-3-Clause", true),
            ("MIT OR Apache-2.0 OR LGPL-2.1-or-later", true),
            ("MIT AND GPL-3.0-only", false),
            ("BSD-3-Clause AND BSD-2-Clause", true),
            // AND binds more tightly than OR.
            ("MIT OR GPL-3.0-only AND GPL-2.0-only", true),
            ("(MIT OR GPL-3.0-only) AND GPL-2.0-only", false),
            ("(MIT OR Apache-2.0) AND Unicode-3.0", true),
            ("((MIT))", true),
            ("Apache-2.0 WITH LLVM-exception", true),
            ("Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT", true),
            ("Apache-2.0 WITH Classpath-exception-2.0", false),
            ("GPL-2.0-only WITH Classpath-exception-2.0", false),
            ("MIT/Apache-2.0", true),
            ("Apache-2.0 / MIT", true),
            ("GPL-3.0/Unlicense", true),
            ("GPL-3.0/AGPL-3.0", false),
            // A later version of an accepted licence is not accepted by itself.
            ("Apache-2.0+", false),
            ("LicenseRef-Own", false),
            ("MIT or Apache-2.0", true),
        ];
        for (expression, expected) in cases {
            assert_eq!(acceptable(expression), Ok(expected), "{expression}");
        }
    }

    #[test]
    fn what_is_no_expression_is_refused() {
        for expression in [
            "",
            "MIT OR",
            "OR MIT",
            "(MIT",
            "MIT)",
            "MIT Apache-2.0",
            "MIT WITH",
            "MIT, ISC",
            "()",
        ] {
            assert!(acceptable(expression).is_err(), "{expression}");
        }
    }

    #[test]
    fn packages_outside_the_resolved_graph_do_not_count() {
        let metadata = json!({
            "packages": [
                {"id": "a", "name": "a", "version": "1.0.0", "license": "MIT"},
                {"id": "b", "name": "b", "version": "2.0.0", "license": "AGPL-3.0-only"},
                {"id": "c", "name": "c", "version": "3.0.0", "license": null},
                {"id": "d", "name": "d", "version": "4.0.0", "license": "MIT,ISC"},
                {"id": "e", "name": "e", "version": "5.0.0", "license": "AGPL-3.0-only"},
            ],
            "resolve": {"nodes": [{"id": "a"}, {"id": "b"}, {"id": "c"}, {"id": "d"}]},
        });
        let (count, faults) = faults(&metadata);
        assert_eq!(count, 4);
        assert_eq!(faults.len(), 3);
        assert_eq!(faults[0], "b 2.0.0: AGPL-3.0-only");
        assert_eq!(faults[1], "c 3.0.0: no licence expression");
        assert!(
            faults[2].starts_with("d 4.0.0: 'MIT,ISC' cannot be read"),
            "{}",
            faults[2]
        );
    }

    #[test]
    fn deny_toml_has_the_same_list() {
        let path = crate::workspace::root().join("deny.toml");
        let text = std::fs::read_to_string(path).unwrap();
        let (_, licences) = text.split_once("[licenses]").unwrap();
        let (_, list) = licences.split_once("allow = [").unwrap();
        let (list, _) = list.split_once(']').unwrap();
        let list: Vec<&str> = list.split('"').skip(1).step_by(2).collect();
        assert_eq!(list, ALLOWED);
    }
}
