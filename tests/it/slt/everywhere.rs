//! A rule that puts every column that an expression reads into a call.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Distinct, Expr, LogicalPlan, ScalarUDF};
use datafusion::optimizer::AnalyzerRule;

/// Analyzer rule: `x + 1` becomes `f(x) + 1` in the expressions of projections, filters, sorts,
/// aggregates, windows, joins and `DISTINCT ON`.
#[derive(Debug)]
pub(crate) struct CallsEverywhere(pub(crate) Arc<ScalarUDF>);

impl AnalyzerRule for CallsEverywhere {
    fn name(&self) -> &str {
        "calls_everywhere"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let wrapped = plan.transform_up_with_subqueries(|node| self.wrapped(node))?;
        Ok(wrapped.data)
    }
}

impl CallsEverywhere {
    fn wrapped(&self, node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        let reads = matches!(
            node,
            LogicalPlan::Projection(_)
                | LogicalPlan::Filter(_)
                | LogicalPlan::Sort(_)
                | LogicalPlan::Aggregate(_)
                | LogicalPlan::Window(_)
                | LogicalPlan::Join(_)
                | LogicalPlan::Distinct(Distinct::On(_))
        );
        if !reads {
            return Ok(Transformed::no(node));
        }
        let is_sort = matches!(node, LogicalPlan::Sort(_));
        let names = NamePreserver::new(&node);
        let node = node.map_expressions(|expression| {
            if is_left_alone(&expression)? {
                return Ok(Transformed::no(expression));
            }
            let name = names.save(&expression);
            let expression = expression.transform_up(|e| {
                Ok(match e {
                    Expr::Column(_) => Transformed::yes(self.0.call(vec![e])),
                    e => Transformed::no(e),
                })
            })?;
            Ok(match is_sort {
                true => expression,
                false => expression.update_data(|e| name.restore(e)),
            })
        })?;
        node.map_data(LogicalPlan::recompute_schema)
    }
}

/// The sets of `GROUPING SETS` cannot have names, and DataFusion turns a condition on columns of an outer
/// query into a join only if it compares them with columns.
fn is_left_alone(expression: &Expr) -> Result<bool> {
    expression.exists(|e| {
        Ok(matches!(
            e,
            Expr::GroupingSet(_) | Expr::OuterReferenceColumn(..)
        ))
    })
}
