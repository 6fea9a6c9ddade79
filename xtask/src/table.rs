//! A table of text, columns aligned.

use std::fmt::{self, Write as _};

#[derive(Clone, Copy)]
pub enum Align {
    Left,
    Right,
}

pub struct Table {
    columns: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new(columns: impl IntoIterator<Item = (impl Into<String>, Align)>) -> Table {
        let columns = columns
            .into_iter()
            .map(|(name, align)| (name.into(), align))
            .collect();
        Table {
            columns,
            rows: Vec::new(),
        }
    }

    /// Adds a row; missing cells are empty, surplus ones are dropped.
    pub fn row(&mut self, cells: impl IntoIterator<Item = impl Into<String>>) {
        let mut cells: Vec<String> = cells.into_iter().map(Into::into).collect();
        cells.resize(self.columns.len(), String::new());
        self.rows.push(cells);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |text: &str| text.chars().count();
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|i| {
                let cells = self.rows.iter().map(|row| width(&row[i]));
                cells.chain([width(&self.columns[i].0)]).max().unwrap_or(0)
            })
            .collect();
        let mut line = |cells: &mut dyn Iterator<Item = &str>| {
            let mut text = String::new();
            for ((cell, &width), (_, align)) in cells.zip(&widths).zip(&self.columns) {
                match align {
                    Align::Left => write!(text, "  {cell:<width$}")?,
                    Align::Right => write!(text, "  {cell:>width$}")?,
                }
            }
            writeln!(f, "{}", text.trim_end())
        };
        line(&mut self.columns.iter().map(|(name, _)| name.as_str()))?;
        let rules: Vec<String> = widths.iter().map(|&width| "─".repeat(width)).collect();
        line(&mut rules.iter().map(String::as_str))?;
        for row in &self.rows {
            line(&mut row.iter().map(String::as_str))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_by_characters() {
        let mut table = Table::new([("name", Align::Left), ("km", Align::Right)]);
        table.row(["Zürich", "6327.1"]);
        table.row(["Oslo", "8"]);
        table.row(["Rome"]);
        assert_eq!(
            table.to_string(),
            "  name        km\n  ──────  ──────\n  Zürich  6327.1\n  Oslo         8\n  Rome\n"
        );
    }

    #[test]
    fn a_table_without_rows_shows_its_head() {
        assert_eq!(Table::new([("a", Align::Left)]).to_string(), "  a\n  ─\n");
    }
}
