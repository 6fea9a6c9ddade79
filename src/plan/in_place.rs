//! Calls that are evaluated where they stand: in the bodies of lambdas, and in conditions of joins that
//! read both sides.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{Array, ArrayRef, new_empty_array};
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, exec_datafusion_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_plan::ExecutionPlan;

use super::{PoolRef, RowErrorPolicy, to_datafusion};
use crate::error::{CallError, Fault};
use crate::{Call, Pool, Rows};

/// A call as a function that waits for its pool. The thread that evaluates the expression waits; the guest
/// runs on the thread of its slot.
pub(super) struct InPlaceCall {
    name: String,
    call: Call,
    pool: PoolRef,
    on_error: RowErrorPolicy,
    batch_size: NonZeroUsize,
    signature: Signature,
    started: Started,
}

/// The pool in the runs of the plan that are going on.
type Started = Arc<Mutex<Vec<Pool>>>;

impl InPlaceCall {
    pub(super) fn new(
        name: &str,
        call: Call,
        pool: PoolRef,
        on_error: RowErrorPolicy,
        batch_size: NonZeroUsize,
        volatility: Volatility,
    ) -> Self {
        let types = call.arguments().iter().map(|f| f.data_type().clone());
        InPlaceCall {
            name: name.to_owned(),
            signature: Signature::exact(types.collect(), volatility),
            call,
            pool,
            on_error,
            batch_size,
            started: Started::default(),
        }
    }

    pub(super) fn pool(&self) -> &PoolRef {
        &self.pool
    }

    /// Serves the call from a pool until the guard is dropped.
    pub(super) fn serve(&self, pool: &Pool) -> Serving {
        self.lock().push(pool.clone());
        Serving {
            started: Arc::clone(&self.started),
            run: pool.run_name(),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Pool>> {
        self.started.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the call for rows, in pieces of the batch size at most.
    fn evaluate(
        &self,
        pool: &Pool,
        columns: &[ArrayRef],
        rows: usize,
    ) -> Result<ArrayRef, CallError> {
        let mut pieces = Vec::new();
        for start in (0..rows).step_by(self.batch_size.get()) {
            let count = self.batch_size.get().min(rows.saturating_sub(start));
            let columns = columns.iter().map(|c| c.slice(start, count)).collect();
            let output = pool.call(&self.call, Rows::new(columns, count))?;
            if let Some(error) = output.row_errors.first()
                && !self.on_error.makes_nulls()
            {
                let fault = Fault::Row {
                    code: error.code,
                    message: error.message.clone(),
                };
                let row = start.saturating_add(error.row) as u64;
                return Err(self.call.row_failure(pool, None, row, fault));
            }
            pieces.push(output.array);
        }
        match pieces.as_slice() {
            [] => Ok(new_empty_array(self.call.result().data_type())),
            [piece] => Ok(Arc::clone(piece)),
            _ => {
                let pieces: Vec<&dyn Array> = pieces.iter().map(AsRef::as_ref).collect();
                arrow::compute::concat(&pieces).map_err(|e| CallError {
                    place: Box::new(pool.place()),
                    fault: Box::new(Fault::Arguments {
                        reason: format!("the parts of a batch cannot be joined: {e}"),
                    }),
                })
            }
        }
    }
}

/// Takes the pool of a run away from its calls.
pub(super) struct Serving {
    started: Started,
    run: String,
}

impl Drop for Serving {
    fn drop(&mut self) {
        let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        started.retain(|pool| pool.run_name() != self.run);
    }
}

/// Shows each call in a plan that is evaluated in place.
pub(super) fn each_in_place(
    plan: &Arc<dyn ExecutionPlan>,
    show: &mut dyn FnMut(&InPlaceCall),
) -> Result<()> {
    plan.apply(|node| {
        node.apply_expressions(&mut |expression: &Arc<dyn PhysicalExpr>| {
            expression.apply(|e| {
                let function = e.downcast_ref::<ScalarFunctionExpr>();
                if let Some(call) = function.and_then(|f| f.fun().inner().downcast_ref()) {
                    show(call);
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(())
}

impl fmt::Debug for InPlaceCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InPlaceCall")
            .field("name", &self.name)
            .field("pool", &self.pool)
            .finish_non_exhaustive()
    }
}

impl PartialEq for InPlaceCall {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.started, &other.started)
    }
}

impl Eq for InPlaceCall {}

impl Hash for InPlaceCall {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.started).hash(state);
    }
}

impl ScalarUDFImpl for InPlaceCall {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.call.result().data_type().clone())
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let result = self.call.result().as_ref().clone().with_name(&self.name);
        let nullable = result.is_nullable() || self.on_error.makes_nulls();
        Ok(Arc::new(result.with_nullable(nullable)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let columns = args
            .args
            .into_iter()
            .map(|a| a.into_array(rows))
            .collect::<Result<Vec<_>>>()?;
        let mut pools = self.lock().clone();
        let outside = || {
            exec_datafusion_err!(
                "`{}` runs in the pool {}, which is not started; the plan's root starts it",
                self.name,
                self.pool
            )
        };
        loop {
            let pool = pools.pop().ok_or_else(outside)?;
            match self.evaluate(&pool, &columns, rows) {
                // The run that it belongs to has ended; ours has another.
                Err(error) if !pools.is_empty() && matches!(*error.fault, Fault::Closed) => {}
                Err(error) => return Err(to_datafusion(error)),
                Ok(result) => return Ok(ColumnarValue::Array(result)),
            }
        }
    }
}
