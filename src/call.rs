//! A function bound to argument types: what a plan holds, and what slots run.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::{DataType, Field, FieldRef};

use crate::abi::{self, Arena, Layout, Written, frame};
use crate::error::{BindError, CallError, ErrorClass, Fault, Place, Violation};
use crate::module::{Function, Module, NullHandling, ParameterType, ResultType};
use crate::pool::Pool;
use crate::sandbox::{Cancel, Guest, NoGuest, Policy, SlotName, tracing_sink};

/// One argument of a call.
#[derive(Debug, Clone)]
pub struct Argument {
    /// Its type, and whether it has nulls. Must be what the parameter takes: see
    /// [`Module::resolve`] for the casts that may be needed.
    pub field: FieldRef,
    /// The value, as an array of one row, when it is the same for all rows.
    pub constant: Option<ArrayRef>,
}

impl Argument {
    /// A column.
    pub fn column(field: impl Into<FieldRef>) -> Self {
        Argument {
            field: field.into(),
            constant: None,
        }
    }

    /// A value that is the same for all rows: an array of one row.
    pub fn constant(value: ArrayRef) -> Self {
        let field = Field::new(
            "constant",
            value.data_type().clone(),
            value.logical_null_count() > 0,
        );
        Argument {
            field: Arc::new(field),
            constant: Some(value),
        }
    }
}

/// A function bound to argument types. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Call(pub(crate) Arc<Bound>);

/// Everything about a call that can be worked out once.
#[derive(Debug, Clone)]
pub(crate) struct Bound {
    /// Tells calls apart within a slot.
    pub(crate) id: u64,
    pub(crate) module: Module,
    pub(crate) function: Arc<Function>,
    pub(crate) arguments: Vec<Argument>,
    /// For each argument the call that computes it in the same visit to the slot; empty where none is.
    pub(crate) inner: Vec<Option<Call>>,
    pub(crate) fields: Vec<FieldRef>,
    pub(crate) layouts: Vec<Layout>,
    pub(crate) result: FieldRef,
    /// As the guest must answer, before the host masks it.
    pub(crate) result_layout: Layout,
}

impl Call {
    /// The function.
    pub fn function(&self) -> &Function {
        &self.0.function
    }

    /// The module that has it.
    pub fn module(&self) -> &Module {
        &self.0.module
    }

    /// The arguments' types, constants included.
    pub fn arguments(&self) -> &[FieldRef] {
        &self.0.fields
    }

    /// For each argument the value, as an array of one row, where it is constant.
    pub fn constants(&self) -> impl Iterator<Item = Option<&ArrayRef>> {
        self.0.arguments.iter().map(|a| a.constant.as_ref())
    }

    /// The call with arguments that other calls of its module compute in the same visit to the slot: for
    /// each argument such a call, whose columns then stand in the place of the argument's.
    #[cfg(feature = "datafusion")]
    pub(crate) fn fused(&self, inner: Vec<Option<Call>>) -> Call {
        Call(Arc::new(Bound {
            id: next_id(),
            inner,
            ..Bound::clone(&self.0)
        }))
    }

    /// The failure of one row of a partition.
    pub(crate) fn row_failure(
        &self,
        pool: &Pool,
        partition: Option<usize>,
        row: u64,
        fault: Fault,
    ) -> CallError {
        CallError {
            place: Box::new(Place {
                udf: self.function().name.clone(),
                partition,
                rows: Some(row..row.saturating_add(1)),
                ..pool.place()
            }),
            fault: Box::new(fault),
        }
    }

    /// The result: named after the UDF, nullable if any row can be null.
    pub fn result(&self) -> &FieldRef {
        &self.0.result
    }
}

impl Module {
    /// Binds a function of this module to argument types.
    ///
    /// A function with a `bind` export is asked for its result type, in a throwaway instance with 16 MiB
    /// of memory, 100 ms of time and no grants; the answer is remembered for the process.
    ///
    /// # Errors
    /// [`BindError`] when the arguments are not what the function takes, or `bind` refuses them.
    pub fn bind(
        &self,
        function: &Arc<Function>,
        arguments: Vec<Argument>,
    ) -> Result<Call, BindError> {
        self.check_arguments(function, &arguments)?;
        let fields: Vec<FieldRef> = arguments.iter().map(|a| Arc::clone(&a.field)).collect();
        let type_error = |place: String, data_type: &DataType, reason| BindError::Type {
            module: self.name().to_owned(),
            udf: function.name.clone(),
            place,
            data_type: data_type.clone(),
            reason,
        };
        let layouts = fields
            .iter()
            .zip(&function.parameters)
            .map(|(f, p)| {
                Layout::new(f, &p.name)
                    .map_err(|e| type_error(format!("argument `{}`", p.name), f.data_type(), e))
            })
            .collect::<Result<Vec<_>, _>>()?;
        let declared = match (&function.result, &function.bind) {
            (ResultType::Exact(field), None) => Arc::clone(field),
            (ResultType::SameAs(n), None) => fields
                .get(*n)
                .map(Arc::clone)
                .unwrap_or_else(|| Arc::new(Field::new("", DataType::Null, true))),
            (result, Some(_)) => {
                let answer = self.ask_bind(function, &arguments)?;
                self.answered(function, result, &fields, answer)?
            }
            (ResultType::Bound, None) => {
                return Err(self.bind_error(
                    function,
                    "the manifest names no `bind` export".to_owned(),
                    ErrorClass::ModuleRefused,
                ));
            }
        };
        let declared = Arc::new(declared.as_ref().clone().with_name(&function.name));
        if function.nulls == NullHandling::Propagate {
            crate::module::manifest::check_propagates(declared.data_type())
                .map_err(|e| type_error("the result".to_owned(), declared.data_type(), e))?;
        }
        let result_layout = Layout::new(&declared, "value")
            .map_err(|e| type_error("the result".to_owned(), declared.data_type(), e))?;
        let masked =
            function.nulls == NullHandling::Propagate && fields.iter().any(|f| f.is_nullable());
        let result = Arc::new(
            declared
                .as_ref()
                .clone()
                .with_nullable(declared.is_nullable() || masked),
        );
        Ok(Call(Arc::new(Bound {
            id: next_id(),
            module: self.clone(),
            function: Arc::clone(function),
            arguments,
            inner: Vec::new(),
            fields,
            layouts,
            result,
            result_layout,
        })))
    }

    fn check_arguments(
        &self,
        function: &Function,
        arguments: &[Argument],
    ) -> Result<(), BindError> {
        let found: Vec<String> = arguments
            .iter()
            .map(|a| a.field.data_type().to_string())
            .collect();
        let refused = |reason| BindError::Arguments {
            module: self.name().to_owned(),
            udf: function.name.clone(),
            found: found.join(", "),
            reason,
        };
        if arguments.len() != function.parameters.len() {
            return Err(refused(format!(
                "it takes {} arguments ({})",
                function.parameters.len(),
                function.signature()
            )));
        }
        for (parameter, argument) in function.parameters.iter().zip(arguments) {
            if let ParameterType::Exact(field) = &parameter.accepts
                && !field
                    .data_type()
                    .equals_datatype(argument.field.data_type())
            {
                return Err(refused(format!(
                    "`{}` is {}; cast it to {}",
                    parameter.name,
                    argument.field.data_type(),
                    field.data_type()
                )));
            }
            if let Some(constant) = &argument.constant
                && (constant.len() != 1 || constant.data_type() != argument.field.data_type())
            {
                return Err(refused(format!(
                    "the constant for `{}` must be one row of its type",
                    parameter.name
                )));
            }
        }
        Ok(())
    }

    /// Checks the answer of `bind` against the manifest (case: the manifest says utf8 and `bind`
    /// answers large utf8).
    fn answered(
        &self,
        function: &Function,
        result: &ResultType,
        fields: &[FieldRef],
        answer: Option<Field>,
    ) -> Result<FieldRef, BindError> {
        let declared = match result {
            ResultType::Exact(field) => Some(field),
            ResultType::SameAs(n) => fields.get(*n),
            ResultType::Bound => None,
        };
        match (declared, answer) {
            (None, Some(answer)) => Ok(Arc::new(answer)),
            (Some(declared), None) => Ok(Arc::clone(declared)),
            (Some(declared), Some(answer)) if declared.data_type() == answer.data_type() => {
                Ok(Arc::clone(declared))
            }
            (Some(declared), Some(answer)) => Err(self.bind_error(
                function,
                format!(
                    "it answered {} and the manifest declares {}",
                    answer.data_type(),
                    declared.data_type()
                ),
                ErrorClass::ModuleRefused,
            )),
            (None, None) => Err(self.bind_error(
                function,
                "it answered no type".to_owned(),
                ErrorClass::ModuleRefused,
            )),
        }
    }

    fn bind_error(&self, function: &Function, reason: String, class: ErrorClass) -> BindError {
        BindError::Bind {
            module: self.name().to_owned(),
            udf: function.name.clone(),
            reason,
            class,
        }
    }

    /// Asks `bind` in a throwaway instance, or remembers what it said.
    fn ask_bind(
        &self,
        function: &Function,
        arguments: &[Argument],
    ) -> Result<Option<Field>, BindError> {
        let key = memo_key(self, function, arguments);
        if let Some(answer) = memo().get(&key) {
            return Ok(answer.clone());
        }
        let policy = Policy::planning();
        let fault = |f: Fault| match f {
            Fault::Guest { message } => {
                let types: Vec<String> = arguments
                    .iter()
                    .map(|a| a.field.data_type().to_string())
                    .collect();
                BindError::Refused {
                    module: self.name().to_owned(),
                    udf: function.name.clone(),
                    found: types.join(", "),
                    message,
                }
            }
            other => self.bind_error(function, other.to_string(), other.class()),
        };
        let name = SlotName {
            run: "planning",
            pool: "planning",
            slot: 0,
        };
        let ask = || {
            let mut guest = Guest::new(self, &policy, &tracing_sink(), name, &Cancel::default())
                .map_err(|e| match e {
                    NoGuest::Fault(f) => fault(f),
                    NoGuest::Grant(e) => self.bind_error(function, e.to_string(), ErrorClass::Io),
                })?;
            let mut arena = Arena::default();
            let limit = policy.call_time;
            bind_in(&mut guest, &mut arena, limit, function, arguments).map_err(fault)
        };
        // On a thread whose stack is known: guests may use as much of it as the engine allows.
        let answered = std::thread::scope(|scope| {
            std::thread::Builder::new()
                .name("wasmill-bind".to_owned())
                .stack_size(self.engine().thread_stack())
                .spawn_scoped(scope, ask)
                .map(|thread| thread.join().ok())
        });
        let (_, answer) = match answered {
            Ok(Some(answered)) => answered?,
            Ok(None) | Err(_) => {
                let reason = "there was no thread for it, or it panicked in the host".to_owned();
                return Err(self.bind_error(function, reason, ErrorClass::Failed));
            }
        };
        let mut memo = memo();
        if memo.len() >= MEMO_ENTRIES {
            memo.clear();
        }
        memo.insert(key, answer.clone());
        Ok(answer)
    }
}

/// A number that no other call of this process has.
fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Answers of `bind` that are remembered at most.
const MEMO_ENTRIES: usize = 1_024;
type Memo = HashMap<String, Option<Field>>;

fn memo() -> std::sync::MutexGuard<'static, Memo> {
    static MEMO: LazyLock<Mutex<Memo>> = LazyLock::new(Mutex::default);
    MEMO.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Bound {
    /// Whether an instance of the module cannot tell them apart.
    pub(crate) fn is_same(&self, other: &Bound) -> bool {
        let arguments = self.arguments.iter().zip(&other.arguments);
        let (own, others) = (&self.function, &other.function);
        own.symbol == others.symbol
            && own.bind == others.bind
            && own.constants == others.constants
            && self.result.data_type() == other.result.data_type()
            && self.arguments.len() == other.arguments.len()
            && arguments.into_iter().all(|(own, other)| {
                let constants = (own.constant.as_ref(), other.constant.as_ref());
                own.field == other.field
                    && match constants {
                        (Some(own), Some(other)) => own.to_data() == other.to_data(),
                        (own, other) => own.is_none() && other.is_none(),
                    }
            })
    }
}

fn memo_key(module: &Module, function: &Function, arguments: &[Argument]) -> String {
    let mut key = format!("{} {:?}", module.digest(), function.bind);
    for argument in arguments {
        key.push_str(&format!(
            "\n{:?} {:?}",
            argument.field,
            argument.constant.as_ref().map(Array::to_data)
        ));
    }
    key
}

/// Runs `bind`; gives the binding's id and, where the guest filled it in, the result type.
pub(crate) fn bind_in(
    guest: &mut Guest,
    arena: &mut Arena,
    limit: Duration,
    function: &Function,
    arguments: &[Argument],
) -> Result<(u32, Option<Field>), Fault> {
    let Some(symbol) = &function.bind else {
        return Ok((0, None));
    };
    let bind = guest.function::<u32, i32>(symbol)?;
    guest.begin(Instant::now(), limit);
    let layouts = arguments
        .iter()
        .map(|a| Layout::new(&a.field, a.field.name()))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|reason| Fault::Arguments { reason })?;
    let constants: Vec<_> = arguments
        .iter()
        .map(|a| a.constant.as_ref().map(Array::to_data))
        .collect();
    let most = guest.memory_limit();
    let written = arena.write(guest, limit, most, |w| {
        let (bind, address) = w.structure(frame::bind::BYTES)?;
        let (_, result) = w.structure(frame::SCHEMA_BYTES)?;
        let fields = abi::write_schemas(
            w,
            arguments
                .iter()
                .map(|a| a.field.as_ref())
                .collect::<Vec<_>>()
                .into_iter(),
        )?;
        let (table, constants_at) = w.structure(constants.len().saturating_mul(4))?;
        for (i, (layout, constant)) in layouts.iter().zip(&constants).enumerate() {
            if let Some(constant) = constant {
                let at = w.array(layout, constant, 0, 1, &mut [].iter())?;
                w.put_u32(table, i.saturating_mul(4), at);
            }
        }
        w.put_u32(bind, frame::bind::SIZE, frame::bind::BYTES as u32);
        w.put_u32(bind, frame::bind::ARG_COUNT, arguments.len() as u32);
        w.put_u32(bind, frame::bind::FIELDS, fields);
        w.put_u32(bind, frame::bind::CONSTANTS, constants_at);
        w.put_u32(bind, frame::bind::RESULT, result);
        Ok((address, result))
    })?;
    let (address, result) = match written {
        Written::Done { result, .. } => result,
        Written::TooLarge { bytes } => {
            return Err(Fault::RowTooLarge {
                bytes: bytes as u64,
                limit: most,
            });
        }
    };
    let status = guest.enter("bind", limit, &bind, address)?;
    let memory = guest.memory();
    let word = |offset: usize| {
        frame::read_u32(memory, u64::from(address).saturating_add(offset as u64)).unwrap_or(0)
    };
    match status {
        frame::STATUS_OK => {}
        frame::STATUS_ERROR => {
            let message = frame::text_at(
                memory,
                word(frame::bind::MESSAGE),
                word(frame::bind::MESSAGE_LEN),
            );
            return Err(Fault::Guest { message });
        }
        status => {
            return Err(Violation::Status {
                entry: "bind",
                status,
            }
            .into());
        }
    }
    let untouched = frame::bytes_at(memory, u64::from(result), frame::SCHEMA_BYTES as u64)
        .is_none_or(|b| b.iter().all(|b| *b == 0));
    let answer = if untouched {
        None
    } else {
        Some(abi::read_schema(memory, result)?)
    };
    Ok((word(frame::bind::BINDING), answer))
}
