//! JSON: objects one after the other, or in one array. Types are guessed from the first ones.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, FieldRef, Float64Type, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::json::reader::infer_json_schema_from_iterator;
use arrow::json::{Reader, ReaderBuilder};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;

use super::json_syntax::{Nesting, Rows, Syntax};
use super::live::{LiveBatches, PushDecoder};
use super::schema::{SAMPLE, check_names};
use super::{InputError, Source};

/// The schema to decode with: integers as text.
///
/// arrow-json cuts what stands after the decimal point when an integer is expected. As text nothing is
/// lost, and casting it is strict.
fn decoded(schema: &Schema) -> SchemaRef {
    Arc::new(Schema::new(
        schema.fields().iter().map(as_text).collect::<Vec<_>>(),
    ))
}

fn as_text(field: &FieldRef) -> FieldRef {
    let data_type = match field.data_type() {
        DataType::Int64 => DataType::Utf8,
        DataType::List(item) => DataType::List(as_text(item)),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(as_text).collect()),
        other => other.clone(),
    };
    Arc::new(field.as_ref().clone().with_data_type(data_type))
}

/// Refuses numbers that are none, which arrow-json makes of texts and of what is too large.
fn check_finite(name: &str, column: &ArrayRef) -> Result<(), ArrowError> {
    let wrong = |value: f64| {
        ArrowError::JsonError(format!(
            "column `{name}`, whose first values are numbers: one is {value}, which JSON has not, or too large for 64 bits; correct it, or write null"
        ))
    };
    match column.data_type() {
        DataType::Float64 => {
            let numbers = column.as_primitive::<Float64Type>();
            match numbers.iter().flatten().find(|v| !v.is_finite()) {
                Some(value) => Err(wrong(value)),
                None => Ok(()),
            }
        }
        DataType::List(_) => check_finite(name, column.as_list::<i32>().values()),
        DataType::Struct(_) => {
            let columns = column.as_struct().columns();
            columns.iter().try_for_each(|c| check_finite(name, c))
        }
        _ => Ok(()),
    }
}

/// A batch with the types that are meant.
fn strict(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let options = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    let mut columns = Vec::with_capacity(batch.num_columns());
    for (column, field) in batch.columns().iter().zip(schema.fields()) {
        let cast = cast_with_options(column, field.data_type(), &options).map_err(|e| {
            let reason = match e {
                ArrowError::CastError(text) => text,
                other => other.to_string(),
            };
            ArrowError::JsonError(format!(
                "column `{}`, whose first values are whole numbers: {reason}",
                field.name()
            ))
        })?;
        check_finite(field.name(), &cast)?;
        columns.push(cast);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(SchemaRef::clone(schema), columns, &options)
}

/// The common schema of files: each column that some object has, in the order in which they appear. Of a
/// file that is still being written (`live`) the first object says it all.
pub(super) fn infer(
    sources: &[Source],
    nesting: Nesting,
    live: bool,
) -> Result<Schema, InputError> {
    let mut order: Vec<String> = Vec::new();
    let mut known = HashSet::new();
    let mut values: Vec<Value> = Vec::new();
    let share = match live {
        true => 1,
        false => SAMPLE.div_ceil(sources.len().max(1)),
    };
    for source in sources {
        let objects = serde_json::Deserializer::from_reader(bytes(source.look()?, nesting))
            .into_iter::<Object>();
        for (i, object) in objects.take(share).enumerate() {
            let Object { keys, value } = object.map_err(|e| parse_error(source, i, &e))?;
            for key in keys {
                if known.insert(key.clone()) {
                    order.push(key);
                }
            }
            values.push(without_nulls(value));
        }
    }
    let name = match sources {
        [only] => only.name().to_owned(),
        _ => PathBuf::from("the input"),
    };
    let schema = infer_json_schema_from_iterator(values.into_iter().map(Ok))
        .map_err(|e| mixed(&name, &e))?;
    let places: HashMap<&str, usize> = order.iter().map(String::as_str).zip(0..).collect();
    let mut fields: Vec<FieldRef> = schema.fields().iter().map(settled).collect();
    fields.sort_by_key(|field| places.get(field.name().as_str()).copied());
    let schema = Schema::new(fields);
    check_names(&name, &schema)?;
    Ok(schema)
}

/// A value whose arrays hold no nulls: they say nothing about the items' type, and arrow-json takes them
/// for one that differs from the others.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Array(items) => items
            .into_iter()
            .filter(|item| !item.is_null())
            .map(without_nulls)
            .collect(),
        Value::Object(entries) => entries
            .into_iter()
            .map(|(key, value)| (key, without_nulls(value)))
            .collect(),
        other => other,
    }
}

/// A column without any value can hold any; text does.
fn settled(field: &FieldRef) -> FieldRef {
    Arc::new(
        field
            .as_ref()
            .clone()
            .with_data_type(settled_type(field.data_type())),
    )
}

fn settled_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Null => DataType::Utf8,
        DataType::List(item) => DataType::List(settled(item)),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(settled).collect()),
        other => other.clone(),
    }
}

/// An object, and the order of its keys.
struct Object {
    keys: Vec<String>,
    value: Value,
}

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Keys;
        impl<'de> Visitor<'de> for Keys {
            type Value = Object;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object for each row")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object, A::Error> {
                let mut keys = Vec::new();
                let mut value = serde_json::Map::new();
                while let Some((key, of)) = map.next_entry::<String, Value>()? {
                    keys.push(key.clone());
                    value.insert(key, of);
                }
                Ok(Object {
                    keys,
                    value: Value::Object(value),
                })
            }
        }
        deserializer.deserialize_map(Keys)
    }
}

/// The objects alone.
fn bytes(source: BufReader<Box<dyn Read + Send>>, nesting: Nesting) -> Box<dyn BufRead + Send> {
    Box::new(BufReader::new(Rows::new(source, nesting)))
}

/// The batches of one file.
pub(super) struct JsonBatches {
    reader: Reader<Box<dyn BufRead + Send>>,
    schema: SchemaRef,
    name: PathBuf,
    /// Rows given so far.
    rows: usize,
}

impl JsonBatches {
    pub(super) fn open(
        source: &Source,
        schema: &SchemaRef,
        projection: &[usize],
        batch_size: usize,
        nesting: Nesting,
    ) -> Result<Self, InputError> {
        let name = source.name();
        let schema = schema
            .project(projection)
            .map_err(|e| InputError::corrupt(name, e.to_string()))?;
        let reader = ReaderBuilder::new(decoded(&schema))
            .with_batch_size(batch_size)
            .with_coerce_primitive(true)
            .build(bytes(source.open()?, nesting))
            .map_err(|e| InputError::corrupt(name, e.to_string()))?;
        Ok(JsonBatches {
            reader,
            schema: Arc::new(schema),
            name: name.to_owned(),
            rows: 0,
        })
    }
}

/// The batches of a file that is still being written.
pub(super) fn live(
    source: &Source,
    schema: &SchemaRef,
    projection: &[usize],
    batch_size: usize,
    patience: Duration,
) -> Result<LiveBatches<LiveJson>, InputError> {
    let wrong = |e: ArrowError| InputError::corrupt(source.name(), e.to_string());
    let schema = schema.project(projection).map_err(wrong)?;
    let decoder = ReaderBuilder::new(decoded(&schema))
        .with_batch_size(batch_size)
        .with_coerce_primitive(true)
        .build_decoder()
        .map_err(wrong)?;
    let decoder = LiveJson {
        decoder,
        schema: Arc::new(schema),
        syntax: Syntax::new(Nesting::Lines),
        looked_at: Vec::new(),
    };
    LiveBatches::open(source, decoder, patience, None, |name, e| {
        decode_error(&name, 0, e)
    })
}

pub(super) struct LiveJson {
    decoder: arrow::json::reader::Decoder,
    schema: SchemaRef,
    syntax: Syntax,
    /// Bytes that `syntax` has seen and the decoder has not: what is left when a batch is full.
    looked_at: Vec<u8>,
}

impl PushDecoder for LiveJson {
    fn decode(&mut self, bytes: &[u8]) -> Result<usize, ArrowError> {
        let mut new = bytes
            .get(self.looked_at.len()..)
            .unwrap_or_default()
            .to_vec();
        self.syntax
            .feed(&mut new)
            .map_err(|e| ArrowError::JsonError(e.to_string()))?;
        self.looked_at.append(&mut new);
        let taken = self.decoder.decode(&self.looked_at)?;
        self.looked_at.drain(..taken);
        Ok(taken)
    }

    fn rows(&self) -> usize {
        self.decoder.len()
    }

    fn flush(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        // An object may go over several lines.
        match self.decoder.has_partial_record() {
            true => Ok(None),
            false => {
                let batch = self.decoder.flush()?;
                batch.map(|batch| strict(&batch, &self.schema)).transpose()
            }
        }
    }
}

impl Iterator for JsonBatches {
    type Item = Result<RecordBatch, InputError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.reader.next()?;
        let batch = match batch.and_then(|batch| strict(&batch, &self.schema)) {
            Ok(batch) => batch,
            Err(e) => return Some(Err(decode_error(&self.name, self.rows, &e))),
        };
        self.rows = self.rows.saturating_add(batch.num_rows());
        Some(Ok(batch))
    }
}

fn parse_error(source: &Source, row: usize, error: &serde_json::Error) -> InputError {
    let path = source.name().to_owned();
    if error.is_io() {
        return InputError::Corrupt {
            path,
            reason: error.to_string(),
        };
    }
    InputError::Corrupt {
        path,
        reason: format!("row {row}: {error}"),
    }
}

fn decode_error(path: &Path, rows: usize, error: &ArrowError) -> InputError {
    let reason = match error {
        ArrowError::IoError(_, source) if source.kind() != io::ErrorKind::InvalidData => {
            return InputError::Read {
                path: path.to_owned(),
                source: io::Error::new(source.kind(), source.to_string()),
            };
        }
        ArrowError::IoError(_, source) => source.to_string(),
        ArrowError::JsonError(text) => text.clone(),
        other => other.to_string(),
    };
    InputError::corrupt(path, format!("after row {rows}: {reason}"))
}

fn mixed(path: &Path, error: &ArrowError) -> InputError {
    let reason = match error {
        ArrowError::JsonError(text) => text.clone(),
        other => other.to_string(),
    };
    InputError::unsupported(
        path,
        format!(
            "a column is an object or array in some rows and something else in others: {reason}"
        ),
    )
}
