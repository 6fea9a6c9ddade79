//! `--on-error`, `--max-errors`: what becomes of rows that a UDF cannot compute.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::RecordBatch;
use arrow::datatypes::{FieldRef, Schema, SchemaRef};
use datafusion::common::{Column, DataFusionError};
use datafusion::logical_expr::Expr;

use super::arguments::find_column;
use super::columns::split;
use super::failure::Failure;
use super::io::{
    Encoder, Encoding, Format, OutputError, StagedFile, StoreAddress, check_columns, followed,
    shown,
};
use crate::Call;
use crate::plan::{DeadLetters, ErrorLimit, RowErrorAction, RowErrorPolicy, dead_letter_schema};

/// `fail`, `null` or `dead-letter=FILE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OnError {
    Fail,
    Null,
    DeadLetter(PathBuf),
}

impl FromStr for OnError {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "fail" => Ok(OnError::Fail),
            "null" => Ok(OnError::Null),
            _ => match text.strip_prefix("dead-letter=") {
                Some(file) if !file.is_empty() => Ok(OnError::DeadLetter(file.into())),
                _ => Err("write fail, null or dead-letter=FILE".to_owned()),
            },
        }
    }
}

/// The policy of a run, and the file of its dead letters.
pub(crate) struct RowErrors {
    pub(crate) policy: RowErrorPolicy,
    pub(crate) letters: Option<DeadLetterFile>,
}

impl RowErrors {
    /// Settles the policy. Dead letters must not go to one of `others`. `keep` names input columns that dead letters have beside the arguments.
    #[allow(clippy::too_many_arguments, reason = "the parts of one policy")]
    pub(crate) fn new(
        on_error: &OnError,
        limit: Option<ErrorLimit>,
        keep: &[String],
        call: &Call,
        input: &Schema,
        qualifier: &str,
        others: &[&Path],
    ) -> Result<Self, Failure> {
        let path = match on_error {
            OnError::DeadLetter(path) => path,
            _ if !keep.is_empty() => {
                return Err(Failure::usage(
                    "--dead-letter-columns is for --on-error dead-letter=FILE",
                ));
            }
            OnError::Fail if limit.is_some() => {
                return Err(Failure::usage(
                    "--max-errors is for --on-error null and dead-letter=FILE; by default the first failed row ends the run",
                ));
            }
            OnError::Fail => return Ok(Self::plain(RowErrorAction::Fail, limit)),
            OnError::Null => return Ok(Self::plain(RowErrorAction::Null, limit)),
        };
        if !matches!(StoreAddress::parse(path), Ok(None)) {
            return Err(Failure::usage(format!(
                "dead letters cannot go to {}: they are written to a file",
                shown(path).display()
            ))
            .hint(
                "name a file of this machine, as in dead-letter=failed.csv, and copy it afterwards",
            ));
        }
        if others.iter().any(|other| same_file(other, path)) {
            return Err(Failure::usage(format!(
                "the dead letters would take the place of {}, which is an input or the output",
                path.display()
            )));
        }
        let fields = kept_fields(keep, call, input)?;
        let schema = dead_letter_schema(call, &fields);
        let keep = fields
            .iter()
            .map(|field| Expr::Column(Column::new(Some(qualifier), field.name())))
            .collect();
        Ok(RowErrors {
            policy: RowErrorPolicy {
                action: RowErrorAction::DeadLetter { keep },
                limit,
            },
            letters: Some(DeadLetterFile::create(path, &schema)?),
        })
    }

    fn plain(action: RowErrorAction, limit: Option<ErrorLimit>) -> Self {
        RowErrors {
            policy: RowErrorPolicy { action, limit },
            letters: None,
        }
    }
}

/// Whether both names stand for one file, which need not exist.
fn same_file(a: &Path, b: &Path) -> bool {
    let place = |path: &Path| {
        let path = followed(path)?;
        std::fs::canonicalize(&path).ok().or_else(|| {
            let parent = path.parent().filter(|p| !p.as_os_str().is_empty());
            let parent = std::fs::canonicalize(parent.unwrap_or(Path::new("."))).ok()?;
            Some(parent.join(path.file_name()?))
        })
    };
    a == b || place(a).is_some_and(|a| Some(a) == place(b))
}

/// The fields of columns that are kept. A column named like a parameter would stand there twice.
fn kept_fields(keep: &[String], call: &Call, input: &Schema) -> Result<Vec<FieldRef>, Failure> {
    let mut fields: Vec<FieldRef> = Vec::new();
    for text in keep {
        for name in split("--dead-letter-columns", text)? {
            let field = find_column(input, &name)?;
            if fields.iter().any(|f| f.name() == &name) {
                return Err(Failure::usage(format!(
                    "--dead-letter-columns names the column `{name}` twice"
                )));
            }
            let parameters = &call.function().parameters;
            if !parameters.iter().any(|parameter| parameter.name == name) {
                fields.push(Arc::clone(field));
            }
        }
    }
    Ok(fields)
}

/// The file of the rows that failed; it appears when the run is done.
pub(crate) struct DeadLetterFile {
    file: StagedFile,
    encoder: Arc<Mutex<Option<Encoder>>>,
}

impl DeadLetterFile {
    fn create(path: &Path, schema: &SchemaRef) -> Result<Self, Failure> {
        let format = Format::of_name(path).ok_or_else(|| {
            Failure::usage(format!(
                "the format of the dead letters {} is not known from the name",
                path.display()
            ))
            .hint("use the extension .parquet, .csv, .json, .jsonl, .arrow or .arrows")
        })?;
        let encoding = Encoding::of(format);
        check_columns(schema, &encoding, path)?;
        let file = StagedFile::create(path)?;
        let bytes = File::create(file.path()).map_err(OutputError::write(path))?;
        let encoder =
            Encoder::create(schema, Box::new(bytes), &encoding).map_err(|e| e.at(file.target()))?;
        Ok(DeadLetterFile {
            file,
            encoder: Arc::new(Mutex::new(Some(encoder))),
        })
    }

    /// What the plan hands failed rows to.
    pub(crate) fn sink(&self) -> DeadLetters {
        let encoder = Arc::clone(&self.encoder);
        let target = self.file.target().to_owned();
        DeadLetters(Arc::new(move |batch: RecordBatch| {
            let mut encoder = encoder.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(encoder) = encoder.as_mut() else {
                return Ok(());
            };
            encoder
                .write(&batch)
                .map_err(|e| DataFusionError::External(Box::new(e.at(&target))))
        }))
    }

    /// Writes the last of the file, so that nothing but its name can be in the way of its appearance.
    pub(crate) fn finish(&self) -> Result<(), OutputError> {
        let encoder = self
            .encoder
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(encoder) = encoder {
            encoder.finish().map_err(|e| e.at(self.file.target()))?;
        }
        self.file.seal().map(drop)
    }

    /// Makes the file appear; `output` has before.
    pub(crate) fn commit(self, output: &Path) -> Result<(), Failure> {
        self.file.commit().map(drop).map_err(|e| {
            Failure::from(e).hint(format!(
                "{} is complete; its dead letters are lost",
                output.display()
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_read_from_text() {
        assert_eq!("null".parse(), Ok(OnError::Null));
        assert_eq!(
            "dead-letter=a=b.csv".parse(),
            Ok(OnError::DeadLetter("a=b.csv".into()))
        );
        assert!("dead-letter=".parse::<OnError>().is_err());
        assert!("ignore".parse::<OnError>().is_err());
    }

    #[test]
    fn limits_are_rows_or_shares() {
        assert_eq!(ErrorLimit::from_str("0"), Ok(ErrorLimit::Rows(0)));
        assert_eq!(ErrorLimit::from_str("12"), Ok(ErrorLimit::Rows(12)));
        assert_eq!(
            ErrorLimit::from_str("0.5%"),
            Ok(ErrorLimit::PerTenThousand(50))
        );
        assert_eq!(
            ErrorLimit::from_str("100%"),
            Ok(ErrorLimit::PerTenThousand(10_000))
        );
        for wrong in ["-1", "x", "101%", "-1%", "0.001%", "%", "NaN%"] {
            assert!(ErrorLimit::from_str(wrong).is_err(), "{wrong}");
        }
    }
}
