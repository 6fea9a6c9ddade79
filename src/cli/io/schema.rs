//! Schemas of several input files.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef, Schema};

use super::InputError;

/// Rows that the types of columns are guessed from, where the format does not say.
pub(super) const SAMPLE: usize = 10_000;

/// Refuses two columns of one name, between which no plan could tell, names that no command line
/// could hold, and files without columns.
pub(super) fn check_names(path: &Path, schema: &Schema) -> Result<(), InputError> {
    if schema.fields().is_empty() {
        return Err(InputError::unsupported(path, "it has no columns"));
    }
    if let Some(field) = schema
        .fields()
        .iter()
        .find(|field| field.name().contains('\0'))
    {
        return Err(InputError::corrupt(
            path,
            format!(
                "the name of a column holds a NUL character: {:?}",
                field.name()
            ),
        ));
    }
    for field in schema.fields() {
        if let DataType::Decimal32(0, _)
        | DataType::Decimal64(0, _)
        | DataType::Decimal128(0, _)
        | DataType::Decimal256(0, _) = field.data_type()
        {
            let (name, data_type) = (field.name(), field.data_type());
            return Err(InputError::corrupt(
                path,
                format!("the column `{name}` is {data_type}: a decimal has a digit at least"),
            ));
        }
    }
    let mut seen = HashSet::new();
    match schema
        .fields()
        .iter()
        .find(|field| !seen.insert(field.name()))
    {
        None => Ok(()),
        Some(field) => {
            let reason = format!(
                "it has duplicate field names: two columns are called `{}`; rename one of them",
                field.name()
            );
            Err(InputError::unsupported(path, reason))
        }
    }
}

/// The schema of both files. Names, order and types must agree; a column may have nulls if either may.
pub(super) fn merge_schemas(
    common: &Schema,
    first: &Path,
    other: &Schema,
    path: &Path,
) -> Result<Schema, InputError> {
    let disagree = |reason: String| {
        InputError::unsupported(
            path,
            format!(
                "its columns differ from those of {}: {reason}",
                first.display()
            ),
        )
    };
    let mut fields: Vec<FieldRef> = Vec::with_capacity(common.fields().len());
    for (i, field) in common.fields().iter().enumerate() {
        let name = field.name();
        let Some(found) = other.fields().get(i) else {
            return Err(disagree(format!("the column `{name}` is missing")));
        };
        if found.name() != name {
            return Err(disagree(format!(
                "column {i} is `{}` where `{name}` is expected",
                found.name()
            )));
        }
        if found.data_type() != field.data_type() {
            return Err(disagree(format!(
                "the column `{name}` is {} where {} is expected",
                found.data_type(),
                field.data_type()
            )));
        }
        let nullable = field.is_nullable() || found.is_nullable();
        fields.push(Arc::new(field.as_ref().clone().with_nullable(nullable)));
    }
    match other.fields().get(fields.len()) {
        Some(extra) => Err(disagree(format!(
            "the column `{}` is not in the first file",
            extra.name()
        ))),
        None => Ok(Schema::new_with_metadata(fields, common.metadata().clone())),
    }
}
