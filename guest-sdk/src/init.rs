//! Init arguments: what they look like in Rust, as JSON Schema, and how they are read.

use std::collections::{BTreeMap, HashMap};

use serde::de::DeserializeOwned;

use crate::json::Writer;

/// What `init` of a stateful UDF takes. Derive it: `#[derive(InitArgs)]` on a struct with named fields
/// or on an enum of plain variants. The derive also makes the type readable by serde, so that
/// `Deserialize` is not to be derived beside it.
///
/// ```
/// use wasmill_guest::InitArgs;
///
/// /// How to score.
/// #[derive(InitArgs)]
/// struct ScoreArgs {
///     /// Words that count.
///     words: Vec<String>,
///     /// Points per word.
///     #[init(default = 1, minimum = 1)]
///     points: i64,
///     /// Text for nothing found.
///     fallback: Option<String>,
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an init argument",
    label = "no JSON Schema is known for this type",
    note = "use bool, integers, floats, String, Vec<T>, Option<T>, maps with String keys, or derive `InitArgs` for it"
)]
pub trait InitArgs: DeserializeOwned {
    /// What the manifest says about it.
    const SCHEMA: InitSchema;
}

/// JSON Schema of one value, in the keywords that the ABI knows.
#[derive(Clone, Copy, Debug)]
pub struct InitSchema {
    /// Which values there are.
    pub kind: InitKind,
    /// For people.
    pub description: &'static str,
    /// Value when there is none, as JSON.
    pub default: Option<&'static str>,
    /// Least number.
    pub minimum: Option<&'static str>,
    /// Greatest number.
    pub maximum: Option<&'static str>,
    /// Least characters.
    pub min_length: Option<u64>,
    /// Least items.
    pub min_items: Option<u64>,
    /// Whether the field may be left out.
    pub optional: bool,
}

/// The shape of an init argument.
#[derive(Clone, Copy, Debug)]
pub enum InitKind {
    /// Anything.
    Any,
    /// `true` or `false`.
    Boolean,
    /// A whole number.
    Integer,
    /// A number.
    Number,
    /// Text.
    String,
    /// A list of equal things.
    Array(&'static InitSchema),
    /// An object with these keys and no others.
    Object(&'static [(&'static str, InitSchema)]),
    /// An object with any keys.
    Map(&'static InitSchema),
    /// One of these texts.
    Enum(&'static [&'static str]),
}

impl InitSchema {
    /// A schema that says no more than `kind`.
    #[must_use]
    pub const fn new(kind: InitKind) -> Self {
        Self {
            kind,
            description: "",
            default: None,
            minimum: None,
            maximum: None,
            min_length: None,
            min_items: None,
            optional: false,
        }
    }

    const fn integer(minimum: Option<&'static str>, maximum: Option<&'static str>) -> Self {
        Self {
            minimum,
            maximum,
            ..Self::new(InitKind::Integer)
        }
    }

    pub(crate) const fn write(&self, writer: &mut Writer<'_>) {
        match self.kind {
            InitKind::Any => {
                writer.raw("{");
                if !self.description.is_empty() || self.default.is_some() {
                    // `key` writes a comma first, so that the object must not be empty.
                    writer.raw("\"description\":");
                    writer.string(self.description);
                    self.write_rest(writer, false);
                }
                writer.raw("}");
                return;
            }
            InitKind::Boolean => writer.raw("{\"type\":\"boolean\""),
            InitKind::Integer => writer.raw("{\"type\":\"integer\""),
            InitKind::Number => writer.raw("{\"type\":\"number\""),
            InitKind::String => writer.raw("{\"type\":\"string\""),
            InitKind::Array(items) => {
                writer.raw("{\"type\":\"array\",\"items\":");
                items.write(writer);
            }
            InitKind::Map(values) => {
                writer.raw("{\"type\":\"object\",\"additionalProperties\":");
                values.write(writer);
            }
            InitKind::Object(properties) => write_object(properties, writer),
            InitKind::Enum(values) => {
                writer.raw("{\"type\":\"string\",\"enum\":[");
                let mut at = 0;
                while at < values.len() {
                    if at > 0 {
                        writer.raw(",");
                    }
                    writer.string(values[at]);
                    at += 1;
                }
                writer.raw("]");
            }
        }
        self.write_rest(writer, true);
        writer.raw("}");
    }

    const fn write_rest(&self, writer: &mut Writer<'_>, with_description: bool) {
        if with_description && !self.description.is_empty() {
            writer.key("description");
            writer.string(self.description);
        }
        write_raw("minimum", self.minimum, writer);
        write_raw("maximum", self.maximum, writer);
        if let Some(least) = self.min_length {
            writer.key("minLength");
            writer.number(least as i128);
        }
        if let Some(least) = self.min_items {
            writer.key("minItems");
            writer.number(least as i128);
        }
        write_raw("default", self.default, writer);
    }
}

const fn write_raw(key: &str, json: Option<&str>, writer: &mut Writer<'_>) {
    if let Some(json) = json {
        writer.key(key);
        writer.raw(json);
    }
}

const fn write_object(properties: &[(&str, InitSchema)], writer: &mut Writer<'_>) {
    writer.raw("{\"type\":\"object\",\"properties\":{");
    let mut at = 0;
    while at < properties.len() {
        if at > 0 {
            writer.raw(",");
        }
        writer.string(properties[at].0);
        writer.raw(":");
        properties[at].1.write(writer);
        at += 1;
    }
    writer.raw("},\"required\":[");
    let mut first = true;
    let mut at = 0;
    while at < properties.len() {
        let (name, schema) = &properties[at];
        at += 1;
        if schema.optional || schema.default.is_some() {
            continue;
        }
        if !first {
            writer.raw(",");
        }
        first = false;
        writer.string(name);
    }
    writer.raw("],\"additionalProperties\":false");
}

macro_rules! init_args {
    ($($type:ty => $schema:expr;)*) => {$(
        impl InitArgs for $type {
            const SCHEMA: InitSchema = $schema;
        }
    )*};
}

init_args! {
    bool => InitSchema::new(InitKind::Boolean);
    i8 => InitSchema::integer(Some("-128"), Some("127"));
    i16 => InitSchema::integer(Some("-32768"), Some("32767"));
    i32 => InitSchema::integer(Some("-2147483648"), Some("2147483647"));
    i64 => InitSchema::integer(Some("-9223372036854775808"), Some("9223372036854775807"));
    u8 => InitSchema::integer(Some("0"), Some("255"));
    u16 => InitSchema::integer(Some("0"), Some("65535"));
    u32 => InitSchema::integer(Some("0"), Some("4294967295"));
    u64 => InitSchema::integer(Some("0"), Some("18446744073709551615"));
    f32 => InitSchema::new(InitKind::Number);
    f64 => InitSchema::new(InitKind::Number);
    String => InitSchema::new(InitKind::String);
    serde_json::Value => InitSchema::new(InitKind::Any);
}

impl<T: InitArgs> InitArgs for Vec<T> {
    const SCHEMA: InitSchema = InitSchema::new(InitKind::Array(&T::SCHEMA));
}

impl<T: InitArgs> InitArgs for Option<T> {
    const SCHEMA: InitSchema = InitSchema {
        optional: true,
        ..T::SCHEMA
    };
}

impl<T: InitArgs> InitArgs for BTreeMap<String, T> {
    const SCHEMA: InitSchema = InitSchema::new(InitKind::Map(&T::SCHEMA));
}

impl<T: InitArgs> InitArgs for HashMap<String, T> {
    const SCHEMA: InitSchema = InitSchema::new(InitKind::Map(&T::SCHEMA));
}

/// The schema of an `init` without arguments.
pub const NO_ARGS: InitSchema = InitSchema::new(InitKind::Object(&[]));

/// Reads init arguments.
///
/// # Errors
/// Says what does not fit.
pub(crate) fn read<T: InitArgs>(json: &[u8]) -> Result<T, String> {
    serde_json::from_slice(json).map_err(|error| format!("init arguments: {error}"))
}
