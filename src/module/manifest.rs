//! The manifest: which UDFs a module has. Read from the custom section, never trusted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use serde::{Deserialize, Serialize, Serializer};

use super::ModuleLimits;
use super::types::TypeRecord;
use crate::abi::frame::{clean_line, misleads};

/// The ABI version that this host speaks.
pub const ABI_VERSION: u32 = 1;
const MAX_NAME: usize = 128;
const MAX_DOC: usize = 64 << 10;
const MAX_PARAMETERS: usize = 256;
/// Rows that the host gathers for one call at a guest's wish.
const MAX_BATCH_SIZE: u32 = 1 << 20;

/// The UDFs of a module, as its manifest declares them.
#[derive(Debug, Clone, Serialize)]
pub struct Manifest {
    functions: Vec<Arc<Function>>,
}

/// One UDF, or one overload of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Function {
    /// The UDF's name.
    pub name: String,
    /// Its documentation, Markdown.
    pub doc: String,
    /// Its parameters.
    pub parameters: Vec<Parameter>,
    /// What comes back.
    pub result: ResultType,
    /// Whether equal arguments give equal results.
    pub volatility: Volatility,
    /// What happens to nulls.
    pub nulls: NullHandling,
    /// Whether constant arguments may be sent as one row.
    pub constants: bool,
    /// Rows per call that suit the function best.
    pub batch_size: Option<usize>,
    /// The state it works on; `None` for a stateless function.
    pub state: Option<Arc<State>>,
    pub(crate) symbol: String,
    pub(crate) bind: Option<String>,
}

/// A parameter of a UDF.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// What it takes.
    pub accepts: ParameterType,
}

/// What a parameter takes.
#[derive(Debug, Clone, PartialEq)]
pub enum ParameterType {
    /// One type.
    Exact(FieldRef),
    /// Any type.
    Any,
}

/// What a UDF gives back.
#[derive(Debug, Clone, PartialEq)]
pub enum ResultType {
    /// One type.
    Exact(FieldRef),
    /// The type and nullability of an argument, counted from 0.
    SameAs(usize),
    /// What the function's `bind` answers.
    Bound,
}

/// Whether equal arguments give equal results, in the words of SQL engines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Volatility {
    /// Always.
    Immutable,
    /// Within one query.
    Stable,
    /// No: each call counts.
    Volatile,
}

/// What happens to nulls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NullHandling {
    /// A null argument makes a null result; the host sees to it.
    Propagate,
    /// The guest sees nulls and answers them.
    Handle,
}

/// What `init` makes and methods share.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct State {
    /// Its name.
    pub name: String,
    /// Whether rows depend on each other through it.
    pub kind: StateKind,
    /// JSON Schema of the init arguments.
    pub init_args: serde_json::Value,
    /// Whether it wants `close` to be called.
    pub closes: bool,
    /// Whether the memory image after `init` may start further slots.
    pub snapshot: bool,
    #[serde(skip)]
    pub(crate) init: String,
    #[serde(skip)]
    pub(crate) close: Option<String>,
}

/// Whether rows depend on each other through a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StateKind {
    /// They do not: a model, a dictionary, a cache. Any slot may serve any row.
    Resource,
    /// They may: a running mean, a session. One slot, in input order.
    Sequence,
}

/// Parameters and results are written as the manifest writes them.
impl Serialize for Parameter {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.accepts {
            ParameterType::Exact(field) => field_record(field, serializer),
            ParameterType::Any => {
                serde_json::json!({ "name": self.name, "any": true }).serialize(serializer)
            }
        }
    }
}

impl Serialize for ResultType {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            ResultType::Exact(field) => field_record(field, serializer),
            ResultType::SameAs(n) => serde_json::json!({ "same_as": n }).serialize(serializer),
            ResultType::Bound => serde_json::json!({ "bound": true }).serialize(serializer),
        }
    }
}

fn field_record<S: Serializer>(field: &FieldRef, serializer: S) -> Result<S::Ok, S::Error> {
    TypeRecord::from_field(field)
        .map_err(serde::ser::Error::custom)?
        .serialize(serializer)
}

impl Manifest {
    /// Reads the joined manifest sections of a module.
    pub(crate) fn parse(bytes: &[u8], limits: &ModuleLimits) -> Result<Self, String> {
        let text = std::str::from_utf8(bytes).map_err(|e| format!("it is not UTF-8: {e}"))?;
        let mut functions: Vec<Arc<Function>> = Vec::new();
        let mut states: BTreeMap<String, Arc<State>> = BTreeMap::new();
        for (line, record) in text
            .split('\n')
            .enumerate()
            .filter(|(_, l)| !l.trim().is_empty())
        {
            if functions.len() as u64 >= limits.manifest_records {
                return Err(format!("more than {} records", limits.manifest_records));
            }
            let at = |e: String| format!("record {line}: {}", clean_line(&e));
            let function = Record::parse(record)
                .and_then(|r| r.check(&mut states))
                .map_err(at)?;
            functions.push(Arc::new(function));
        }
        if functions.is_empty() {
            return Err("it has no record".to_owned());
        }
        let mut seen = BTreeSet::new();
        for function in &functions {
            if !seen.insert((function.name.clone(), function.signature())) {
                return Err(format!(
                    "two records declare {}({})",
                    function.name,
                    function.signature()
                ));
            }
        }
        // The linker decides about the order of records, and not always alike.
        functions.sort_by_cached_key(|function| (function.name.clone(), function.signature()));
        Ok(Manifest { functions })
    }

    /// All UDFs, by name, and overloads by their types.
    pub fn functions(&self) -> &[Arc<Function>] {
        &self.functions
    }

    /// The overloads of one name.
    pub fn overloads<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Arc<Function>> {
        self.functions.iter().filter(move |f| f.name == name)
    }

    /// The states of the module, each once.
    pub fn states(&self) -> Vec<&Arc<State>> {
        let mut states: Vec<&Arc<State>> = Vec::new();
        for state in self.functions.iter().filter_map(|f| f.state.as_ref()) {
            if !states.iter().any(|s| s.name == state.name) {
                states.push(state);
            }
        }
        states
    }

    /// The names of all UDFs, each once.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for function in &self.functions {
            if !names.contains(&function.name.as_str()) {
                names.push(&function.name);
            }
        }
        names
    }
}

impl Function {
    /// The parameter types as people read them: `Int64, any`.
    pub fn signature(&self) -> String {
        let types: Vec<String> = self
            .parameters
            .iter()
            .map(|p| match &p.accepts {
                ParameterType::Exact(field) => field.data_type().to_string(),
                ParameterType::Any => "any".to_owned(),
            })
            .collect();
        types.join(", ")
    }

    /// Whether calls must stay in one slot and in input order.
    pub fn is_sequence(&self) -> bool {
        self.state
            .as_ref()
            .is_some_and(|s| s.kind == StateKind::Sequence)
    }
}

/// A record as JSON has it.
#[derive(Deserialize)]
struct Record {
    abi: serde_json::Value,
    kind: String,
    name: String,
    symbol: String,
    args: Vec<ParameterRecord>,
    result: ResultRecord,
    #[serde(default)]
    doc: String,
    volatility: Volatility,
    nulls: NullHandling,
    #[serde(default)]
    constants: bool,
    batch_size: Option<u32>,
    bind: Option<String>,
    state: Option<StateRecord>,
}

#[derive(Deserialize)]
struct ParameterRecord {
    #[serde(default)]
    name: String,
    #[serde(default)]
    any: bool,
    #[serde(flatten)]
    rest: serde_json::Map<String, serde_json::Value>,
}

#[derive(Deserialize)]
struct ResultRecord {
    same_as: Option<usize>,
    #[serde(default)]
    bound: bool,
    #[serde(flatten)]
    rest: serde_json::Map<String, serde_json::Value>,
}

#[derive(Deserialize)]
struct StateRecord {
    name: String,
    kind: StateKind,
    init: String,
    close: Option<String>,
    #[serde(default)]
    init_args: serde_json::Value,
    #[serde(default)]
    snapshot: bool,
}

impl Record {
    fn parse(text: &str) -> Result<Self, String> {
        // The version first: a record of a later version may have any shape otherwise.
        let value: serde_json::Value =
            serde_json::from_str(text).map_err(|e| format!("not a JSON object: {e}"))?;
        match value.get("abi") {
            Some(v) if v.as_u64() == Some(u64::from(ABI_VERSION)) => {}
            Some(v) => {
                return Err(format!(
                    "it asks for ABI version {v}; this host speaks version {ABI_VERSION}: build the module with a matching SDK"
                ));
            }
            None => return Err("it has no `abi`".to_owned()),
        }
        serde_json::from_value(value).map_err(|e| e.to_string())
    }

    fn check(self, states: &mut BTreeMap<String, Arc<State>>) -> Result<Function, String> {
        debug_assert!(self.abi.is_number());
        let name = self.name;
        if !is_name(&name) {
            return Err(format!(
                "{:?} is not a name: ASCII letters, digits and `_`, at most {MAX_NAME}",
                bounded(&name)
            ));
        }
        let at = |e: String| format!("`{name}`: {e}");
        if self.kind != "scalar" {
            return Err(at(format!(
                "kind {:?} is not supported by this version of Wasmill, which runs \"scalar\"",
                bounded(&self.kind)
            )));
        }
        if self.doc.len() > MAX_DOC || self.args.len() > MAX_PARAMETERS {
            return Err(at(format!(
                "more than {MAX_DOC} bytes of documentation or {MAX_PARAMETERS} parameters"
            )));
        }
        let parameters = self
            .args
            .into_iter()
            .map(ParameterRecord::check)
            .collect::<Result<Vec<_>, _>>()
            .map_err(at)?;
        for (i, parameter) in parameters.iter().enumerate() {
            if parameters.iter().take(i).any(|p| p.name == parameter.name) {
                return Err(at(format!("two parameters are named {:?}", parameter.name)));
            }
        }
        let result = self.result.check(&name).map_err(at)?;
        match &result {
            ResultType::SameAs(n) if *n >= parameters.len() => {
                return Err(at(format!(
                    "`same_as` names argument {n} of {}",
                    parameters.len()
                )));
            }
            ResultType::Bound if self.bind.is_none() => {
                return Err(at("a `bound` result needs a `bind` export".to_owned()));
            }
            ResultType::Exact(field) if self.nulls == NullHandling::Propagate => {
                check_propagates(field.data_type()).map_err(at)?
            }
            _ => {}
        }
        for symbol in [Some(&self.symbol), self.bind.as_ref()]
            .into_iter()
            .flatten()
        {
            check_symbol(symbol).map_err(at)?;
        }
        let state = self
            .state
            .map(|s| s.check(states))
            .transpose()
            .map_err(at)?;
        let batch_size = match self.batch_size {
            Some(0) => return Err(at("`batch_size` is 0".to_owned())),
            Some(n) if n > MAX_BATCH_SIZE => {
                return Err(at(format!("`batch_size` is {n}, at most {MAX_BATCH_SIZE}")));
            }
            Some(n) => Some(usize::try_from(n).map_err(|e| at(e.to_string()))?),
            None => None,
        };
        Ok(Function {
            parameters,
            result,
            doc: self.doc,
            volatility: self.volatility,
            nulls: self.nulls,
            constants: self.constants,
            batch_size,
            state,
            symbol: self.symbol,
            bind: self.bind,
            name,
        })
    }
}

/// Types that have no validity of their own cannot be masked by the host.
pub(crate) fn check_propagates(data_type: &DataType) -> Result<(), String> {
    match data_type {
        DataType::Null | DataType::Union(..) | DataType::RunEndEncoded(..) => Err(format!(
            "{data_type} has no validity of its own, so nulls cannot propagate into it: declare `\"nulls\":\"handle\"`"
        )),
        _ => Ok(()),
    }
}

impl ParameterRecord {
    fn check(self) -> Result<Parameter, String> {
        if self.name.is_empty() || self.name.len() > MAX_NAME || self.name.chars().any(misleads) {
            return Err(format!("{:?} is not a parameter name", bounded(&self.name)));
        }
        let accepts = if self.any {
            ParameterType::Any
        } else {
            let field =
                field_of(self.rest).map_err(|e| format!("parameter `{}`: {e}", self.name))?;
            ParameterType::Exact(Arc::new(field.with_name(&self.name)))
        };
        Ok(Parameter {
            name: self.name,
            accepts,
        })
    }
}

impl ResultRecord {
    fn check(self, name: &str) -> Result<ResultType, String> {
        match (self.same_as, self.bound) {
            (Some(n), false) => Ok(ResultType::SameAs(n)),
            (None, true) => Ok(ResultType::Bound),
            (None, false) => {
                let field = field_of(self.rest).map_err(|e| format!("result: {e}"))?;
                Ok(ResultType::Exact(Arc::new(field.with_name(name))))
            }
            (Some(_), true) => Err("result: both `same_as` and `bound`".to_owned()),
        }
    }
}

fn field_of(
    rest: serde_json::Map<String, serde_json::Value>,
) -> Result<arrow::datatypes::Field, String> {
    serde_json::from_value::<TypeRecord>(serde_json::Value::Object(rest))
        .map_err(|e| e.to_string())?
        .to_field()
}

impl StateRecord {
    fn check(self, states: &mut BTreeMap<String, Arc<State>>) -> Result<Arc<State>, String> {
        if !is_name(&self.name) {
            return Err(format!(
                "{:?} is not the name of a state",
                bounded(&self.name)
            ));
        }
        for symbol in [Some(&self.init), self.close.as_ref()]
            .into_iter()
            .flatten()
        {
            check_symbol(symbol)?;
        }
        let init_args = match self.init_args {
            serde_json::Value::Null => serde_json::Value::Object(serde_json::Map::new()),
            schema @ serde_json::Value::Object(_) => schema,
            _ => {
                return Err(format!(
                    "the `init_args` of state `{}` are not a JSON Schema object",
                    self.name
                ));
            }
        };
        let state = Arc::new(State {
            closes: self.close.is_some(),
            name: self.name,
            kind: self.kind,
            init_args,
            snapshot: self.snapshot,
            init: self.init,
            close: self.close,
        });
        match states.get(&state.name) {
            Some(known) if **known == *state => Ok(Arc::clone(known)),
            Some(_) => Err(format!(
                "the state `{}` is described in two ways",
                state.name
            )),
            None => {
                states.insert(state.name.clone(), Arc::clone(&state));
                Ok(state)
            }
        }
    }
}

fn is_name(name: &str) -> bool {
    name.len() <= MAX_NAME
        && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn check_symbol(symbol: &str) -> Result<(), String> {
    if symbol.is_empty()
        || symbol.len() > MAX_NAME.saturating_mul(4)
        || symbol.chars().any(misleads)
    {
        return Err(format!("{:?} is not an export symbol", bounded(symbol)));
    }
    Ok(())
}

/// The beginning of a guest's text, for a message.
fn bounded(text: &str) -> String {
    text.chars().take(80).collect()
}
