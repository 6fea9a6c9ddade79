//! Lists of `SHOW FUNCTIONS` in formats without lists.

use arrow::datatypes::DataType;
use datafusion::common::{Column, Result};
use datafusion::functions_nested::expr_fn::array_to_string;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, lit};

/// The plan with lists of texts as texts, their parts separated by commas.
pub(super) fn with_lists_as_texts(plan: LogicalPlan) -> Result<LogicalPlan> {
    let is_list = |data_type: &DataType| match data_type {
        DataType::List(item) => *item.data_type() == DataType::Utf8,
        _ => false,
    };
    let schema = std::sync::Arc::clone(plan.schema());
    if !schema.fields().iter().any(|f| is_list(f.data_type())) {
        return Ok(plan);
    }
    let columns = schema.iter().map(|(qualifier, field)| {
        let column = Expr::Column(Column::from((qualifier, field)));
        match is_list(field.data_type()) {
            true => array_to_string(column, lit(", ")).alias(field.name()),
            false => column,
        }
    });
    LogicalPlanBuilder::from(plan).project(columns)?.build()
}
