//! Calls out of expressions, each only for the rows that need it.

use std::collections::HashSet;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, Result};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::expr::{AggregateFunction, ScalarFunction};
use datafusion::logical_expr::{BinaryExpr, Case, Expr, Operator};

use super::chain::{Chain, Mask, cannot_fail};
use super::constants;
use crate::plan::function::WasmFunction;

/// Takes the calls of some expressions over one input apart.
pub(super) struct Splitter<'n> {
    pub(super) chain: Chain<'n>,
    config: &'n ConfigOptions,
    /// Calls that are needed for every row, whatever else asks for them.
    unconditional: HashSet<Expr>,
}

impl<'n> Splitter<'n> {
    pub(super) fn new(chain: Chain<'n>, config: &'n ConfigOptions) -> Self {
        Splitter {
            chain,
            config,
            unconditional: HashSet::new(),
        }
    }

    /// The expressions without their calls.
    pub(super) fn split_all(&mut self, expressions: Vec<Expr>) -> Result<Vec<Expr>> {
        for expression in &expressions {
            note_unconditional(expression, &mut self.unconditional);
        }
        expressions
            .into_iter()
            .map(|e| self.split(e, &None))
            .collect()
    }

    /// The expression over columns that hold the results of its calls, as it is needed where the mask
    /// holds.
    pub(super) fn split(&mut self, expression: Expr, mask: &Mask) -> Result<Expr> {
        if !has_call(&expression) {
            return Ok(expression);
        }
        match expression {
            Expr::ScalarFunction(function) => match wasm_call(&function) {
                Some(wasm) => {
                    let wasm = wasm.under(self.config)?.unwrap_or_else(|| wasm.clone());
                    self.call(wasm, function, mask)
                }
                None => self.function(function, mask),
            },
            Expr::Case(case) => self.case(case, mask),
            Expr::BinaryExpr(binary) if matches!(binary.op, Operator::And | Operator::Or) => {
                self.junction(binary, mask)
            }
            Expr::AggregateFunction(aggregate) => self.aggregate(aggregate, mask),
            // Variables of a lambda are no columns: its calls are evaluated where they are.
            Expr::Lambda(_) => self.in_place(expression),
            other => Ok(other
                .map_children(|child| self.split(child, mask).map(Transformed::yes))?
                .data),
        }
    }

    fn call(&mut self, wasm: WasmFunction, call: ScalarFunction, mask: &Mask) -> Result<Expr> {
        let whole = Expr::ScalarFunction(call);
        let everywhere = wasm.is_sequence() || self.unconditional.contains(&whole);
        let mask = if everywhere { &None } else { mask };
        let Expr::ScalarFunction(call) = whole else {
            unreachable!("it was made a scalar function above");
        };
        let arguments = call
            .args
            .into_iter()
            .map(|a| Ok(folded(self.split(a, mask)?)))
            .collect::<Result<Vec<_>>>()?;
        let constant = arguments.iter().all(|a| matches!(a, Expr::Literal(..)));
        if constant && wasm.is_mergeable() && mask.is_none() && !self.chain.is_one_row() {
            let once = constants::computed_once(self.chain.names(), &wasm, arguments)?;
            return self.chain.column(once, &None);
        }
        self.chain.call(&wasm, arguments, mask)
    }

    /// The expression with its calls made where they stand.
    pub(super) fn in_place(&mut self, expression: Expr) -> Result<Expr> {
        let done = expression.transform_up(|e| match e {
            Expr::ScalarFunction(function) => match wasm_call(&function) {
                Some(wasm) => {
                    let wasm = wasm.under(self.config)?.unwrap_or_else(|| wasm.clone());
                    let call = self.chain.in_place(&wasm, function.args)?;
                    Ok(Transformed::yes(call))
                }
                None => Ok(Transformed::no(Expr::ScalarFunction(function))),
            },
            other => Ok(Transformed::no(other)),
        })?;
        Ok(done.data)
    }

    fn function(&mut self, function: ScalarFunction, mask: &Mask) -> Result<Expr> {
        let ScalarFunction { func, args } = function;
        let args = match func.name() {
            "coalesce" | "nvl" => self.first_that_is_not_null(args, mask)?,
            "nvl2" => self.nvl2(args, mask)?,
            _ => {
                let split = args.into_iter().map(|a| self.split(a, mask));
                split.collect::<Result<_>>()?
            }
        };
        Ok(Expr::ScalarFunction(ScalarFunction { func, args }))
    }

    /// Each argument only where all before it are null.
    fn first_that_is_not_null(&mut self, args: Vec<Expr>, mask: &Mask) -> Result<Vec<Expr>> {
        let mut open = mask.clone();
        let mut split = Vec::with_capacity(args.len());
        let last_call = args.iter().rposition(has_call).unwrap_or(0);
        for (at, arg) in args.into_iter().enumerate() {
            let mut arg = self.split(arg, &open)?;
            if at < last_call {
                arg = self.chain.column(arg, &open)?;
                open = both(open, arg.clone().is_null());
            }
            split.push(arg);
        }
        Ok(split)
    }

    fn nvl2(&mut self, args: Vec<Expr>, mask: &Mask) -> Result<Vec<Expr>> {
        let mut args = args.into_iter();
        let Some(test) = args.next() else {
            return Ok(Vec::new());
        };
        let test = self.split(test, mask)?;
        let test = self.chain.column(test, mask)?;
        let masks = [
            both(mask.clone(), test.clone().is_not_null()),
            both(mask.clone(), test.clone().is_null()),
        ];
        let mut split = vec![test];
        for (arg, mask) in args.zip(masks) {
            split.push(self.split(arg, &mask)?);
        }
        Ok(split)
    }

    fn case(&mut self, case: Case, mask: &Mask) -> Result<Expr> {
        let base = case
            .expr
            .map(|base| {
                let base = self.split(*base, mask)?;
                self.chain.column(base, mask)
            })
            .transpose()?;
        let mut open = mask.clone();
        let mut branches = Vec::with_capacity(case.when_then_expr.len());
        let has_calls = |(when, then): &(Box<Expr>, Box<Expr>)| (has_call(when), has_call(then));
        let calls: Vec<_> = case.when_then_expr.iter().map(has_calls).collect();
        let mut later = case.else_expr.as_deref().is_some_and(has_call);
        let mut decides: Vec<bool> = calls
            .iter()
            .rev()
            .map(|(when, then)| {
                let decides = later || *then;
                later = decides || *when;
                decides
            })
            .collect();
        for (condition, then) in case.when_then_expr {
            let mut condition = match &base {
                Some(base) => base.clone().eq(self.split(*condition, &open)?),
                None => self.split(*condition, &open)?,
            };
            let mut then = *then;
            // Whether a call depends on this condition.
            if decides.pop().unwrap_or(true) {
                condition = self.chain.condition(condition, &open)?;
                then = self.split(then, &both(open.clone(), condition.clone()))?;
                open = both(open, condition.clone().is_not_true());
            }
            branches.push((Box::new(condition), Box::new(then)));
        }
        let otherwise = case
            .else_expr
            .map(|e| self.split(*e, &open))
            .transpose()?
            .map(Box::new);
        Ok(Expr::Case(Case::new(None, branches, otherwise)))
    }

    /// `AND` and `OR`: the right side only where the left does not decide.
    fn junction(&mut self, binary: BinaryExpr, mask: &Mask) -> Result<Expr> {
        let BinaryExpr { left, op, right } = binary;
        let undecided = |side: Expr| match op {
            Operator::And => side.is_not_false(),
            _ => side.is_not_true(),
        };
        let (left, right) = (*left, *right);
        // What costs nothing and cannot fail decides first.
        if has_call(&left) && !has_call(&right) && cannot_fail(&right) {
            let left = self.split(left, &both(mask.clone(), undecided(right.clone())))?;
            return Ok(Expr::BinaryExpr(BinaryExpr::new(
                Box::new(left),
                op,
                Box::new(right),
            )));
        }
        let mut left = self.split(left, mask)?;
        let mut right = right;
        if has_call(&right) {
            left = self.chain.condition(left, mask)?;
            right = self.split(right, &both(mask.clone(), undecided(left.clone())))?;
        }
        Ok(Expr::BinaryExpr(BinaryExpr::new(
            Box::new(left),
            op,
            Box::new(right),
        )))
    }

    /// Arguments of an aggregate with a filter are needed only where it holds.
    fn aggregate(&mut self, mut aggregate: AggregateFunction, mask: &Mask) -> Result<Expr> {
        let params = &mut aggregate.params;
        let mut needed = mask.clone();
        if let Some(filter) = params.filter.take() {
            let filter = self.split(*filter, mask)?;
            let filter = self.chain.condition(filter, mask)?;
            needed = both(needed, filter.clone());
            params.filter = Some(Box::new(filter));
        }
        for argument in &mut params.args {
            *argument = self.split(argument.clone(), &needed)?;
        }
        for sort in &mut params.order_by {
            sort.expr = self.split(sort.expr.clone(), &needed)?;
        }
        Ok(Expr::AggregateFunction(aggregate))
    }
}

fn both(mask: Mask, condition: Expr) -> Mask {
    Some(match mask {
        Some(mask) => mask.and(condition),
        None => condition,
    })
}

/// A cast constant is a constant.
fn folded(expression: Expr) -> Expr {
    let cast = match &expression {
        Expr::Cast(cast) => match cast.expr.as_ref() {
            Expr::Literal(value, _) => value.cast_to(cast.field.data_type()).ok(),
            _ => None,
        },
        _ => None,
    };
    match cast {
        Some(value) => Expr::Literal(value, None),
        None => expression,
    }
}

/// The UDF that a function calls, if it is one of ours and can be planned here.
pub(super) fn wasm_call(function: &ScalarFunction) -> Option<&WasmFunction> {
    let wasm = WasmFunction::of(&function.func)?;
    // Columns of an outer query are there only after the subquery has been made a join.
    let outer = |e: &Expr| Ok(matches!(e, Expr::OuterReferenceColumn(..)));
    let is_outer = function
        .args
        .iter()
        .any(|a| a.exists(outer).unwrap_or(true));
    (!is_outer).then_some(wasm)
}

/// Whether an expression has a call that can be planned.
pub(super) fn has_call(expression: &Expr) -> bool {
    any_call(expression, |_| true)
}

/// Whether an expression has a call of a function whose rows depend on earlier ones.
pub(super) fn has_sequence(expression: &Expr) -> bool {
    any_call(expression, WasmFunction::is_sequence)
}

fn any_call(expression: &Expr, wanted: impl Fn(&WasmFunction) -> bool) -> bool {
    let mut found = false;
    let walked = expression.apply(|e| {
        Ok(match e {
            Expr::ScalarFunction(f) if wasm_call(f).is_some_and(&wanted) => {
                found = true;
                TreeNodeRecursion::Stop
            }
            _ => TreeNodeRecursion::Continue,
        })
    });
    walked.is_ok() && found
}

/// Notes the calls that an expression makes for every row.
fn note_unconditional(expression: &Expr, calls: &mut HashSet<Expr>) {
    if !has_call(expression) {
        return;
    }
    match expression {
        Expr::Lambda(_) => {}
        Expr::Case(case) => {
            // Base and first condition are always evaluated.
            let first = case.when_then_expr.first().map(|(condition, _)| condition);
            for always in case.expr.iter().chain(first) {
                note_unconditional(always, calls);
            }
        }
        Expr::BinaryExpr(b) if matches!(b.op, Operator::And | Operator::Or) => {
            if !(has_call(&b.left) && !has_call(&b.right) && cannot_fail(&b.right)) {
                note_unconditional(&b.left, calls);
            }
        }
        Expr::ScalarFunction(f) if matches!(f.func.name(), "coalesce" | "nvl" | "nvl2") => {
            if let Some(first) = f.args.first() {
                note_unconditional(first, calls);
            }
        }
        Expr::AggregateFunction(a) if a.params.filter.is_some() => {
            if let Some(filter) = &a.params.filter {
                note_unconditional(filter, calls);
            }
        }
        other => {
            if let Expr::ScalarFunction(f) = other
                && let Some(wasm) = wasm_call(f)
                && wasm.is_mergeable()
            {
                calls.insert(other.clone());
            }
            let noted = other.apply_children(|child| {
                note_unconditional(child, calls);
                Ok(TreeNodeRecursion::Continue)
            });
            debug_assert!(noted.is_ok());
        }
    }
}

/// The expression with other columns, if each of its columns has one.
pub(super) fn with_columns(
    expression: &Expr,
    other: impl Fn(&Column) -> Option<Column>,
) -> Option<Expr> {
    let mut complete = true;
    let mapped = expression.clone().transform(|e| {
        Ok(match e {
            Expr::Column(column) => match other(&column) {
                Some(column) => Transformed::yes(Expr::Column(column)),
                None => {
                    complete = false;
                    Transformed::no(Expr::Column(column))
                }
            },
            e => Transformed::no(e),
        })
    });
    mapped.ok().filter(|_| complete).map(|t| t.data)
}

/// Shows the calls that are not arguments of other calls, and whether each is made for every row.
pub(super) fn each_unconditional_call(
    expression: &Expr,
    show: &mut impl FnMut(&Expr, bool),
) -> Result<()> {
    let mut always = HashSet::new();
    note_unconditional(expression, &mut always);
    expression
        .apply(|e| match e {
            Expr::ScalarFunction(f) if wasm_call(f).is_some() => {
                show(e, always.contains(e));
                Ok(TreeNodeRecursion::Jump)
            }
            _ => Ok(TreeNodeRecursion::Continue),
        })
        .map(|_| ())
}

/// The expression with some of its parts replaced.
pub(super) fn replaced(expression: Expr, parts: &[(Expr, Expr)]) -> Result<Expr> {
    let replaced = expression.transform_down(|e| {
        Ok(match parts.iter().find(|(from, _)| *from == e) {
            Some((_, to)) => Transformed::yes(to.clone()),
            None => Transformed::no(e),
        })
    })?;
    Ok(replaced.data)
}
