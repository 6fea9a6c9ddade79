//! Calls on constants, which are done once.

use std::sync::Arc;

use datafusion::common::{DFSchema, Result, Spans};
use datafusion::logical_expr::{EmptyRelation, Expr, LogicalPlan, LogicalPlanBuilder, Subquery};

use super::chain::Chain;
use super::names::Names;
use crate::plan::function::WasmFunction;

/// A scalar subquery that makes the call on one row.
pub(super) fn computed_once(
    names: &mut Names,
    function: &WasmFunction,
    arguments: Vec<Expr>,
) -> Result<Expr> {
    let one_row = LogicalPlan::EmptyRelation(EmptyRelation {
        produce_one_row: true,
        schema: Arc::new(DFSchema::empty()),
    });
    let mut chain = Chain::new(names, one_row, Vec::new());
    let column = chain.call(function, arguments, &None)?;
    let (plan, _) = chain.build()?;
    let plan = LogicalPlanBuilder::from(plan).project([column])?.build()?;
    Ok(Expr::ScalarSubquery(Subquery {
        subquery: Arc::new(plan),
        outer_ref_columns: Vec::new(),
        spans: Spans::new(),
    }))
}
