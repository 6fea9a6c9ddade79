//! How a command ends when it does not end well.

use std::error::Error as StdError;

use datafusion::error::DataFusionError;

use super::conversion::ConversionError;
use super::io::{InputError, OutputError};
use crate::plan::find_error;
use crate::{Error, ErrorClass, Fault};

/// Exit codes; the table in `--help` and `docs/cli.md` is the promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// Rows, or the run, failed.
    Failed = 1,
    /// The command line is wrong.
    Usage = 2,
    /// An input or output file is the trouble.
    Io = 3,
    /// The module was refused.
    Module = 4,
    /// A limit was reached.
    Limit = 5,
    /// The guest trapped.
    Trap = 6,
    /// Interrupted from the keyboard.
    Interrupted = 130,
    /// The terminal is gone.
    HungUp = 129,
    /// Asked to end.
    Terminated = 143,
}

impl Exit {
    /// Whether somebody asked the process to end.
    pub(crate) fn is_signal(self) -> bool {
        matches!(self, Exit::Interrupted | Exit::HungUp | Exit::Terminated)
    }
}

/// What is printed, and how the process ends.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The exit code.
    pub(crate) exit: Exit,
    /// What happened; empty when there is nothing to say.
    pub(crate) message: String,
    /// What to do about it.
    pub(crate) hint: Option<String>,
}

impl Failure {
    /// A wrong command line.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Failure {
            exit: Exit::Usage,
            message: message.into(),
            hint: None,
        }
    }

    /// Trouble with a file.
    pub(crate) fn io(message: impl Into<String>) -> Self {
        Failure {
            exit: Exit::Io,
            message: message.into(),
            hint: None,
        }
    }

    /// With advice.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The end after a signal.
    pub(crate) fn stopped(exit: Exit) -> Self {
        Failure {
            exit,
            message: String::new(),
            hint: None,
        }
    }
}

impl From<InputError> for Failure {
    fn from(error: InputError) -> Self {
        match error {
            InputError::Address { .. } => Failure::usage(error.to_string()),
            _ => Failure::io(error.to_string()),
        }
    }
}

impl From<OutputError> for Failure {
    fn from(error: OutputError) -> Self {
        match error {
            OutputError::Address { .. } => Failure::usage(error.to_string()),
            _ => Failure::io(error.to_string()),
        }
    }
}

impl From<&Error> for Failure {
    fn from(error: &Error) -> Self {
        let exit = match error.class() {
            ErrorClass::Usage => Exit::Usage,
            ErrorClass::Io => Exit::Io,
            ErrorClass::ModuleRefused => Exit::Module,
            ErrorClass::Limit => Exit::Limit,
            ErrorClass::Trap => Exit::Trap,
            ErrorClass::Failed => Exit::Failed,
        };
        let hint = match error {
            Error::Call(e) if matches!(*e.fault, Fault::Row { .. }) => Some(
                "--on-error null goes on with a null, --on-error dead-letter=FILE sets such rows aside as well".to_owned(),
            ),
            _ => None,
        };
        Failure {
            exit,
            message: error.to_string(),
            hint,
        }
    }
}

macro_rules! from_core {
    ($($error:ty),*) => {$(
        impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Failure::from(&Error::from(error))
            }
        }
    )*};
}
from_core!(
    crate::ModuleError,
    crate::BindError,
    crate::StartError,
    crate::CallError
);

impl From<DataFusionError> for Failure {
    fn from(error: DataFusionError) -> Self {
        if let Some(core) = find_error::<Error>(&error) {
            return Failure::from(core);
        }
        if let Some(input) = find_error::<InputError>(&error) {
            return Failure::io(input.to_string());
        }
        if let Some(output) = find_error::<OutputError>(&error) {
            return Failure::io(output.to_string());
        }
        if let Some(conversion) = find_error::<ConversionError>(&error) {
            return Failure {
                exit: Exit::Failed,
                message: conversion.to_string(),
                hint: Some(conversion.hint()),
            };
        }
        // Whatever is about files has been found above.
        let exit = match error.find_root() {
            DataFusionError::ResourcesExhausted(_) => Exit::Limit,
            _ => Exit::Failed,
        };
        Failure {
            exit,
            message: first_paragraph(&error.strip_backtrace()),
            hint: None,
        }
    }
}

/// Libraries may add dumps after their message.
pub(crate) fn first_paragraph(text: &str) -> String {
    text.split("\n\n").next().unwrap_or(text).trim().to_owned()
}

/// Whether somebody downstream closed the pipe, which is no failure.
pub(crate) fn is_broken_pipe(error: &(dyn StdError + 'static)) -> bool {
    find_error::<std::io::Error>(error).is_some_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
}
