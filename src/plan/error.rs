//! How errors of the core travel through DataFusion, and how they are found again.

use std::error::Error as StdError;

use arrow::error::ArrowError;
use datafusion::error::DataFusionError;

use crate::Error;

/// Wraps an error of the core for DataFusion.
pub fn to_datafusion(error: impl Into<Error>) -> DataFusionError {
    DataFusionError::External(Box::new(error.into()))
}

/// The error of the core inside an error of DataFusion, however deeply wrapped.
pub fn core_error(error: &DataFusionError) -> Option<&Error> {
    find_error::<Error>(error)
}

/// The first error of type `T` in an error and its sources.
///
/// DataFusion and Arrow hold foreign errors behind shared pointers and boxes that `source()` does
/// not always step into, so these wrappers are opened here.
pub(crate) fn find_error<'a, T: StdError + 'static>(
    error: &'a (dyn StdError + 'static),
) -> Option<&'a T> {
    // A chain this long can only be a cycle.
    const LONGEST: usize = 64;
    let mut current = error;
    for _ in 0..LONGEST {
        if let Some(found) = current.downcast_ref::<T>() {
            return Some(found);
        }
        current = inner(current)?;
    }
    None
}

fn inner<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a (dyn StdError + 'static)> {
    if let Some(error) = error.downcast_ref::<DataFusionError>() {
        return match error {
            DataFusionError::External(e) => Some(e.as_ref()),
            DataFusionError::ArrowError(e, _) => Some(e.as_ref()),
            DataFusionError::ParquetError(e) => Some(e.as_ref()),
            DataFusionError::Shared(e) => Some(e.as_ref()),
            DataFusionError::Context(_, e) | DataFusionError::Diagnostic(_, e) => Some(e.as_ref()),
            DataFusionError::Collection(errors) => errors.first().map(|e| e as _),
            other => other.source(),
        };
    }
    if let Some(ArrowError::ExternalError(e)) = error.downcast_ref::<ArrowError>() {
        return Some(e.as_ref());
    }
    error.source()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn an_error_of_the_core_is_found_under_every_wrapper() {
        let core = || {
            Error::from(crate::BindError::UnknownUdf {
                module: "m".into(),
                udf: "f".into(),
                hint: "none".into(),
            })
        };
        let plain = || DataFusionError::External(Box::new(core()));
        let arrow = ArrowError::ExternalError(Box::new(plain()));
        let wrapped = [
            plain(),
            DataFusionError::Shared(Arc::new(plain())),
            plain().context("while planning"),
            DataFusionError::ArrowError(Box::new(arrow), None),
        ];
        for error in wrapped {
            assert!(core_error(&error).is_some(), "{error}");
        }
        assert!(core_error(&DataFusionError::Execution("other".into())).is_none());
    }
}
