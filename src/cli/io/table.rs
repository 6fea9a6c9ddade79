//! A table for people to read.

use std::io::Write;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::util::display::FormatOptions;
use arrow::util::pretty::pretty_format_batches_with_options;
use indicatif::HumanCount;

use super::error::EncodeError;
use crate::cli::terminal::printable;

/// Rows that are shown; a longer result is for a file.
const SHOWN: usize = 40;

/// Keeps the first rows and prints them at the end.
pub(super) struct TableWriter<W> {
    schema: SchemaRef,
    out: W,
    kept: Vec<RecordBatch>,
    rows: usize,
}

impl<W: Write> TableWriter<W> {
    pub(super) fn new(schema: &SchemaRef, out: W) -> Self {
        TableWriter {
            schema: SchemaRef::clone(schema),
            out,
            kept: Vec::new(),
            rows: 0,
        }
    }

    pub(super) fn write(&mut self, batch: &RecordBatch) {
        let room = SHOWN.saturating_sub(self.rows).min(batch.num_rows());
        if room > 0 {
            self.kept.push(batch.slice(0, room));
        }
        self.rows = self.rows.saturating_add(batch.num_rows());
    }

    pub(super) fn finish(mut self) -> Result<W, EncodeError> {
        let options = FormatOptions::default().with_null("");
        if self.kept.is_empty() {
            self.kept.push(RecordBatch::new_empty(self.schema));
        }
        let table = pretty_format_batches_with_options(&self.kept, &options)?;
        writeln!(self.out, "{}", printable(&table.to_string()))?;
        if self.rows > SHOWN {
            let (shown, all) = (SHOWN, HumanCount(self.rows as u64));
            writeln!(
                self.out,
                "the first {shown} of {all} rows; write all with -o FILE"
            )?;
        }
        Ok(self.out)
    }
}
