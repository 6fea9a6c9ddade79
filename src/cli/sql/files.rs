//! Files as tables: `FROM 'x.parquet'`.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use async_trait::async_trait;
use datafusion::catalog::{TableProvider, UrlTableFactory};
use datafusion::common::{DataFusionError, Result, internal_datafusion_err};
use datafusion::execution::SessionState;
use datafusion::prelude::SessionContext;

use crate::cli::io::{self, Format, ReadOptions, STANDARD};

/// Opens the files that queries name. What it opens is read as the inputs of `run` are.
pub(super) struct FileTables {
    options: ReadOptions,
    state: OnceLock<Box<dyn Fn() -> Option<SessionState> + Send + Sync>>,
    /// The standard input, which can be opened once.
    stdin: Mutex<Option<Arc<dyn TableProvider>>>,
}

impl FileTables {
    pub(super) fn new(options: ReadOptions) -> Self {
        FileTables {
            options,
            state: OnceLock::new(),
            stdin: Mutex::new(None),
        }
    }

    /// Says which session the tables are for, which is made after them.
    pub(super) fn serve(&self, context: &SessionContext) {
        let state = context.state_weak_ref();
        // A second session would be a mistake, and get the tables of the first.
        let _ = self
            .state
            .set(Box::new(move || Some(state.upgrade()?.read().clone())));
    }

    fn kept_stdin(&self) -> std::sync::MutexGuard<'_, Option<Arc<dyn TableProvider>>> {
        self.stdin.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for FileTables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FileTables")
    }
}

/// Whether a table's name can only be that of a file.
pub(super) fn is_file_name(name: &str) -> bool {
    name == STANDARD
        || name.contains(['/', '\\', '*'])
        || Format::of_name(Path::new(name)).is_some()
        || (name.contains('.') && Path::new(name).exists())
}

#[async_trait]
impl UrlTableFactory for FileTables {
    async fn try_new(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if !is_file_name(name) {
            return Ok(None);
        }
        if name == STANDARD
            && let Some(table) = self.kept_stdin().as_ref()
        {
            return Ok(Some(Arc::clone(table)));
        }
        let state = self.state.get().and_then(|state| state());
        let state = state.ok_or_else(|| internal_datafusion_err!("the session is gone"))?;
        let inputs = [PathBuf::from(name)];
        let opened = io::open(&state, &inputs, self.options.clone()).await;
        let table = opened
            .map_err(|e| DataFusionError::External(Box::new(e)))?
            .table;
        if name == STANDARD {
            *self.kept_stdin() = Some(Arc::clone(&table));
        }
        Ok(Some(table))
    }
}
