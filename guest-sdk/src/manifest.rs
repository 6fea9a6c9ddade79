//! What a record of the manifest says, as constants, and how it becomes JSON.

use crate::init::InitSchema;
use crate::json::Writer;

/// A piece of an Arrow format string.
#[derive(Clone, Copy, Debug)]
pub enum FormatPart {
    /// Text as it is.
    Text(&'static str),
    /// A number in decimal.
    Number(i64),
}

/// An Arrow type, as the manifest writes it.
#[derive(Clone, Copy, Debug)]
pub struct Schema {
    /// The format string of the C Data Interface, in pieces.
    pub format: &'static [FormatPart],
    /// Whether there may be nulls.
    pub nullable: bool,
    /// The types of the children.
    pub children: &'static [Child],
}

/// A named child of a [`Schema`].
#[derive(Clone, Copy, Debug)]
pub struct Child {
    /// Field name.
    pub name: &'static str,
    /// Field type.
    pub schema: &'static Schema,
}

impl Schema {
    /// A type without children and nulls.
    #[must_use]
    pub const fn new(format: &'static [FormatPart]) -> Self {
        Self::nested(format, &[])
    }

    /// A type with children and without nulls.
    #[must_use]
    pub const fn nested(format: &'static [FormatPart], children: &'static [Child]) -> Self {
        Self {
            format,
            nullable: false,
            children,
        }
    }

    /// The same type with nulls.
    #[must_use]
    pub const fn nullable(self) -> Self {
        Self {
            nullable: true,
            ..self
        }
    }

    const fn write(&self, writer: &mut Writer<'_>, nullable: bool) {
        writer.raw("\"format\":\"");
        let mut at = 0;
        while at < self.format.len() {
            match self.format[at] {
                FormatPart::Text(text) => writer.escaped(text),
                FormatPart::Number(number) => writer.number(number as i128),
            }
            at += 1;
        }
        writer.raw("\"");
        writer.key("nullable");
        writer.boolean(nullable);
        if !self.children.is_empty() {
            writer.key("children");
            writer.raw("[");
            let mut at = 0;
            while at < self.children.len() {
                if at > 0 {
                    writer.raw(",");
                }
                let child = &self.children[at];
                writer.raw("{\"name\":");
                writer.string(child.name);
                writer.raw(",");
                child.schema.write(writer, child.schema.nullable);
                writer.raw("}");
                at += 1;
            }
            writer.raw("]");
        }
    }
}

/// What a parameter of the Rust function is to the host.
#[derive(Clone, Copy, Debug)]
pub enum Param {
    /// A column of this type. A row function whose argument is no `Option` takes nulls all the same:
    /// the host or the SDK deals with them.
    Column {
        /// The type.
        schema: Schema,
        /// Whether the host may pass nulls.
        nullable: bool,
    },
    /// A column of any type.
    Any,
    /// Nothing: the SDK supplies it.
    None,
}

/// What comes back.
#[derive(Clone, Copy, Debug)]
pub enum ResultType {
    /// A column of this type.
    Column(Schema),
    /// The type of that argument.
    SameAs(u32),
    /// What `bind` answers.
    Bound,
}

/// The state of a function.
#[derive(Clone, Copy, Debug)]
pub struct State {
    /// Name.
    pub name: &'static str,
    /// `"resource"` or `"sequence"`.
    pub kind: &'static str,
    /// Export that makes it.
    pub init: &'static str,
    /// Export that ends it.
    pub close: Option<&'static str>,
    /// What `init` takes.
    pub init_args: InitSchema,
}

/// One overload of one UDF.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// The UDF's name.
    pub name: &'static str,
    /// Export that is called.
    pub symbol: &'static str,
    /// Markdown text.
    pub doc: &'static str,
    /// Names of the parameters, and what they are.
    pub params: &'static [(&'static str, Param)],
    /// What comes back.
    pub result: ResultType,
    /// `"immutable"`, `"stable"` or `"volatile"`.
    pub volatility: &'static str,
    /// `"propagate"` or `"handle"`.
    pub nulls: &'static str,
    /// Whether constants come as one row.
    pub constants: bool,
    /// Rows per call that suit it best.
    pub batch_size: Option<u64>,
    /// Export that fixes types.
    pub bind: Option<&'static str>,
    /// State it works on.
    pub state: Option<State>,
}

impl Record {
    /// Length of [`Record::bytes`].
    #[must_use]
    pub const fn byte_len(&self) -> usize {
        let mut writer = Writer::new(&mut []);
        self.write(&mut writer);
        writer.len()
    }

    /// The record as a line of JSON.
    #[must_use]
    pub const fn bytes<const LEN: usize>(&self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        self.write(&mut Writer::new(&mut bytes));
        bytes
    }

    /// The record as a line of JSON, for tests.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut bytes = vec![0; self.byte_len()];
        self.write(&mut Writer::new(&mut bytes));
        String::from_utf8_lossy(&bytes).into_owned()
    }

    const fn write(&self, writer: &mut Writer<'_>) {
        writer.raw("{\"abi\":1,\"kind\":\"scalar\",\"name\":");
        writer.string(self.name);
        if !self.doc.is_empty() {
            writer.key("doc");
            writer.string(self.doc);
        }
        writer.key("args");
        writer.raw("[");
        self.write_params(writer);
        writer.raw("]");
        writer.key("result");
        match &self.result {
            ResultType::Column(schema) => {
                writer.raw("{");
                schema.write(writer, schema.nullable);
            }
            ResultType::SameAs(argument) => {
                writer.raw("{\"same_as\":");
                writer.number(*argument as i128);
            }
            ResultType::Bound => writer.raw("{\"bound\":true"),
        }
        writer.raw("}");
        writer.key("volatility");
        writer.string(self.volatility);
        writer.key("nulls");
        writer.string(self.nulls);
        if self.constants {
            writer.key("constants");
            writer.boolean(true);
        }
        if let Some(rows) = self.batch_size {
            writer.key("batch_size");
            writer.number(rows as i128);
        }
        if let Some(bind) = self.bind {
            writer.key("bind");
            writer.string(bind);
        }
        if let Some(state) = &self.state {
            writer.key("state");
            state.write(writer);
        }
        writer.key("symbol");
        writer.string(self.symbol);
        writer.raw("}\n");
    }

    const fn write_params(&self, writer: &mut Writer<'_>) {
        let mut first = true;
        let mut at = 0;
        while at < self.params.len() {
            let (name, param) = &self.params[at];
            at += 1;
            if matches!(param, Param::None) {
                continue;
            }
            writer.raw(if first { "{\"name\":" } else { ",{\"name\":" });
            first = false;
            writer.string(name);
            writer.raw(",");
            match param {
                Param::Column { schema, nullable } => schema.write(writer, *nullable),
                Param::Any | Param::None => writer.raw("\"any\":true"),
            }
            writer.raw("}");
        }
    }
}

impl State {
    const fn write(&self, writer: &mut Writer<'_>) {
        writer.raw("{\"name\":");
        writer.string(self.name);
        writer.key("kind");
        writer.string(self.kind);
        writer.key("init");
        writer.string(self.init);
        if let Some(close) = self.close {
            writer.key("close");
            writer.string(close);
        }
        writer.key("init_args");
        self.init_args.write(writer);
        writer.raw("}");
    }
}
