//! Parquet files and objects as a table, read by DataFusion's own source.
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
use datafusion::physical_plan::union::UnionExec;

use super::in_order::InOrderExec;
use super::parquet_check::{check_depth, check_depth_of};
use super::schema::{check_names, merge_schemas};
use super::source::blocking;
use super::{InputError, Source};
use crate::cli::terminal::guarded;

/// Where a file is.
#[derive(Debug, Clone)]
struct Place {
    url: ObjectStoreUrl,
    store: Arc<dyn ObjectStore>,
    meta: ObjectMeta,
}

/// The files and their common schema.
#[derive(Debug)]
pub(super) struct ParquetTable {
    format: Arc<dyn FileFormat>,
    sources: Arc<[Source]>,
    places: Vec<Place>,
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
        let sources = seekable(sources).await?;
        let first = sources.first().map_or(Path::new(""), Source::name);
        let mut common: Option<Schema> = None;
        let mut places = Vec::with_capacity(sources.len());
        for source in sources.iter() {
            let name = source.name();
            let place = locate(session, source).await?;
            let metas = std::slice::from_ref(&place.meta);
            let schema = guarded(format.infer_schema(session, &place.store, metas))
                .await
                .map_err(|_| InputError::contradictory(name))?
                .map_err(|e| InputError::of_reader(source, &e))?;
            check_names(name, &schema)?;
            common = Some(match common {
                None => schema.as_ref().clone(),
                Some(common) => merge_schemas(&common, first, &schema, name)?,
            });
            places.push(place);
        }
        let schema = Arc::new(common.unwrap_or_else(Schema::empty));
        let counting = count_rows(session, format.as_ref(), &schema, &places);
        let rows = guarded(counting).await.ok().flatten();
        Ok(ParquetTable {
            format,
            sources,
            places,
            schema,
            rows,
        })
    }

    /// Rows of all files, where their footers say so.
    pub(super) fn rows(&self) -> Option<usize> {
        self.rows
    }
}

/// The sources, with the standard input in a file.
async fn seekable(sources: &[Source]) -> Result<Arc<[Source]>, InputError> {
    let sources = sources.to_vec();
    blocking(move || {
        let seekable = sources.iter().map(|source| match source.object() {
            Some(_) => Ok(source.clone()),
            None => source.seekable(),
        });
        seekable.collect()
    })
    .await
}

async fn locate(session: &dyn Session, source: &Source) -> Result<Place, InputError> {
    let name = source.name();
    if let Some(object) = source.object() {
        let (url, store) = object.store();
        let url = url.clone();
        let meta = object.about(name).await?;
        check_depth_of(source, store.as_ref(), &meta).await?;
        return Ok(Place { url, store, meta });
    }
    let unsupported = |reason: String| InputError::unsupported(name, reason);
    check_depth(name, &mut source.open_file()?)?;
    let path = source.path().unwrap_or(name);
    let absolute = std::fs::canonicalize(path).map_err(InputError::read(name))?;
    let location =
        StorePath::from_absolute_path(&absolute).map_err(|e| unsupported(e.to_string()))?;
    let url = ObjectStoreUrl::local_filesystem();
    let store = session
        .runtime_env()
        .object_store(&url)
        .map_err(|e| unsupported(e.to_string()))?;
    let meta = store
        .head(&location)
        .await
        .map_err(|e| unsupported(e.to_string()))?;
    Ok(Place { url, store, meta })
}

/// The number of rows is for a progress bar: where it cannot be had there is none.
async fn count_rows(
    session: &dyn Session,
    format: &dyn FileFormat,
    schema: &SchemaRef,
    places: &[Place],
) -> Option<usize> {
    let mut rows = 0_usize;
    for place in places {
        let statistics = format
            .infer_stats(session, &place.store, Arc::clone(schema), &place.meta)
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
        let mut scans = Vec::new();
        // One scan has one store; what lies side by side in one store is scanned together.
        for places in self.places.chunk_by(|a, b| a.url == b.url) {
            let Some(Place { url, store, .. }) = places.first() else {
                continue;
            };
            let environment = state.runtime_env();
            environment.register_object_store(url.as_ref(), Arc::clone(store));
            let source = self
                .format
                .file_source(TableSchema::from(Arc::clone(&self.schema)));
            let groups = places.iter().map(|place| {
                FileGroup::new(vec![PartitionedFile::new_from_meta(place.meta.clone())])
            });
            let config = FileScanConfigBuilder::new(url.clone(), source)
                .with_file_groups(groups.collect())
                .with_projection_indices(projection.cloned())?
                .with_limit(limit)
                .build();
            scans.push(self.format.create_physical_plan(state, config).await?);
        }
        // The partitions of a union are those of its inputs, in their order.
        let files = UnionExec::try_new(scans)?;
        Ok(Arc::new(InOrderExec::new(files, Arc::clone(&self.sources))))
    }
}
