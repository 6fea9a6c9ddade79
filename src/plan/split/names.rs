//! Names that no column of a plan has, and pools that each have their own.

use std::collections::HashSet;

use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan};

use crate::plan::{PoolRef, PoolStage};

/// Hands out names of columns and pools for one plan.
#[derive(Default)]
pub(super) struct Names {
    taken: HashSet<String>,
    pools: Vec<PoolRef>,
}

impl Names {
    /// Knows every name in a plan, its subqueries included.
    pub(super) fn of(plan: &LogicalPlan) -> Result<Self> {
        let mut names = Names::default();
        plan.apply_with_subqueries(|node| {
            let fields = node.schema().fields().iter();
            names.taken.extend(fields.map(|f| f.name().clone()));
            node.apply_expressions(|expression| {
                expression.apply(|e| {
                    match e {
                        Expr::Column(column) => names.taken.insert(column.name.clone()),
                        Expr::Alias(alias) => names.taken.insert(alias.name.clone()),
                        _ => false,
                    };
                    Ok(TreeNodeRecursion::Continue)
                })
            })?;
            if let Some(stage) = as_stage(node) {
                let pools = stage.calls().iter().map(|call| call.pool.clone());
                names.pools.extend(pools);
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(names)
    }

    /// A name for a column that holds something of `what`.
    pub(super) fn fresh(&mut self, what: &str) -> String {
        let mut number = 1_usize;
        loop {
            let name = format!("__{what}_{number}");
            if self.taken.insert(name.clone()) {
                return name;
            }
            number = number.saturating_add(1);
        }
    }

    /// The pool by the name that it has in this plan. Pools that are one have one name; no two others
    /// have.
    pub(super) fn pool(&mut self, pool: PoolRef) -> PoolRef {
        let identity = |pool: &PoolRef| pool.plan().map(|p| p.forecast.clone());
        let wanted = identity(&pool);
        if let Some(known) = self
            .pools
            .iter()
            .find(|known| wanted.is_some() && identity(known) == wanted)
        {
            return known.clone();
        }
        let mut name = pool.name.clone();
        let mut number = 1_usize;
        while self.pools.iter().any(|known| known.name == name) {
            number = number.saturating_add(1);
            name = format!("{}#{number}", pool.name);
        }
        let pool = if number > 1 {
            pool.renamed(&name)
        } else {
            pool
        };
        self.pools.push(pool.clone());
        pool
    }
}

/// The pool stage that a node is, if it is one.
pub(super) fn as_stage(plan: &LogicalPlan) -> Option<&PoolStage> {
    match plan {
        LogicalPlan::Extension(extension) => extension.node.as_any().downcast_ref(),
        _ => None,
    }
}
