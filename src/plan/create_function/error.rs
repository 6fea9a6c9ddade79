//! What can be wrong with `CREATE FUNCTION`.

use datafusion::common::DataFusionError;

/// Why a `CREATE FUNCTION` was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CreateFunctionError {
    /// Another language, or none.
    #[error(
        "the function `{name}` {}; write LANGUAGE WASM",
        language.as_ref().map_or("names no language".to_owned(), |l| format!("is in the language {l}"))
    )]
    Language {
        /// The function.
        name: String,
        /// The language that was named.
        language: Option<String>,
    },
    /// A function of that name is there.
    #[error(
        "there is a function `{name}`; write CREATE OR REPLACE FUNCTION, or DROP FUNCTION {name} first"
    )]
    Exists {
        /// The function.
        name: String,
    },
    /// The text after `AS`.
    #[error(
        "the body of the function `{name}` is refused: {reason}; write AS 'file.wasm#udf', with settings AS 'file.wasm#udf?sha256=…&init={{…}}'"
    )]
    Body {
        /// The function.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// The module lies where nothing may be loaded from.
    #[error(
        "modules may not be loaded from {place}: allowed are {allowed}; move the module there, or have whoever runs this program allow its folder (`WasmFunctions::allow_folder`, `--allow-modules`)"
    )]
    NotAllowed {
        /// Where the module was asked for.
        place: String,
        /// From where modules may come.
        allowed: String,
    },
    /// There is no such file, or it cannot be read.
    #[error("the module {place} cannot be read: {reason}{searched}")]
    Unreadable {
        /// Where the module was asked for.
        place: String,
        /// What the system said.
        reason: String,
        /// Where it was looked for.
        searched: String,
    },
    /// The bytes are not those that were pinned.
    #[error(
        "the module of the function `{name}` has the digest {found}, and the statement pins {pinned}; if the module was meant to change, pin its new digest"
    )]
    Digest {
        /// The function.
        name: String,
        /// The digest in the statement.
        pinned: String,
        /// The digest of the bytes.
        found: String,
    },
    /// Types that the function does not have.
    #[error(
        "the function `{name}` is declared with types that it does not have: {reason}; the module has {has}. Leave the types out, as in CREATE FUNCTION {name}(), to take them from the module"
    )]
    Signature {
        /// The function.
        name: String,
        /// What does not fit.
        reason: String,
        /// The signatures in the manifest.
        has: String,
    },
    /// Less volatile than it is.
    #[error(
        "the function `{name}` is declared {declared}, and its module says that it is {manifest}; leave the word out, or write {manifest}"
    )]
    Volatility {
        /// The function.
        name: String,
        /// What the statement says.
        declared: &'static str,
        /// What the module says.
        manifest: &'static str,
    },
}

impl From<CreateFunctionError> for DataFusionError {
    fn from(error: CreateFunctionError) -> Self {
        DataFusionError::External(Box::new(error))
    }
}
