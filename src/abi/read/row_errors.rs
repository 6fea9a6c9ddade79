//! The column that says which rows failed.

use arrow::array::{Array, make_array};
use arrow::datatypes::{DataType, Field};

use super::super::frame::{ARRAY_BYTES, clean_text};
use super::super::layout::Layout;
use super::Reader;
use crate::error::{Fault, Violation};

/// The row errors of a call.
pub(crate) struct RowErrors {
    layout: Layout,
}

impl RowErrors {
    /// The reader of the row-error column, whose type the ABI fixes.
    pub(crate) fn new() -> Result<Self, String> {
        let fields = vec![
            Field::new("row", DataType::UInt32, false),
            Field::new("code", DataType::Int32, false),
            // Utf8 by the ABI, which lies in memory as binary does; read as bytes, because what a guest
            // says need not be text and is made so.
            Field::new("message", DataType::Binary, false),
        ];
        let field = Field::new("row_errors", DataType::Struct(fields.into()), false);
        Ok(RowErrors {
            layout: Layout::new(&field, "row_errors")?,
        })
    }

    /// Reads them; empty when the guest left the struct alone.
    pub(crate) fn read(
        &self,
        reader: &mut Reader<'_>,
        pointer: u32,
        rows: usize,
    ) -> Result<Vec<(usize, i32, String)>, Fault> {
        use arrow::array::AsArray;
        let malformed = |reason: String| Fault::from(Violation::RowErrors { reason });
        let untouched = reader
            .bytes(&self.layout, "the row errors", pointer, ARRAY_BYTES as u64)?
            .iter()
            .all(|b| *b == 0);
        if untouched {
            return Ok(Vec::new());
        }
        let raw = reader.raw(&self.layout, pointer)?;
        let count = usize::try_from(raw.length).ok().filter(|n| *n <= rows);
        let count =
            count.ok_or_else(|| malformed(format!("{} of them for {rows} rows", raw.length)))?;
        if count == 0 {
            return Ok(Vec::new());
        }
        let array = make_array(reader.array(&self.layout, &raw, 0, count)?);
        if array.logical_null_count() > 0 {
            return Err(malformed("some of them are null".to_owned()));
        }
        let columns = array
            .as_struct_opt()
            .ok_or_else(|| malformed("not a struct".to_owned()))?;
        let (Some(row), Some(code), Some(message)) = (
            columns
                .column(0)
                .as_primitive_opt::<arrow::datatypes::UInt32Type>(),
            columns
                .column(1)
                .as_primitive_opt::<arrow::datatypes::Int32Type>(),
            columns.column(2).as_binary_opt::<i32>(),
        ) else {
            return Err(malformed("wrong children".to_owned()));
        };
        let mut errors: Vec<(usize, i32, String)> = Vec::with_capacity(count);
        for ((row, code), message) in row.values().iter().zip(code.values()).zip(message.iter()) {
            let row = usize::try_from(*row).unwrap_or(usize::MAX);
            if row >= rows || errors.last().is_some_and(|(last, _, _)| row <= *last) {
                return Err(malformed(format!(
                    "row {row} of {rows}, out of order or out of range"
                )));
            }
            let message = message.unwrap_or_default();
            errors.push((
                row,
                *code,
                clean_text(
                    message
                        .get(..message.len().min(1 << 12))
                        .unwrap_or_default(),
                ),
            ));
        }
        Ok(errors)
    }
}
