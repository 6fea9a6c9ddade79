//! The values that a benchmark computes with.

use std::num::NonZeroUsize;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Schema};
use datafusion::datasource::provider_as_source;
use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlanBuilder;
use datafusion::physical_plan::execute_stream;
use futures::StreamExt;

use super::BenchArgs;
use crate::cli::arguments::{BoundCall, bind};
use crate::cli::check::plain_types;
use crate::cli::check::values::{Kind, Maker};
use crate::cli::failure::Failure;
use crate::cli::io;
use crate::plan::PoolArgument;
use crate::{Function, Module, ParameterType, Rebatcher, Rows};

/// Bytes of the input that are used.
const MOST_INPUT: usize = 100 << 20;
/// Rows that are made up at least, where memory allows.
const MADE_UP_ROWS: usize = 1 << 16;
/// Rows that are made up at most.
const MOST_MADE_UP_ROWS: usize = 1 << 20;
/// Qualifies the columns of the input.
const INPUT: &str = "input";

/// The values to compute with.
pub(super) struct Data {
    pub(super) columns: Vec<RecordBatch>,
    pub(super) rows: usize,
    pub(super) bytes: usize,
    pub(super) source: String,
    pub(super) cut: bool,
}

/// Values for the parameters of the first overload that takes the arguments given.
pub(super) fn made_up(
    module: &Module,
    args: &BenchArgs,
    rows: usize,
    state: &SessionState,
) -> Result<(BoundCall, Data), Failure> {
    let mut refused = None;
    for function in module.manifest().overloads(&args.udf) {
        for schema in schemas(function) {
            match bind(module, &args.udf, &args.arg, &schema, INPUT, state) {
                Ok(bound) => {
                    let data = make_up(&bound, rows.max(MADE_UP_ROWS))?;
                    return Ok((bound, data));
                }
                Err(failure) => refused = refused.or(Some(failure)),
            }
        }
    }
    match refused {
        Some(failure) => Err(failure),
        None => {
            // For its message, which knows the names that exist.
            module.resolve(&args.udf, &[])?;
            Err(Failure::usage("there is no such UDF"))
        }
    }
}

/// Columns named like the parameters, for each type that those of any type may get.
fn schemas(function: &Function) -> Vec<Schema> {
    let any = function
        .parameters
        .iter()
        .any(|p| p.accepts == ParameterType::Any);
    let mut fillings = plain_types();
    if !any {
        fillings.truncate(1);
    }
    fillings
        .iter()
        .map(|filling| {
            let fields = function.parameters.iter().map(|p| {
                let data_type = match &p.accepts {
                    ParameterType::Exact(field) => field.data_type().clone(),
                    ParameterType::Any => filling.clone(),
                };
                Field::new(&p.name, data_type, false)
            });
            Schema::new(fields.collect::<Vec<_>>())
        })
        .collect()
}

fn make_up(bound: &BoundCall, rows: usize) -> Result<Data, Failure> {
    let mut maker = Maker::new();
    let rows = rows.min(MOST_MADE_UP_ROWS);
    let fields = bound.call.arguments().iter().zip(bound.call.constants());
    let columns = fields
        .filter(|(_, constant)| constant.is_none())
        .map(|(field, _)| maker.array(field.data_type(), rows, Kind::Everyday))
        .collect::<Result<Vec<ArrayRef>, _>>()
        .map_err(|reason| Failure::usage(reason).hint("give a file with -i FILE"))?;
    let rows = columns.iter().map(|c| c.len()).min().unwrap_or(rows);
    let columns: Vec<ArrayRef> = columns.iter().map(|c| c.slice(0, rows)).collect();
    let fields: Vec<Field> = columns
        .iter()
        .enumerate()
        .map(|(i, c)| Field::new(i.to_string(), c.data_type().clone(), true))
        .collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let batch = RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)
        .map_err(|e| Failure::usage(e.to_string()))?;
    Ok(Data {
        bytes: size(&batch),
        columns: vec![batch],
        rows,
        source: "made-up values".to_owned(),
        cut: false,
    })
}

/// The arguments' columns of the input, converted, as far as they fit.
pub(super) async fn read(
    module: &Module,
    args: &BenchArgs,
    state: &SessionState,
) -> Result<(BoundCall, Data), Failure> {
    let options = io::ReadOptions {
        format: args.input_format,
        ..io::ReadOptions::default()
    };
    let input = io::open(state, &args.input, options).await?;
    let schema = input.table.schema();
    let bound = bind(module, &args.udf, &args.arg, &schema, INPUT, state)?;
    let expressions: Vec<_> = bound
        .arguments
        .iter()
        .enumerate()
        .filter_map(|(i, argument)| match argument {
            PoolArgument::Each(expression) => Some(expression.clone().alias(i.to_string())),
            PoolArgument::Constant(_) | PoolArgument::Call(_) => None,
        })
        .collect();
    if expressions.is_empty() {
        return Err(Failure::usage("the UDF takes no column of the input").hint("leave -i out"));
    }
    let rows = LogicalPlanBuilder::scan(INPUT, provider_as_source(input.table), None)?;
    let plan = rows.project(expressions)?.build()?;
    let plan = state.create_physical_plan(&plan).await?;
    let mut stream = execute_stream(plan, state.task_ctx())?;
    let names = args
        .input
        .iter()
        .map(|path| io::shown(path).display().to_string());
    let mut data = Data {
        columns: Vec::new(),
        rows: 0,
        bytes: 0,
        source: names.collect::<Vec<_>>().join(", "),
        cut: false,
    };
    while let Some(batch) = stream.next().await {
        let batch = batch?;
        if data.bytes >= MOST_INPUT && batch.num_rows() > 0 {
            data.cut = true;
            break;
        }
        data.bytes = data.bytes.saturating_add(size(&batch));
        data.rows = data.rows.saturating_add(batch.num_rows());
        data.columns.push(batch);
    }
    Ok((bound, data))
}

fn size(batch: &RecordBatch) -> usize {
    let columns = batch.columns().iter();
    columns
        .filter_map(|c| c.to_data().get_slice_memory_size().ok())
        .fold(0, usize::saturating_add)
}

/// The data in batches of one size. A shorter rest is left out, unless it is all there is.
pub(super) fn batches(data: &Data, size: NonZeroUsize) -> Vec<Rows> {
    let Some(first) = data.columns.first() else {
        return Vec::new();
    };
    let rows = |batch: &RecordBatch| Rows::new(batch.columns().to_vec(), batch.num_rows());
    let mut rebatcher = Rebatcher::new(first.schema(), size);
    let mut made = Vec::new();
    for batch in &data.columns {
        rebatcher.push(batch.clone());
        while let Some(full) = rebatcher.next_full() {
            made.push(rows(&full));
        }
    }
    if made.is_empty() {
        made.extend(rebatcher.next_any().as_ref().map(rows));
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rest_is_left_out_unless_it_is_all_there_is() {
        let column: ArrayRef = Arc::new(arrow::array::Int64Array::from_iter_values(0..10));
        let batch = RecordBatch::try_from_iter([("0", column)]).unwrap();
        let data = Data {
            columns: vec![batch.clone(), batch],
            rows: 20,
            bytes: 160,
            source: String::new(),
            cut: false,
        };
        let sizes = |n: usize| -> Vec<usize> {
            let size = NonZeroUsize::new(n).unwrap();
            batches(&data, size).iter().map(|r| r.rows).collect()
        };
        assert_eq!(sizes(8), [8, 8]);
        assert_eq!(sizes(15), [15]);
        assert_eq!(sizes(100), [20]);
    }
}
