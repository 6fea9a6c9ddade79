//! Commands that show again what a check found.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, StringArray};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{Field, Schema};
use arrow::ipc::writer::FileWriter;

use super::batches::Batch;
use super::compare::{SHOWN, bounded, value};
use super::shapes::Shape;
use crate::{Function, ParameterType};

/// Characters of a literal that a command may hold.
const LITERAL: usize = 200;

/// What is the same for all commands of a check.
#[derive(Debug)]
pub(super) struct Commands {
    /// The module as it was named.
    pub(super) module: String,
    /// The init arguments as they were given.
    pub(super) init: Option<String>,
    /// The limits that differ from those of `wasmill run`.
    pub(super) limits: String,
}

/// What a command has to repeat of the check's options.
#[derive(Debug, Clone, Copy)]
pub(super) struct Needs {
    /// The state was made with the init arguments given.
    pub(super) init: bool,
    /// A limit was reached.
    pub(super) limits: bool,
}

impl Commands {
    /// The options at the end of a command.
    fn options(&self, needs: Needs) -> String {
        let mut options = String::new();
        if let Some(init) = self.init.as_ref().filter(|_| needs.init) {
            options.push_str(&format!(" --init {}", quoted(init)));
        }
        if needs.limits {
            options.push_str(&self.limits);
        }
        options
    }

    /// A command for one row that needs no file. `None` where the values cannot be written on a
    /// command line, or would choose another overload there.
    pub(super) fn of_row(
        &self,
        function: &Function,
        overloads: usize,
        shape: &Shape,
        batch: &Batch,
        needs: Needs,
    ) -> Option<String> {
        let any = function
            .parameters
            .iter()
            .any(|p| p.accepts == ParameterType::Any);
        if batch.rows != 1 || overloads > 1 || any {
            return None;
        }
        let literals = literals(function, shape, batch)?;
        Some(format!(
            "echo '{{\"row\": 0}}' | wasmill run {} {} --input-format jsonl{literals}{}",
            quoted(&self.module),
            function.name,
            self.options(needs)
        ))
    }

    /// A command for a batch in a file. `None` where a constant cannot be written on a command line.
    pub(super) fn of_file(
        &self,
        function: &Function,
        shape: &Shape,
        file: &Path,
        rows: usize,
        needs: Needs,
    ) -> Option<String> {
        let constants = constants(function, shape)?;
        Some(format!(
            "wasmill run {} {} -i {}{constants} --batch-size {}{}",
            quoted(&self.module),
            function.name,
            quoted(&file.display().to_string()),
            rows.max(1),
            self.options(needs)
        ))
    }
}

/// Writes a batch as an Arrow file, its columns named like the parameters.
pub(super) fn save(
    function: &Function,
    shape: &Shape,
    batch: &Batch,
    file: &Path,
) -> Result<(), String> {
    let failed = |e: &dyn std::fmt::Display| format!("{} cannot be written: {e}", file.display());
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder).map_err(|e| failed(&e))?;
    }
    let columns = shape.column_places().into_iter().zip(&batch.columns);
    let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) = columns
        .map(|(place, column)| {
            let name = function
                .parameters
                .get(place)
                .map_or("", |p| p.name.as_str());
            let nullable = column.logical_null_count() > 0;
            let field = Field::new(name, column.data_type().clone(), nullable);
            (field, Arc::clone(column))
        })
        .unzip();
    let options = RecordBatchOptions::new().with_row_count(Some(batch.rows));
    let schema = Arc::new(Schema::new(fields));
    let rows = RecordBatch::try_new_with_options(Arc::clone(&schema), arrays, &options)
        .map_err(|e| failed(&e))?;
    let out = File::create(file).map_err(|e| failed(&e))?;
    FileWriter::try_new(out, &schema)
        .and_then(|mut writer| {
            writer.write(&rows)?;
            writer.finish()
        })
        .map_err(|e| failed(&e))
}

/// The arguments of one row, for people.
pub(super) fn row_values(function: &Function, shape: &Shape, batch: &Batch) -> Vec<String> {
    each(function, shape, batch)
        .map(|(name, array)| format!("{name} = {}", bounded(&value(array, 0), SHOWN)))
        .collect()
}

/// `--arg` for each argument of the first row.
fn literals(function: &Function, shape: &Shape, batch: &Batch) -> Option<String> {
    each(function, shape, batch)
        .map(|(name, array)| argument(name, array))
        .collect()
}

/// `--arg` for each constant.
fn constants(function: &Function, shape: &Shape) -> Option<String> {
    function
        .parameters
        .iter()
        .zip(&shape.constants)
        .filter_map(|(p, constant)| constant.as_ref().map(|array| (p, array)))
        .map(|(p, array)| match p.accepts {
            ParameterType::Exact(_) => argument(&p.name, array),
            ParameterType::Any => None,
        })
        .collect()
}

fn argument(name: &str, array: &ArrayRef) -> Option<String> {
    let word = format!("{name}=lit:{}", literal(array)?);
    Some(format!(" --arg {}", quoted(&word)))
}

fn each<'a>(
    function: &'a Function,
    shape: &'a Shape,
    batch: &'a Batch,
) -> impl Iterator<Item = (&'a str, &'a ArrayRef)> {
    let mut columns = batch.columns.iter();
    function
        .parameters
        .iter()
        .zip(&shape.constants)
        .filter_map(move |(p, constant)| {
            let array = match constant {
                Some(value) => value,
                None => columns.next()?,
            };
            Some((p.name.as_str(), array))
        })
}

/// The text that is read as this value again.
fn literal(array: &ArrayRef) -> Option<String> {
    if array.is_null(0) {
        return Some("null".to_owned());
    }
    let options = arrow::util::display::FormatOptions::default();
    let formatter = arrow::util::display::ArrayFormatter::try_new(array.as_ref(), &options).ok()?;
    let text = formatter.value(0).try_to_string().ok()?;
    if text.len() > LITERAL
        || text.trim().eq_ignore_ascii_case("null")
        || text.contains(|c: char| !c.is_alphanumeric() && !c.is_ascii_graphic() && c != ' ')
    {
        return None;
    }
    let strict = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    let read = StringArray::from(vec![text.as_str()]);
    let again = cast_with_options(&read, array.data_type(), &strict).ok()?;
    let same = again.to_data() == array.slice(0, 1).to_data();
    same.then_some(text)
}

/// A word as shells read it.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@+%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use arrow::array::{Date32Array, Float64Array, Int64Array};

    use super::*;

    #[test]
    fn a_literal_is_read_as_the_same_value_or_not_given() {
        let literal = |array: ArrayRef| literal(&array);
        assert_eq!(
            literal(Arc::new(Int64Array::from(vec![i64::MIN]))).as_deref(),
            Some("-9223372036854775808")
        );
        assert_eq!(
            literal(Arc::new(Int64Array::from(vec![None]))).as_deref(),
            Some("null")
        );
        assert_eq!(
            literal(Arc::new(Float64Array::from(vec![5e-324]))).as_deref(),
            Some("5e-324")
        );
        assert_eq!(literal(Arc::new(StringArray::from(vec!["NULL"]))), None);
        assert_eq!(literal(Arc::new(StringArray::from(vec!["a\0"]))), None);
        assert_eq!(literal(Arc::new(Date32Array::from(vec![i32::MAX]))), None);
    }

    #[test]
    fn words_are_quoted_where_shells_need_it() {
        assert_eq!(quoted("a.wasm"), "a.wasm");
        assert_eq!(quoted("it's 1"), r"'it'\''s 1'");
        assert_eq!(quoted(""), "''");
    }
}
