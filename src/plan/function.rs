//! A UDF as a scalar function of DataFusion: its types, and nothing that runs.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::types::NativeType;
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::{
    Coercion, ColumnarValue, DocSection, Documentation, ReturnFieldArgs, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, TypeSignatureClass,
    Volatility as PlanVolatility,
};

use super::coerce::parameter_types;
use super::options::{DEFAULT_BATCH, SqlSettings, UdfOptions};
use super::{PoolRef, to_datafusion};
use crate::error::BindError;
use crate::{Argument, ArgumentType, Call, Function, Module, ParameterType, StateKind, Volatility};

/// A UDF under the name by which SQL knows it.
///
/// The planner replaces each call by a column of a pool stage. Calling it otherwise is an error, so that
/// no guest runs while a plan is made.
#[derive(Clone)]
pub(super) struct WasmFunction {
    name: String,
    module: Module,
    /// The name in the module.
    udf: String,
    overloads: Vec<Arc<Function>>,
    /// The embedder's.
    given: Arc<UdfOptions>,
    /// With what the session says.
    options: Arc<UdfOptions>,
    settings: SqlSettings,
    signature: Signature,
    documentation: Documentation,
}

impl WasmFunction {
    /// The function `udf` of a module, as `name`.
    ///
    /// # Errors
    /// When the module has no such function.
    pub(super) fn new(
        module: &Module,
        udf: &str,
        name: &str,
        options: &Arc<UdfOptions>,
    ) -> Result<Self, BindError> {
        let overloads: Vec<_> = module.manifest().overloads(udf).map(Arc::clone).collect();
        if overloads.is_empty() {
            // Says which names there are.
            module.resolve(udf, &[])?;
        }
        let volatility = overloads
            .iter()
            .map(|f| planned(f.volatility))
            .max()
            .unwrap_or(PlanVolatility::Volatile);
        let documentation = documentation(name, &overloads);
        let signature = signature(&overloads, volatility);
        Ok(WasmFunction {
            name: name.to_owned(),
            module: module.clone(),
            udf: udf.to_owned(),
            overloads,
            given: Arc::clone(options),
            options: Arc::clone(options),
            settings: SqlSettings::default(),
            signature,
            documentation,
        })
    }

    /// With what a session's settings say; `None` where nothing changes.
    ///
    /// # Errors
    /// When the settings ask for more than is allowed.
    pub(super) fn under(&self, config: &ConfigOptions) -> Result<Option<Self>> {
        let settings = SqlSettings::of(config);
        if settings == self.settings {
            return Ok(None);
        }
        Ok(Some(WasmFunction {
            options: Arc::new(self.given.lowered_by(&settings)?),
            settings,
            ..self.clone()
        }))
    }

    /// The function inside one of DataFusion's.
    pub(super) fn of(function: &ScalarUDF) -> Option<&Self> {
        function.inner().downcast_ref()
    }

    /// The name by which SQL knows it.
    pub(super) fn shown_name(&self) -> &str {
        &self.name
    }

    pub(super) fn options(&self) -> &UdfOptions {
        &self.options
    }

    /// The most rows per call.
    pub(super) fn batch_size(&self, call: &Call) -> std::num::NonZeroUsize {
        let asked = call.function().batch_size;
        self.options
            .batch_size
            .or_else(|| asked.and_then(std::num::NonZeroUsize::new))
            .unwrap_or(DEFAULT_BATCH)
    }

    /// Whether equal calls give equal results, so that one may stand for the other.
    pub(super) fn is_mergeable(&self) -> bool {
        self.signature.volatility != PlanVolatility::Volatile && !self.is_sequence()
    }

    /// Whether equal calls give equal results.
    pub(super) fn volatility(&self) -> PlanVolatility {
        self.signature.volatility
    }

    /// The function as one of another volatility.
    pub(super) fn volatile(mut self, volatility: PlanVolatility) -> Self {
        self.signature.volatility = volatility;
        self
    }

    /// What its overloads take, for messages.
    pub(super) fn signatures(&self) -> String {
        let takes = |f: &Arc<Function>| format!("{}({})", f.name, f.signature());
        let all: Vec<String> = self.overloads.iter().map(takes).collect();
        all.join(", ")
    }

    /// [`WasmFunction::signatures`] under the name by which SQL knows it.
    #[cfg(feature = "cli")]
    pub(super) fn takes(&self, name: &str) -> String {
        let takes = |f: &Arc<Function>| format!("{name}({})", f.signature());
        let all: Vec<String> = self.overloads.iter().map(takes).collect();
        all.join(", ")
    }

    /// Whether rows depend on earlier rows.
    pub(super) fn is_sequence(&self) -> bool {
        self.overloads
            .iter()
            .filter_map(|f| f.state.as_ref())
            .any(|state| state.kind == StateKind::Sequence)
    }

    /// The call for arguments of these types, which are the parameters' own.
    ///
    /// # Errors
    /// When no overload takes them.
    pub(super) fn bind(&self, arguments: Vec<Argument>) -> Result<Call> {
        let offered: Vec<ArgumentType> = arguments
            .iter()
            .map(|a| ArgumentType::Typed(a.field.data_type().clone()))
            .collect();
        let resolved = self
            .module
            .resolve(&self.udf, &offered)
            .map_err(to_datafusion)?;
        self.module
            .bind(&resolved.function, arguments)
            .map_err(to_datafusion)
    }

    /// The types that arguments are cast to. DataFusion leaves texts of any form as they are, since the
    /// signature that it shows has classes of types.
    pub(super) fn casts(&self, types: &[DataType]) -> Vec<DataType> {
        // What fits no overload stays as it is: binding it says what is wrong.
        parameter_types(&self.module, &self.udf, types).unwrap_or_else(|| types.to_vec())
    }

    /// Whether this is another name for the same function of the same module.
    pub(super) fn is_other_name_of(&self, other: &Self) -> bool {
        self.name != other.name
            && self.udf == other.udf
            && self.module.digest() == other.module.digest()
            && self.options.is_same(&other.options)
    }

    /// The pool that serves a call.
    ///
    /// # Errors
    /// When init arguments are missing or do not fit.
    pub(super) fn pool(&self, call: &Call) -> Result<PoolRef> {
        let state = call.function().state.as_deref();
        PoolRef::planned(self.options.builder(&self.module, state)).map_err(to_datafusion)
    }
}

fn planned(volatility: Volatility) -> PlanVolatility {
    match volatility {
        Volatility::Immutable => PlanVolatility::Immutable,
        Volatility::Stable => PlanVolatility::Stable,
        Volatility::Volatile => PlanVolatility::Volatile,
    }
}

/// The overload and the casts are chosen by [`parameter_types`]. The other forms are there for
/// `SHOW FUNCTIONS`, which tells what a function takes from them.
fn signature(overloads: &[Arc<Function>], volatility: PlanVolatility) -> Signature {
    /// Some types have three forms, and all combinations of them are listed.
    const MOST_SHOWN: usize = 4;
    let shown = |f: &Arc<Function>| {
        if f.parameters.is_empty() {
            return TypeSignature::Nullary;
        }
        let parameters = f.parameters.iter().map(|p| match &p.accepts {
            ParameterType::Any => TypeSignatureClass::Any,
            ParameterType::Exact(field) => {
                TypeSignatureClass::Native(Arc::new(NativeType::from(field.data_type().clone())))
            }
        });
        TypeSignature::Coercible(parameters.map(Coercion::new_exact).collect())
    };
    let few = |f: &&Arc<Function>| f.parameters.len() <= MOST_SHOWN;
    let own = std::iter::once(TypeSignature::UserDefined);
    let forms = own.chain(overloads.iter().filter(few).map(shown)).collect();
    Signature::one_of(forms, volatility)
}

fn documentation(name: &str, overloads: &[Arc<Function>]) -> Documentation {
    let section = DocSection {
        include: true,
        label: "WebAssembly Functions",
        description: None,
    };
    let first = overloads.first();
    let doc = first.map_or("", |f| f.doc.as_str());
    let parameters = first.map_or(&[][..], |f| &f.parameters);
    let names: Vec<&str> = parameters.iter().map(|p| p.name.as_str()).collect();
    let syntax = format!("{name}({})", names.join(", "));
    let builder = Documentation::builder(section, doc, syntax);
    let takes = overloads.iter().map(|f| f.signature()).collect::<Vec<_>>();
    builder
        .with_argument("arguments", takes.join(", or "))
        .build()
}

impl fmt::Debug for WasmFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WasmFunction")
            .field("name", &self.name)
            .field("module", &self.module.digest().short())
            .field("udf", &self.udf)
            .finish_non_exhaustive()
    }
}

/// Two functions are one if they are the same function of the same module and their pools would be.
impl PartialEq for WasmFunction {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
            && self.signature.volatility == other.signature.volatility
            && self.udf == other.udf
            && self.module.digest() == other.module.digest()
            && self.options.is_same(&other.options)
    }
}

impl Eq for WasmFunction {}

impl Hash for WasmFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
        self.udf.hash(state);
        self.module.digest().hash(state);
        self.options.init_args.to_string().hash(state);
    }
}

impl ScalarUDFImpl for WasmFunction {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn with_updated_config(&self, config: &ConfigOptions) -> Option<ScalarUDF> {
        // What is not allowed is told when a query is planned: here is no way to.
        self.under(config).ok()?.map(ScalarUDF::from)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let arguments = types
            .iter()
            .map(|t| Argument::column(arrow::datatypes::Field::new("argument", t.clone(), true)))
            .collect();
        Ok(self.bind(arguments)?.result().data_type().clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types: Vec<_> = args
            .arg_fields
            .iter()
            .map(|f| f.data_type().clone())
            .collect();
        let casts = args.arg_fields.iter().zip(self.casts(&types));
        let arguments = casts
            .zip(args.scalar_arguments)
            .map(|((field, to), constant)| {
                let field = field.as_ref().clone().with_data_type(to);
                argument(&Arc::new(field), *constant)
            })
            .collect::<Result<_>>()?;
        let call = self.bind(arguments)?;
        self.pool(&call)?;
        let may_be_null = self.options.on_error.makes_nulls();
        let result = call.result().as_ref().clone().with_name(&self.name);
        let nullable = result.is_nullable() || may_be_null;
        Ok(Arc::new(result.with_nullable(nullable)))
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        Ok(self.casts(types))
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        exec_err!(
            "`{}` runs in a pool, and this plan has no pool stage for it; plan the query in a session that `wasmill::plan::install` prepared",
            self.name
        )
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&self.documentation)
    }
}

/// An argument of a call, constant where its value is known.
pub(super) fn argument(field: &FieldRef, constant: Option<&ScalarValue>) -> Result<Argument> {
    let value: Option<ArrayRef> = constant
        .filter(|value| value.data_type() == *field.data_type())
        .map(|value| value.to_array_of_size(1))
        .transpose()?;
    Ok(match value {
        Some(value) => Argument::constant(value),
        None => Argument::column(Arc::clone(field)),
    })
}
