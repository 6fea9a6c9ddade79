//! The plan's last node: writes its input to the staged file.

use std::sync::Arc;

use arrow::array::{RecordBatch, new_null_array};
use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::common::config::{CsvOptions, ParquetOptions};
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::file_format::csv::CsvFormat;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::datasource::physical_plan::{FileGroup, FileOutputMode, FileSinkConfig};
use datafusion::datasource::sink::DataSinkExec;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::object_store::local::LocalFileSystem;
use datafusion::physical_plan::ExecutionPlan;

use super::arrow_sink::ArrowSink;
use super::file_table::parquet_options;
use super::ipc_read::Framing;
use super::{Format, OutputError, StagedFile};
use crate::cli::terminal::without_panic_output;

/// Where DataFusion's writers find the staged file: a store of its own, so that no path needs quoting.
const STORE: &str = "staged://output";

/// Rows of a Parquet row group. The writer holds a whole group in memory; this many rows keep wide
/// tables small and still make good reading.
const ROW_GROUP_ROWS: usize = 256 << 10;

/// Refuses columns that the format has no place for, before anything runs.
pub(crate) fn check_columns(
    schema: &Schema,
    format: Format,
    target: &std::path::Path,
) -> Result<(), OutputError> {
    for field in schema.fields() {
        if let Err(reason) = try_column(field, format) {
            return Err(OutputError::Column {
                path: target.to_owned(),
                column: field.name().clone(),
                data_type: field.data_type().to_string(),
                reason,
            });
        }
    }
    Ok(())
}

/// Asks the format's own writer, with one row of nothing.
fn try_column(field: &Field, format: Format) -> Result<(), String> {
    let nullable = field.clone().with_nullable(true);
    let attempt = || -> Result<(), String> {
        let schema = Arc::new(Schema::new(vec![nullable.clone()]));
        let batch = RecordBatch::try_new(
            Arc::clone(&schema),
            vec![new_null_array(field.data_type(), 1)],
        )
        .map_err(|e| e.to_string())?;
        match format {
            Format::Csv => arrow::csv::Writer::new(Vec::new())
                .write(&batch)
                .map_err(|e| e.to_string()),
            Format::Parquet => {
                let mut writer = parquet::arrow::ArrowWriter::try_new(Vec::new(), schema, None)
                    .map_err(|e| e.to_string())?;
                writer.write(&batch).map_err(|e| e.to_string())?;
                writer.close().map(drop).map_err(|e| e.to_string())
            }
            Format::Arrow | Format::ArrowStream => {
                let mut writer = arrow::ipc::writer::StreamWriter::try_new(Vec::new(), &schema)
                    .map_err(|e| e.to_string())?;
                writer.write(&batch).map_err(|e| e.to_string())
            }
        }
    };
    without_panic_output(attempt).unwrap_or_else(Err)
}

/// Puts a sink for `file` over `input`.
pub(crate) async fn sink(
    session: &dyn Session,
    input: Arc<dyn ExecutionPlan>,
    file: &StagedFile,
    format: Format,
) -> Result<Arc<dyn ExecutionPlan>> {
    let schema = input.schema();
    match format {
        Format::Arrow => Ok(arrow_sink(input, file, Framing::File)),
        Format::ArrowStream => Ok(arrow_sink(input, file, Framing::Stream)),
        Format::Csv => {
            let options = CsvOptions {
                has_header: Some(true),
                ..CsvOptions::default()
            };
            let csv = CsvFormat::default().with_options(options);
            csv.create_writer_physical_plan(
                input,
                session,
                file_sink(session, schema, file, "csv")?,
                None,
            )
            .await
        }
        Format::Parquet => {
            let mut options = parquet_options();
            options.global = ParquetOptions {
                max_row_group_size: ROW_GROUP_ROWS,
                ..options.global
            };
            let parquet = ParquetFormat::default().with_options(options);
            parquet
                .create_writer_physical_plan(
                    input,
                    session,
                    file_sink(session, schema, file, "parquet")?,
                    None,
                )
                .await
        }
    }
}

fn arrow_sink(
    input: Arc<dyn ExecutionPlan>,
    file: &StagedFile,
    framing: Framing,
) -> Arc<dyn ExecutionPlan> {
    let sink = ArrowSink::new(
        input.schema(),
        file.path(),
        file.target().to_owned(),
        framing,
    );
    Arc::new(DataSinkExec::new(input, Arc::new(sink), None))
}

fn file_sink(
    session: &dyn Session,
    schema: SchemaRef,
    file: &StagedFile,
    extension: &str,
) -> Result<FileSinkConfig> {
    let store = LocalFileSystem::new_with_prefix(file.folder())?;
    let url = ObjectStoreUrl::parse(STORE)?;
    session
        .runtime_env()
        .register_object_store(url.as_ref(), Arc::new(store));
    let path = format!(
        "{STORE}/{}",
        file.path()
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
    );
    Ok(FileSinkConfig {
        original_url: path.clone(),
        object_store_url: url,
        file_group: FileGroup::default(),
        table_paths: vec![ListingTableUrl::parse(path)?],
        output_schema: schema,
        table_partition_cols: Vec::new(),
        insert_op: InsertOp::Append,
        keep_partition_by_columns: false,
        file_extension: extension.to_owned(),
        file_output_mode: FileOutputMode::SingleFile,
    })
}
