//! `CREATE FUNCTION … LANGUAGE WASM`: modules by name from SQL, from where the embedder allowed.

mod body;
mod error;

use std::fmt;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::datatypes::DataType;
use async_trait::async_trait;
use cap_std::ambient_authority;
use cap_std::fs::Dir;
use datafusion::common::{DataFusionError, Result};
use datafusion::config::ExtensionOptions as _;
use datafusion::execution::SessionState;
use datafusion::execution::context::{FunctionFactory, RegisterFunction};
use datafusion::logical_expr::{CreateFunction, Expr, Volatility};
use datafusion::object_store::{ObjectStoreExt as _, path::Path as ObjectPath};
use tokio::task::spawn_blocking;
use url::Url;

use self::body::Body;
pub use self::error::CreateFunctionError;
use super::coerce::parameter_types;
use super::function::WasmFunction;
use super::install;
use super::options::{SqlSettings, UdfOptions};
use crate::{Argument, Engine, Module};

/// Makes functions for `CREATE FUNCTION … LANGUAGE WASM AS 'file.wasm#udf'`: a function factory for a
/// session, which knows where modules may come from and what their functions may do at most.
///
/// ```
/// use std::sync::Arc;
/// use datafusion::prelude::SessionContext;
/// use wasmill::plan::{UdfOptions, WasmFunctions, install};
/// use wasmill::{Engine, EngineConfig};
///
/// let engine = Engine::new(&EngineConfig::default())?;
/// let functions = WasmFunctions::new(&engine, UdfOptions::default()).allow_folder(".")?;
/// let context = SessionContext::new().with_function_factory(Arc::new(functions));
/// install(&context);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// The body is `PLACE#UDF`, and may go on with `?` and settings that `&` separates:
/// `sha256=HEX` pins the module's bytes, `init=JSON` are the arguments of `init`, the others are those of
/// `SET wasmill.…`: `'text.wasm#slugify?slots=2&on_error=null'`.
pub struct WasmFunctions {
    engine: Engine,
    options: UdfOptions,
    folders: Vec<(PathBuf, Dir)>,
    prefixes: Vec<Url>,
}

impl WasmFunctions {
    /// No place is allowed yet. `options` are the most that a function may do, and its settings where SQL
    /// says nothing.
    pub fn new(engine: &Engine, options: UdfOptions) -> Self {
        WasmFunctions {
            engine: engine.clone(),
            options,
            folders: Vec::new(),
            prefixes: Vec::new(),
        }
    }

    /// Allows the modules in a folder and the folders below. Links that lead out of it are not followed.
    /// Names that are not absolute are looked for in each allowed folder, in the order of this.
    ///
    /// # Errors
    /// When the folder cannot be opened.
    pub fn allow_folder(mut self, folder: impl AsRef<Path>) -> std::io::Result<Self> {
        let folder = folder.as_ref().canonicalize()?;
        let dir = Dir::open_ambient_dir(&folder, ambient_authority())?;
        self.folders.push((folder, dir));
        Ok(self)
    }

    /// Allows the modules whose address begins with `prefix`, which ends in `/`. They are read through the
    /// object store that the session's runtime has for it.
    #[must_use]
    pub fn allow_prefix(mut self, prefix: Url) -> Self {
        self.prefixes.push(prefix);
        self
    }

    async fn module(&self, place: &str, state: &SessionState) -> Result<Module> {
        let limit = self.engine.limits().module_bytes;
        let (name, bytes) = match Url::parse(place) {
            // A drive letter is no scheme.
            Ok(url) if url.scheme().len() > 1 => {
                (place.to_owned(), self.fetch(&url, state, limit).await?)
            }
            _ => (file_stem(place), self.read(place, limit)?),
        };
        let engine = self.engine.clone();
        spawn_blocking(move || Module::from_bytes(&engine, &name, &bytes))
            .await
            .map_err(|e| DataFusionError::External(Box::new(e)))?
            .map_err(super::to_datafusion)
    }

    fn read(&self, place: &str, limit: u64) -> Result<Vec<u8>, CreateFunctionError> {
        let path = Path::new(place);
        let mut first_error = None;
        for (folder, dir) in &self.folders {
            let inside = match path.is_absolute() {
                true => match path.strip_prefix(folder) {
                    Ok(inside) => inside,
                    Err(_) => continue,
                },
                false => path,
            };
            match read_bounded(dir, inside, limit) {
                Ok(bytes) => return Ok(bytes),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    first_error = first_error.or(Some(error));
                }
                Err(source) => {
                    return Err(CreateFunctionError::Unreadable {
                        place: folder.join(inside).display().to_string(),
                        reason: source.to_string(),
                        searched: String::new(),
                    });
                }
            }
        }
        let allowed = self.allowed();
        Err(match first_error {
            Some(error) => CreateFunctionError::Unreadable {
                place: place.to_owned(),
                reason: error.to_string(),
                searched: format!("; it was looked for in {allowed}"),
            },
            None => CreateFunctionError::NotAllowed {
                place: place.to_owned(),
                allowed,
            },
        })
    }

    async fn fetch(
        &self,
        url: &Url,
        state: &SessionState,
        limit: u64,
    ) -> Result<Vec<u8>, CreateFunctionError> {
        let is_below = |prefix: &Url| {
            prefix.scheme() == url.scheme()
                && prefix.host() == url.host()
                && prefix.port_or_known_default() == url.port_or_known_default()
                && prefix.path().ends_with('/')
                && url.path().starts_with(prefix.path())
        };
        if !self.prefixes.iter().any(is_below) {
            return Err(CreateFunctionError::NotAllowed {
                place: url.to_string(),
                allowed: self.allowed(),
            });
        }
        let unreadable = |reason: String| CreateFunctionError::Unreadable {
            place: url.to_string(),
            reason,
            searched: String::new(),
        };
        let store = state
            .runtime_env()
            .object_store_registry
            .get_store(url)
            .map_err(|e| unreadable(e.strip_backtrace()))?;
        let path = ObjectPath::from_url_path(url.path()).map_err(|e| unreadable(e.to_string()))?;
        let found = store
            .head(&path)
            .await
            .map_err(|e| unreadable(e.to_string()))?;
        if found.size > limit {
            return Err(unreadable(format!(
                "it has {} bytes, and at most {limit} are accepted",
                found.size
            )));
        }
        let bytes = async { store.get(&path).await?.bytes().await };
        let bytes = bytes.await.map_err(|e| unreadable(e.to_string()))?;
        Ok(bytes.to_vec())
    }

    /// The allowed places, for messages.
    fn allowed(&self) -> String {
        let folders = self.folders.iter().map(|(f, _)| f.display().to_string());
        let all: Vec<String> = folders
            .chain(self.prefixes.iter().map(Url::to_string))
            .collect();
        match all.as_slice() {
            [] => "no place at all".to_owned(),
            all => all.join(", "),
        }
    }

    /// The function that a statement describes.
    async fn made(&self, state: &SessionState, statement: CreateFunction) -> Result<WasmFunction> {
        let name = statement.name.clone();
        let language = statement.params.language.as_ref().map(|l| l.value.clone());
        if !language
            .as_deref()
            .is_some_and(|l| l.eq_ignore_ascii_case("wasm"))
        {
            return Err(CreateFunctionError::Language { name, language }.into());
        }
        if !statement.or_replace && state.scalar_functions().contains_key(&name) {
            return Err(CreateFunctionError::Exists { name }.into());
        }
        let wrong = |reason: String| CreateFunctionError::Body {
            name: statement.name.clone(),
            reason,
        };
        let text = match &statement.params.function_body {
            Some(Expr::Literal(value, _)) => value.try_as_str().flatten().map(str::to_owned),
            _ => None,
        };
        let text =
            text.ok_or_else(|| wrong("it is missing, or not a text in quotes".to_owned()))?;
        let body = Body::parse(&text).map_err(wrong)?;
        let module = self.module(&body.place, state).await?;
        if let Some(pinned) = &body.sha256 {
            let found = module.digest().to_string();
            if !pinned.eq_ignore_ascii_case(&found) {
                let pinned = pinned.clone();
                return Err(CreateFunctionError::Digest {
                    name,
                    pinned,
                    found,
                }
                .into());
            }
        }
        let mut settings = SqlSettings::default();
        for (key, value) in &body.settings {
            settings.set(key, value)?;
        }
        let mut options = self.options.lowered_by(&settings)?;
        if let Some(init) = body.init {
            options.init_args = init;
        }
        let udf = body.udf.as_deref().unwrap_or(&name).to_owned();
        let options = Arc::new(options);
        let function =
            WasmFunction::new(&module, &udf, &name, &options).map_err(super::to_datafusion)?;
        let function = self.checked(function, &module, &udf, &statement)?;
        Ok(function.under(state.config_options())?.unwrap_or(function))
    }

    /// Checks what the statement says of the function against what the manifest says.
    fn checked(
        &self,
        function: WasmFunction,
        module: &Module,
        udf: &str,
        statement: &CreateFunction,
    ) -> Result<WasmFunction> {
        let name = &statement.name;
        let has = function.signatures();
        let arguments = statement.args.as_deref().unwrap_or_default();
        if let Some(default) = arguments.iter().find(|a| a.default_expr.is_some()) {
            return Err(CreateFunctionError::Signature {
                name: name.clone(),
                reason: format!(
                    "an argument of type {} has a default value, which no UDF has",
                    default.data_type
                ),
                has,
            }
            .into());
        }
        let declared: Vec<DataType> = arguments.iter().map(|a| a.data_type.clone()).collect();
        let says_types = !declared.is_empty() || statement.return_type.is_some();
        if says_types {
            let mismatch = |reason| CreateFunctionError::Signature {
                name: name.clone(),
                reason,
                has: has.clone(),
            };
            let shown: Vec<String> = declared.iter().map(ToString::to_string).collect();
            let types = parameter_types(module, udf, &declared)
                .ok_or_else(|| mismatch(format!("`{udf}` does not take ({})", shown.join(", "))))?;
            if let Some(returns) = &statement.return_type {
                let call = function.bind(
                    types
                        .iter()
                        .map(|t| {
                            Argument::column(arrow::datatypes::Field::new("", t.clone(), true))
                        })
                        .collect(),
                )?;
                let found = call.result().data_type();
                if !is_alike(returns, found) {
                    return Err(mismatch(format!("`{udf}` returns {found}, not {returns}")).into());
                }
            }
        }
        match statement.params.behavior {
            None => Ok(function),
            Some(behavior) if behavior >= function.volatility() => Ok(function.volatile(behavior)),
            Some(behavior) => Err(CreateFunctionError::Volatility {
                name: name.clone(),
                declared: shown(behavior),
                manifest: shown(function.volatility()),
            }
            .into()),
        }
    }
}

fn shown(volatility: Volatility) -> &'static str {
    match volatility {
        Volatility::Immutable => "IMMUTABLE",
        Volatility::Stable => "STABLE",
        Volatility::Volatile => "VOLATILE",
    }
}

/// Whether a type of SQL means this type: texts and bytes have three forms each in Arrow.
fn is_alike(declared: &DataType, found: &DataType) -> bool {
    use DataType::{Binary, BinaryView, LargeBinary, LargeUtf8, Utf8, Utf8View};
    let is_text = |t: &DataType| matches!(t, Utf8 | LargeUtf8 | Utf8View);
    let is_bytes = |t: &DataType| matches!(t, Binary | LargeBinary | BinaryView);
    declared.equals_datatype(found)
        || (is_text(declared) && is_text(found))
        || (is_bytes(declared) && is_bytes(found))
}

/// A file's bytes, if there are not too many.
fn read_bounded(dir: &Dir, path: &Path, limit: u64) -> std::io::Result<Vec<u8>> {
    let file = dir.open(path)?;
    if !file.metadata()?.is_file() {
        return Err(std::io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    // One byte more shows that there are too many: loading it says so.
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn file_stem(place: &str) -> String {
    let stem = Path::new(place).file_stem();
    stem.map_or_else(|| place.to_owned(), |s| s.to_string_lossy().into_owned())
}

impl fmt::Debug for WasmFunctions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WasmFunctions")
            .field("allowed", &self.allowed())
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl FunctionFactory for WasmFunctions {
    async fn create(
        &self,
        state: &SessionState,
        statement: CreateFunction,
    ) -> Result<RegisterFunction> {
        let function = self.made(state, statement).await?;
        Ok(RegisterFunction::Scalar(Arc::new(install::as_udf(
            function,
        ))))
    }
}
