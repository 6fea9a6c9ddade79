//! Parquet and CSV files as a table, read by DataFusion's own sources.
//!
//! DataFusion's listing table would do but for one thing: it sorts its files by name, and the order
//! on the command line is the order of the rows.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::common::config::{CsvOptions, TableParquetOptions};
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::file_format::csv::CsvFormat;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfigBuilder};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::object_store::path::Path as StorePath;
use datafusion::object_store::{ObjectMeta, ObjectStoreExt};
use datafusion::physical_plan::ExecutionPlan;

use super::schema::{check_names, merge_schemas};
use super::{Format, InputError};

/// Rows that the types of a CSV file's columns are guessed from.
const CSV_SAMPLE: usize = 10_000;

/// The files and their common schema.
#[derive(Debug)]
pub(super) struct FileTable {
    format: Arc<dyn FileFormat>,
    files: Vec<PartitionedFile>,
    schema: SchemaRef,
    rows: Option<usize>,
}

impl FileTable {
    /// Reads the schemas and checks that they agree.
    pub(super) async fn open(
        session: &dyn Session,
        files: &[PathBuf],
        format: Format,
    ) -> Result<Self, InputError> {
        let format: Arc<dyn FileFormat> = match format {
            Format::Csv => {
                let options = CsvOptions {
                    has_header: Some(true),
                    ..CsvOptions::default()
                };
                Arc::new(
                    CsvFormat::default()
                        .with_options(options)
                        .with_schema_infer_max_rec(CSV_SAMPLE),
                )
            }
            _ => Arc::new(ParquetFormat::default().with_options(parquet_options())),
        };
        let mut metas = Vec::with_capacity(files.len());
        for path in files {
            metas.push(locate(session, path).await?);
        }
        let schema = common_schema(session, format.as_ref(), files, &metas).await?;
        let rows = count_rows(session, format.as_ref(), &schema, &metas).await;
        let files = metas
            .into_iter()
            .map(PartitionedFile::new_from_meta)
            .collect();
        Ok(FileTable {
            format,
            files,
            schema,
            rows,
        })
    }

    /// Rows of all files, where their footers say so.
    pub(super) fn rows(&self) -> Option<usize> {
        self.rows
    }
}

/// Types as the file has them: no views for strings, and the metadata kept.
pub(super) fn parquet_options() -> TableParquetOptions {
    let mut options = TableParquetOptions::default();
    options.global.schema_force_view_types = false;
    options.global.skip_metadata = false;
    options
}

async fn locate(session: &dyn Session, path: &Path) -> Result<ObjectMeta, InputError> {
    let unsupported = |reason: String| InputError::unsupported(path, reason);
    let absolute = std::fs::canonicalize(path).map_err(InputError::read(path))?;
    if absolute.is_dir() {
        return Err(unsupported(
            "it is a folder; name the files in it".to_owned(),
        ));
    }
    let location =
        StorePath::from_absolute_path(&absolute).map_err(|e| unsupported(e.to_string()))?;
    let store = session
        .runtime_env()
        .object_store(ObjectStoreUrl::local_filesystem())
        .map_err(|e| unsupported(e.to_string()))?;
    store
        .head(&location)
        .await
        .map_err(|e| unsupported(e.to_string()))
}

async fn common_schema(
    session: &dyn Session,
    format: &dyn FileFormat,
    files: &[PathBuf],
    metas: &[ObjectMeta],
) -> Result<SchemaRef, InputError> {
    let first = files.first().map_or(Path::new(""), PathBuf::as_path);
    let store = session
        .runtime_env()
        .object_store(ObjectStoreUrl::local_filesystem())
        .map_err(|e| InputError::unsupported(first, e.to_string()))?;
    let mut common: Option<Schema> = None;
    for (path, meta) in files.iter().zip(metas) {
        let corrupt =
            |e: datafusion::error::DataFusionError| InputError::corrupt(path, e.strip_backtrace());
        let schema = format
            .infer_schema(session, &store, std::slice::from_ref(meta))
            .await
            .map_err(corrupt)?;
        check_names(path, &schema)?;
        common = Some(match common {
            None => schema.as_ref().clone(),
            Some(common) => merge_schemas(&common, first, &schema, path)?,
        });
    }
    Ok(Arc::new(common.unwrap_or_else(Schema::empty)))
}

/// The number of rows is for a progress bar: where it cannot be had there is none.
async fn count_rows(
    session: &dyn Session,
    format: &dyn FileFormat,
    schema: &SchemaRef,
    metas: &[ObjectMeta],
) -> Option<usize> {
    let store = session
        .runtime_env()
        .object_store(ObjectStoreUrl::local_filesystem())
        .ok()?;
    let mut rows = 0_usize;
    for meta in metas {
        let statistics = format
            .infer_stats(session, &store, Arc::clone(schema), meta)
            .await
            .ok()?;
        rows = rows.saturating_add(*statistics.num_rows.get_value()?);
    }
    Some(rows)
}

#[async_trait]
impl TableProvider for FileTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let source = self
            .format
            .file_source(TableSchema::from(Arc::clone(&self.schema)));
        let config = FileScanConfigBuilder::new(ObjectStoreUrl::local_filesystem(), source)
            .with_file_group(FileGroup::new(self.files.clone()))
            .with_projection_indices(projection.cloned())?
            .with_limit(limit)
            .build();
        self.format.create_physical_plan(state, config).await
    }
}
