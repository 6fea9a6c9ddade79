//! CSV: types guessed from the first rows, an empty field is a null.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Cursor, Read};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{Array, RecordBatch};
use arrow::compute::cast;
use arrow::csv::reader::Format;
use arrow::csv::{Reader, ReaderBuilder};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use arrow::error::ArrowError;
use regex::Regex;

use super::live::{Lines, LiveBatches, PushDecoder};
use super::schema::{SAMPLE, check_names, merge_schemas};
use super::{Format as FileFormat, InputError, Source};

/// How a file is written.
#[derive(Debug, Clone)]
pub(crate) struct CsvDialect {
    /// What separates fields: a comma where nothing is said, a tab in files called `.tsv`.
    pub(crate) delimiter: Option<u8>,
    /// Whether the first line has the names of the columns; else they are `column_1` and so on.
    pub(crate) header: bool,
    /// Fields that are null beside empty ones.
    pub(crate) nulls: Vec<String>,
}

impl Default for CsvDialect {
    fn default() -> Self {
        CsvDialect {
            delimiter: None,
            header: true,
            nulls: Vec::new(),
        }
    }
}

impl CsvDialect {
    fn delimiter(&self, source: &Source) -> u8 {
        let extension = source.name().extension();
        let tabs = extension.is_some_and(|e| e.eq_ignore_ascii_case("tsv"));
        self.delimiter.unwrap_or(if tabs { b'\t' } else { b',' })
    }

    /// What a null looks like; `None` for empty fields alone.
    fn null_regex(&self) -> Option<Regex> {
        if self.nulls.is_empty() {
            return None;
        }
        let words: Vec<String> = self.nulls.iter().map(|text| regex::escape(text)).collect();
        // Escaped words make a regular expression; it could only be too long.
        Regex::new(&format!("^({})?$", words.join("|"))).ok()
    }

    fn format(&self, source: &Source) -> Format {
        let format = Format::default()
            .with_header(self.header)
            .with_delimiter(self.delimiter(source));
        match self.null_regex() {
            Some(regex) => format.with_null_regex(regex),
            None => format,
        }
    }

    fn reader(&self, source: &Source, schema: &SchemaRef) -> ReaderBuilder {
        let reader = ReaderBuilder::new(Arc::clone(schema))
            .with_header(self.header)
            .with_delimiter(self.delimiter(source));
        match self.null_regex() {
            Some(regex) => reader.with_null_regex(regex),
            None => reader,
        }
    }
}

/// The common schema of files whose columns have the same names in the same order. Of a file that is
/// still being written (`live`) the types are those of the rows that are there at first.
pub(super) fn infer(
    sources: &[Source],
    dialect: &CsvDialect,
    live: bool,
) -> Result<Schema, InputError> {
    let mut common: Option<Schema> = None;
    for source in sources {
        let name = source.name();
        let wrong = |e: ArrowError| failed(name.to_owned(), &e, None);
        let mut reader = source.look()?;
        let format = dialect.format(source);
        let delimiter = dialect.delimiter(source);
        let lines = match live {
            true => first_lines(&mut reader, delimiter).map_err(InputError::read(name))?,
            false => None,
        };
        let (sample, rows): (Box<dyn Read>, usize) = match &lines {
            Some(lines) => (Box::new(Cursor::new(lines.clone())), SAMPLE),
            None => (Box::new(reader), if live { 1 } else { SAMPLE }),
        };
        let (schema, rows) = format.infer_schema(sample, Some(rows)).map_err(wrong)?;
        check_names(name, &schema)?;
        let again: Box<dyn Read> = match lines {
            Some(lines) => Box::new(Cursor::new(lines)),
            None => Box::new(source.look()?),
        };
        let schema =
            without_impossible_dates(source, dialect, schema, again, rows).map_err(wrong)?;
        common = Some(match common {
            None => schema,
            Some(common) => {
                let first = sources.first().unwrap_or(source);
                let (common, schema) = reconcile(&common, &schema);
                merge_schemas(&common, first.name(), &schema, name)?
            }
        });
    }
    // A column without any value can hold any; text does.
    let fields = common
        .iter()
        .flat_map(|schema| schema.fields())
        .map(|field| match field.data_type() {
            DataType::Null => Arc::new(Field::new(field.name(), DataType::Utf8, true)),
            _ => Arc::clone(field),
        });
    Ok(Schema::new(fields.collect::<Vec<_>>()))
}

/// What to do about CSV whose only column has a name that looks like several, because something other than
/// the delimiter separates them.
pub(crate) fn other_delimiter(format: FileFormat, schema: &Schema) -> Option<String> {
    let [only] = schema.fields().as_ref() else {
        return None;
    };
    let (_, written) = [(';', "';'"), ('\t', "'\\t'"), ('|', "'|'"), (',', "','")]
        .into_iter()
        .find(|(character, _)| only.name().contains(*character))?;
    (format == FileFormat::Csv).then(|| {
        format!(
            "the input has one column, {:?}; --delimiter {written} reads it as several",
            only.name()
        )
    })
}

/// The lines that are there without waiting, if they are a header and a row at least.
fn first_lines(reader: &mut impl BufRead, delimiter: u8) -> std::io::Result<Option<Vec<u8>>> {
    let there = reader.fill_buf()?;
    let mut lines = Lines::new(Some(delimiter));
    let end = lines.complete(there);
    Ok(match lines.count() {
        0 | 1 => None,
        _ => there.get(..end).map(<[u8]>::to_vec),
    })
}

/// The schema with text in place of dates and times where one of the first `rows` rows has one that does
/// not exist. Types are guessed from the look of values, which a 30th of February has.
fn without_impossible_dates(
    source: &Source,
    dialect: &CsvDialect,
    schema: Schema,
    sample: Box<dyn Read>,
    rows: usize,
) -> Result<Schema, ArrowError> {
    let of_time: Vec<usize> = schema
        .fields()
        .iter()
        .enumerate()
        .filter(|(_, field)| field.data_type().is_temporal())
        .map(|(i, _)| i)
        .collect();
    if of_time.is_empty() {
        return Ok(schema);
    }
    let as_text = |field: &Arc<Field>| {
        let text = field.as_ref().clone().with_data_type(DataType::Utf8);
        Arc::new(text)
    };
    let texts: Vec<Arc<Field>> = schema.fields().iter().map(as_text).collect();
    let reader = dialect
        .reader(source, &Arc::new(Schema::new(texts)))
        .with_batch_size(rows.max(1))
        .with_projection(of_time.clone())
        .build(sample)?;
    let mut impossible: HashSet<usize> = HashSet::new();
    for batch in reader.take(1) {
        let batch = batch?;
        for (column, i) in batch.columns().iter().zip(&of_time) {
            let field = schema.field(*i);
            if cast(column, field.data_type())?.null_count() > column.null_count() {
                impossible.insert(*i);
            }
        }
    }
    let fields = schema.fields().iter().enumerate();
    let fields = fields.map(|(i, field)| match impossible.contains(&i) {
        true => as_text(field),
        false => Arc::clone(field),
    });
    Ok(Schema::new(fields.collect::<Vec<_>>()))
}

/// Both schemas with the types that hold the columns of either.
fn reconcile(a: &Schema, b: &Schema) -> (Schema, Schema) {
    let retyped = |of: &Schema, other: &Schema| {
        let fields = of.fields().iter().enumerate().map(|(i, field)| {
            let common = other.fields().get(i).map_or_else(
                || field.data_type().clone(),
                |other| common_type(field.data_type(), other.data_type()),
            );
            Field::new(field.name(), common, true)
        });
        Schema::new(fields.collect::<Vec<_>>())
    };
    (retyped(a, b), retyped(b, a))
}

/// The narrowest type that inference knows for the values of both.
fn common_type(a: &DataType, b: &DataType) -> DataType {
    use DataType::{Date32, Float64, Int64, Null, Timestamp, Utf8};
    let finer = |a: &TimeUnit, b: &TimeUnit| {
        let by_fineness = [
            TimeUnit::Nanosecond,
            TimeUnit::Microsecond,
            TimeUnit::Millisecond,
            TimeUnit::Second,
        ];
        let finest = by_fineness.into_iter().find(|unit| unit == a || unit == b);
        finest.unwrap_or(TimeUnit::Nanosecond)
    };
    match (a, b) {
        (a, b) if a == b => a.clone(),
        (Null, other) | (other, Null) => other.clone(),
        (Int64, Float64) | (Float64, Int64) => Float64,
        (Date32, Timestamp(unit, zone)) | (Timestamp(unit, zone), Date32) => {
            Timestamp(*unit, zone.clone())
        }
        (Timestamp(a, None), Timestamp(b, None)) => Timestamp(finer(a, b), None),
        _ => Utf8,
    }
}

/// The batches of one file.
pub(super) struct CsvBatches {
    reader: Reader<BufReader<Box<dyn Read + Send>>>,
    name: PathBuf,
    schema: SchemaRef,
}

impl CsvBatches {
    pub(super) fn open(
        source: &Source,
        dialect: &CsvDialect,
        schema: &SchemaRef,
        projection: &[usize],
        batch_size: usize,
    ) -> Result<Self, InputError> {
        let reader = dialect
            .reader(source, schema)
            .with_batch_size(batch_size)
            .with_projection(projection.to_vec())
            .build(source.open()?)
            .map_err(|e| failed(source.name().to_owned(), &e, Some(schema)))?;
        Ok(CsvBatches {
            reader,
            name: source.name().to_owned(),
            schema: Arc::clone(schema),
        })
    }
}

/// The batches of a file that is still being written.
pub(super) fn live(
    source: &Source,
    dialect: &CsvDialect,
    schema: &SchemaRef,
    projection: &[usize],
    batch_size: usize,
    patience: Duration,
) -> Result<LiveBatches<LiveCsv>, InputError> {
    let decoder = dialect
        .reader(source, schema)
        .with_batch_size(batch_size)
        .with_projection(projection.to_vec())
        .build_decoder();
    let decoder = LiveCsv {
        decoder,
        batch_size,
        schema: Arc::clone(schema),
    };
    let delimiter = Some(dialect.delimiter(source));
    LiveBatches::open(source, decoder, patience, delimiter, |name, e| {
        failed(name, e, None)
    })
}

pub(super) struct LiveCsv {
    decoder: arrow::csv::reader::Decoder,
    batch_size: usize,
    /// All columns.
    schema: SchemaRef,
}

impl PushDecoder for LiveCsv {
    fn decode(&mut self, bytes: &[u8]) -> Result<usize, ArrowError> {
        self.decoder.decode(bytes)
    }

    fn rows(&self) -> usize {
        self.batch_size.saturating_sub(self.decoder.capacity())
    }

    fn flush(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        self.decoder.flush().map_err(|e| match &e {
            ArrowError::ParseError(text) => {
                explain(text, &self.schema).map_or(e, ArrowError::ParseError)
            }
            _ => e,
        })
    }
}

impl Iterator for CsvBatches {
    type Item = Result<RecordBatch, InputError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.reader.next()?;
        Some(batch.map_err(|e| failed(self.name.clone(), &e, Some(&self.schema))))
    }
}

fn failed(path: PathBuf, error: &ArrowError, schema: Option<&Schema>) -> InputError {
    match error {
        ArrowError::IoError(_, source) => InputError::Read {
            path,
            source: std::io::Error::new(source.kind(), source.to_string()),
        },
        ArrowError::ParseError(text) => {
            let reason = schema
                .and_then(|schema| explain(text, schema))
                .unwrap_or_else(|| text.clone());
            InputError::Corrupt { path, reason }
        }
        ArrowError::CsvError(text) => InputError::Corrupt {
            path,
            reason: text.clone(),
        },
        other => InputError::Corrupt {
            path,
            reason: other.to_string(),
        },
    }
}

/// What arrow-csv says about a value that is not of its column's type, with the column's name, the line
/// that an editor shows, and what to do. `None` when it is worded otherwise.
fn explain(text: &str, schema: &Schema) -> Option<String> {
    let (column, line, what) = match text.strip_prefix("Error while parsing value '") {
        // "V' as type 'T' for column C at line L. Row data: …"
        Some(text) => {
            let (before, _) = text.split_once(". Row data: ")?;
            let (before, line) = before.rsplit_once(" at line ")?;
            let (before, column) = before.rsplit_once(" for column ")?;
            let (value, _) = before.rsplit_once("' as type '")?;
            (column, line, Some(value))
        }
        // "Error parsing column C at line L: Parser error: Error parsing timestamp from 'V': …"
        None => {
            let (column, text) = text
                .strip_prefix("Error parsing column ")?
                .split_once(" at line ")?;
            let (line, reason) = text.split_once(": ")?;
            let value = reason
                .strip_prefix("Parser error: Error parsing timestamp from '")
                .and_then(|text| text.rsplit_once("': "));
            (column, line, value.map(|(value, _)| value))
        }
    };
    // It counts from the first row of data as 1; the header is a line too.
    let line = line.parse::<usize>().ok()?.saturating_add(1);
    let field = schema.fields().get(column.parse::<usize>().ok()?)?;
    let (name, data_type) = (field.name(), field.data_type());
    let what = match what {
        Some(value) => format!("{value:?} is not {data_type}"),
        None => format!("a value does not fit {data_type}"),
    };
    Some(format!(
        "line {line}, column `{name}`: {what}, the type of the column's first values; correct it, leave it empty for a null, or put its row among the first {SAMPLE}, which decide the type"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_several_files_meet_in_one_that_holds_both() {
        use DataType::{Boolean, Float64, Int64, Null, Utf8};
        assert_eq!(common_type(&Null, &Int64), Int64);
        assert_eq!(common_type(&Float64, &Int64), Float64);
        assert_eq!(common_type(&Boolean, &Int64), Utf8);
        let second = DataType::Timestamp(TimeUnit::Second, None);
        let milli = DataType::Timestamp(TimeUnit::Millisecond, None);
        assert_eq!(common_type(&second, &milli), milli);
        assert_eq!(common_type(&milli, &DataType::Date32), milli);
    }

    #[test]
    fn words_for_nulls_are_taken_as_they_are() {
        let dialect = CsvDialect {
            nulls: vec!["NA".to_owned(), ".".to_owned()],
            ..CsvDialect::default()
        };
        let regex = dialect.null_regex().unwrap();
        for (text, null) in [
            ("", true),
            ("NA", true),
            (".", true),
            ("x", false),
            ("NAN", false),
        ] {
            assert_eq!(regex.is_match(text), null, "{text}");
        }
    }

    #[test]
    fn a_value_of_another_type_is_told_by_line_and_column() {
        let schema = Schema::new(vec![Field::new("a", DataType::Int64, true)]);
        let text =
            "Error while parsing value 'x' as type 'Int64' for column 0 at line 1. Row data: '[x]'";
        assert_eq!(
            explain(text, &schema).unwrap(),
            "line 2, column `a`: \"x\" is not Int64, the type of the column's first values; correct it, leave it empty for a null, or put its row among the first 10000, which decide the type"
        );
        assert_eq!(explain("something else", &schema), None);
    }
}
