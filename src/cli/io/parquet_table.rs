//! Parquet files as a table, read by DataFusion's own source.
//!
//! DataFusion's listing table would do but for two things: it sorts its files by name, while the order
//! on the command line is the order of the rows; and its errors do not name the file.

use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::common::config::TableParquetOptions;
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfigBuilder};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::object_store::path::Path as StorePath;
use datafusion::object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use datafusion::physical_plan::ExecutionPlan;

use super::in_order::InOrderExec;
use super::parquet_check::check_depth;
use super::schema::{check_names, merge_schemas};
use super::{InputError, Source};
use crate::cli::terminal::guarded;

/// The files and their common schema.
#[derive(Debug)]
pub(super) struct ParquetTable {
    format: Arc<dyn FileFormat>,
    sources: Arc<[Source]>,
    metas: Vec<ObjectMeta>,
    schema: SchemaRef,
    rows: Option<usize>,
}

impl ParquetTable {
    /// Reads the schemas and checks that they agree.
    pub(super) async fn open(
        session: &dyn Session,
        sources: &[Source],
    ) -> Result<Self, InputError> {
        // Types as the file has them: no views for strings, and the metadata kept.
        let mut options = TableParquetOptions::default();
        options.global.schema_force_view_types = false;
        options.global.skip_metadata = false;
        let format: Arc<dyn FileFormat> = Arc::new(ParquetFormat::default().with_options(options));
        let sources = sources
            .iter()
            .map(Source::seekable)
            .collect::<Result<Arc<[_]>, _>>()?;
        let first = sources.first().map_or(Path::new(""), Source::name);
        let store = session
            .runtime_env()
            .object_store(ObjectStoreUrl::local_filesystem())
            .map_err(|e| InputError::unsupported(first, e.to_string()))?;
        let mut common: Option<Schema> = None;
        let mut metas = Vec::with_capacity(sources.len());
        for source in sources.iter() {
            let name = source.name();
            let meta = locate(store.as_ref(), source).await?;
            let schema = guarded(format.infer_schema(session, &store, std::slice::from_ref(&meta)))
                .await
                .map_err(|_| InputError::contradictory(name))?
                .map_err(|e| InputError::corrupt(name, e.strip_backtrace()))?;
            check_names(name, &schema)?;
            common = Some(match common {
                None => schema.as_ref().clone(),
                Some(common) => merge_schemas(&common, first, &schema, name)?,
            });
            metas.push(meta);
        }
        let schema = Arc::new(common.unwrap_or_else(Schema::empty));
        let counting = count_rows(session, format.as_ref(), &store, &schema, &metas);
        let rows = guarded(counting).await.ok().flatten();
        Ok(ParquetTable {
            format,
            sources,
            metas,
            schema,
            rows,
        })
    }

    /// Rows of all files, where their footers say so.
    pub(super) fn rows(&self) -> Option<usize> {
        self.rows
    }
}

async fn locate(store: &dyn ObjectStore, source: &Source) -> Result<ObjectMeta, InputError> {
    let name = source.name();
    let unsupported = |reason: String| InputError::unsupported(name, reason);
    check_depth(name, &mut source.open_file()?)?;
    let path = source.path().unwrap_or(name);
    let absolute = std::fs::canonicalize(path).map_err(InputError::read(name))?;
    let location =
        StorePath::from_absolute_path(&absolute).map_err(|e| unsupported(e.to_string()))?;
    store
        .head(&location)
        .await
        .map_err(|e| unsupported(e.to_string()))
}

/// The number of rows is for a progress bar: where it cannot be had there is none.
async fn count_rows(
    session: &dyn Session,
    format: &dyn FileFormat,
    store: &Arc<dyn ObjectStore>,
    schema: &SchemaRef,
    metas: &[ObjectMeta],
) -> Option<usize> {
    let mut rows = 0_usize;
    for meta in metas {
        let statistics = format
            .infer_stats(session, store, Arc::clone(schema), meta)
            .await
            .ok()?;
        rows = rows.saturating_add(*statistics.num_rows.get_value()?);
    }
    Some(rows)
}

#[async_trait]
impl TableProvider for ParquetTable {
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
        let groups = self
            .metas
            .iter()
            .map(|meta| FileGroup::new(vec![PartitionedFile::new_from_meta(meta.clone())]));
        let config = FileScanConfigBuilder::new(ObjectStoreUrl::local_filesystem(), source)
            .with_file_groups(groups.collect())
            .with_projection_indices(projection.cloned())?
            .with_limit(limit)
            .build();
        let files = self.format.create_physical_plan(state, config).await?;
        Ok(Arc::new(InOrderExec::new(files, Arc::clone(&self.sources))))
    }
}
