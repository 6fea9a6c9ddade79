//! Functions whose types are fixed when a plan is made.

use std::cell::Cell;
use std::ffi::CStr;
use std::rc::Rc;

use crate::abi::{ArrowArray, ArrowSchema, BindFrame, Frame, OK};
use crate::column::{BatchParam, Inputs};
use crate::errors::{Failure, fail};
use crate::manifest::{FormatPart, Param, Schema};
use crate::types::{ArrowType, Input};

/// An Arrow field: what `bind` sees of an argument, and answers about the result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Name.
    pub name: String,
    /// Format string of the C Data Interface.
    pub format: String,
    /// Whether there may be nulls.
    pub nullable: bool,
    /// The children's fields.
    pub children: Vec<Field>,
    /// The values of a dictionary; `format` is that of its keys.
    pub dictionary: Option<Box<Field>>,
    /// The interface's other flags, and its metadata, as they are.
    rest: Rest,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Rest {
    flags: i64,
    metadata: Vec<u8>,
}

const NULLABLE: i64 = 2;

impl Field {
    /// A field of a type without children.
    pub fn new(name: impl Into<String>, format: impl Into<String>, nullable: bool) -> Self {
        Self {
            name: name.into(),
            format: format.into(),
            nullable,
            children: Vec::new(),
            dictionary: None,
            rest: Rest::default(),
        }
    }

    /// The field of a Rust type.
    ///
    /// ```
    /// use wasmill_guest::Field;
    ///
    /// assert_eq!(Field::of::<Option<i64>>("x"), Field::new("x", "l", true));
    /// ```
    pub fn of<T: ArrowType>(name: impl Into<String>) -> Self {
        Self::from_schema(name.into(), &T::SCHEMA)
    }

    pub(crate) fn from_schema(name: String, schema: &Schema) -> Self {
        let mut format = String::new();
        for part in schema.format {
            match part {
                FormatPart::Text(text) => format.push_str(text),
                FormatPart::Number(number) => format.push_str(&number.to_string()),
            }
        }
        let children = schema.children.iter();
        Self {
            children: children
                .map(|child| Self::from_schema(child.name.to_owned(), child.schema))
                .collect(),
            ..Self::new(name, format, schema.nullable)
        }
    }

    /// Whether the type is the one of `T`, whatever the names and nullability.
    #[must_use]
    pub fn is<T: ArrowType>(&self) -> bool {
        self.is_like(&Self::of::<T>(""))
    }

    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let mut children = self.children.iter().zip(&other.children);
        self.format == other.format
            && self.dictionary.is_none()
            && other.dictionary.is_none()
            && self.children.len() == other.children.len()
            && children.all(|(own, other)| own.is_like(other))
    }

    /// # Safety
    /// `schema` must be valid, as the ABI describes it.
    pub(crate) unsafe fn read(schema: &ArrowSchema) -> Self {
        // SAFETY: format is a C string, name and metadata may be null, and children and dictionary are
        // valid schemas.
        unsafe {
            Self {
                name: text(schema.name),
                format: text(schema.format),
                nullable: schema.flags & NULLABLE != 0,
                children: (0..schema.n_children as usize)
                    .map(|at| Self::read(&**schema.children.add(at)))
                    .collect(),
                dictionary: schema
                    .dictionary
                    .as_ref()
                    .map(|dictionary| Box::new(Self::read(dictionary))),
                rest: Rest {
                    flags: schema.flags & !NULLABLE,
                    metadata: metadata(schema.metadata),
                },
            }
        }
    }
}

/// # Safety
/// `pointer` must be null or point to a C string.
unsafe fn text(pointer: *const u8) -> String {
    if pointer.is_null() {
        return String::new();
    }
    // SAFETY: the caller vouches for it.
    let text = unsafe { CStr::from_ptr(pointer.cast()) };
    text.to_string_lossy().into_owned()
}

/// The metadata block with its lengths, as it is.
///
/// # Safety
/// `pointer` must be null or point to metadata of the C Data Interface.
unsafe fn metadata(pointer: *const u8) -> Vec<u8> {
    if pointer.is_null() {
        return Vec::new();
    }
    // SAFETY: a number of pairs, then each key and value with its length before it.
    unsafe {
        let number = |at: usize| pointer.add(at).cast::<i32>().read_unaligned() as usize;
        let mut end = 4;
        for _ in 0..2 * number(0) {
            end += 4 + number(end);
        }
        std::slice::from_raw_parts(pointer, end).to_vec()
    }
}

/// A field in the form of the C Data Interface. It must stay where it is while the host may read it.
pub(crate) struct Exported {
    pub(crate) schema: ArrowSchema,
    _format: Vec<u8>,
    _name: Vec<u8>,
    _metadata: Vec<u8>,
    _children: Vec<Rc<Exported>>,
    _child_pointers: Vec<*const ArrowSchema>,
    _dictionary: Option<Rc<Exported>>,
}

impl Exported {
    pub(crate) fn new(field: &Field) -> Rc<Self> {
        let c_string = |text: &str| {
            let mut bytes = text.replace('\0', " ").into_bytes();
            bytes.push(0);
            bytes
        };
        let (format, name) = (c_string(&field.format), c_string(&field.name));
        let metadata = field.rest.metadata.clone();
        let children: Vec<_> = field.children.iter().map(Self::new).collect();
        let pointers: Vec<_> = children
            .iter()
            .map(|child| &raw const child.schema)
            .collect();
        let dictionary = field.dictionary.as_deref().map(Self::new);
        Rc::new(Self {
            schema: ArrowSchema {
                format: format.as_ptr(),
                name: name.as_ptr(),
                metadata: if metadata.is_empty() {
                    std::ptr::null()
                } else {
                    metadata.as_ptr()
                },
                flags: field.rest.flags | if field.nullable { NULLABLE } else { 0 },
                n_children: pointers.len() as i64,
                children: pointers.as_ptr(),
                dictionary: dictionary
                    .as_ref()
                    .map_or(std::ptr::null(), |dictionary| &raw const dictionary.schema),
                release: std::ptr::null(),
                private_data: std::ptr::null(),
            },
            _format: format,
            _name: name,
            _metadata: metadata,
            _children: children,
            _child_pointers: pointers,
            _dictionary: dictionary,
        })
    }
}

struct Signature {
    arguments: Vec<Field>,
    result: Option<Field>,
    _exported: Option<Rc<Exported>>,
}

thread_local! {
    static SIGNATURES: Cell<Vec<Rc<Signature>>> = const { Cell::new(Vec::new()) };
}

/// What `bind` gets: the fields of the arguments, and the values of those that are constant.
pub struct BindArgs<'f> {
    fields: Vec<Field>,
    constants: Vec<Option<&'f ArrowArray>>,
}

impl<'f> BindArgs<'f> {
    /// The arguments' fields.
    #[must_use]
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// The value of an argument, if it is constant, not null, and of type `T`.
    #[must_use]
    pub fn constant<T: Input<'f>>(&self, argument: usize) -> Option<T> {
        let array = (*self.constants.get(argument)?)?;
        if !self.fields[argument].is::<T>() || array.null_count != 0 {
            return None;
        }
        // SAFETY: the array has one row and was just found to be of this type.
        Some(unsafe { T::get(T::column(array), 0) })
    }
}

/// What a `bind` function returns: the result's field, nothing when the manifest has it already, or why
/// the types are refused.
#[diagnostic::on_unimplemented(
    message = "a `bind` function cannot return `{Self}`",
    label = "not an answer",
    note = "return `Result<Field, E>`, or `Result<(), E>` when the function returns `SameAs`"
)]
pub trait BindAnswer {
    /// The failure.
    type Failure: Failure;
    /// The field or the failure.
    ///
    /// # Errors
    /// What `bind` said.
    fn into_field(self) -> Result<Option<Field>, Self::Failure>;
}

impl<E: Failure> BindAnswer for Result<Field, E> {
    type Failure = E;

    fn into_field(self) -> Result<Option<Field>, E> {
        self.map(Some)
    }
}

impl<E: Failure> BindAnswer for Result<(), E> {
    type Failure = E;

    fn into_field(self) -> Result<Option<Field>, E> {
        self.map(|()| None)
    }
}

/// Runs a `bind` function.
pub fn bind<'f, R: BindAnswer>(
    frame: Frame<'f, BindFrame>,
    function: impl FnOnce(&BindArgs<'f>) -> R,
) -> i32 {
    crate::panics::install();
    let pointer = frame.as_ptr();
    // SAFETY: the frame is valid, and so are the `n_args` fields and constants it points to.
    let args = unsafe {
        let arguments = 0..(*pointer).n_args as usize;
        BindArgs {
            fields: arguments
                .clone()
                .map(|at| Field::read(&**(*pointer).fields.add(at)))
                .collect(),
            constants: arguments
                .map(|at| (*(*pointer).constants.add(at)).as_ref())
                .collect(),
        }
    };
    let result = match function(&args).into_field() {
        Ok(result) => result,
        Err(failure) => return fail(frame, &failure),
    };
    let exported = result.as_ref().map(Exported::new);
    let mut signatures = SIGNATURES.take();
    // SAFETY: the frame is valid, and its `result` points to a struct of the host's.
    unsafe {
        if let Some(exported) = &exported {
            (*pointer).result.write(exported.schema);
        }
        (*pointer).binding = signatures.len() as u32 + 1;
    }
    signatures.push(Rc::new(Signature {
        arguments: args.fields,
        result,
        _exported: exported,
    }));
    SIGNATURES.set(signatures);
    OK
}

/// What `bind` fixed for this call. A batch function with `#[udf(batch, bind = …)]` can take it.
#[derive(Clone)]
pub struct Binding(Option<Rc<Signature>>);

impl Binding {
    /// The arguments' fields; none when the host never called `bind`.
    #[must_use]
    pub fn arguments(&self) -> &[Field] {
        self.0
            .as_ref()
            .map_or(&[], |signature| &signature.arguments)
    }

    /// What `bind` answered.
    #[must_use]
    pub fn result(&self) -> Option<&Field> {
        self.0.as_ref()?.result.as_ref()
    }
}

impl<'f> BatchParam<'f> for Binding {
    const PARAM: Param = Param::None;
    const TAKES_NULLS: bool = false;

    fn take(inputs: &mut Inputs<'f>) -> Self {
        let signatures = SIGNATURES.take();
        let at = (inputs.binding_id() as usize).wrapping_sub(1);
        let signature = signatures.get(at).cloned();
        SIGNATURES.set(signatures);
        Self(signature)
    }
}
