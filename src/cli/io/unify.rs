//! Gives all batches of a file the same dictionaries.
//!
//! Batches may each bring a dictionary of their own for the same column, while an Arrow file has one
//! per column to which values can only be added. So each dictionary column, nested ones too, keeps a
//! dictionary that grows: keys are translated to it, and what was written before stays valid.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, DictionaryArray, Int64Array, RecordBatch, RecordBatchOptions,
    UInt64Array, downcast_integer, make_array, new_empty_array,
};
use arrow::compute::{CastOptions, cast, cast_with_options, concat, take};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::row::{RowConverter, SortField};

/// The growing dictionaries of a schema.
pub(super) struct Unifier {
    schema: SchemaRef,
    columns: Vec<Node>,
}

/// What a type holds that needs attention.
enum Node {
    /// No dictionary below.
    Plain,
    /// Children in the order of the array's child data.
    Nested(Vec<Node>),
    Dictionary(Box<Growing>),
}

/// One growing dictionary.
struct Growing {
    /// The dictionary's values may hold dictionaries themselves.
    below: Node,
    /// All values so far.
    values: ArrayRef,
    /// Finds values again; holds the first `indexed` of them. `None` for types that cannot be compared.
    index: Option<Index>,
    /// The last dictionary that came, and what its keys became.
    last: Option<(ArrayRef, Translation)>,
}

struct Index {
    converter: RowConverter,
    places: HashMap<Box<[u8]>, u64>,
    indexed: usize,
}

/// What keys become.
#[derive(Clone)]
enum Translation {
    /// They stay.
    Same,
    /// The new key at the place of the old one.
    Table(Arc<[u64]>),
}

impl Unifier {
    pub(super) fn new(schema: &SchemaRef) -> Self {
        Unifier {
            schema: Arc::clone(schema),
            columns: nodes(schema),
        }
    }

    /// The batch over the growing dictionaries.
    pub(super) fn unify(&mut self, batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        let mut columns = Vec::with_capacity(batch.num_columns());
        for ((column, node), field) in batch
            .columns()
            .iter()
            .zip(&mut self.columns)
            .zip(self.schema.fields())
        {
            let unified = node.unify(column).map_err(|e| {
                ArrowError::InvalidArgumentError(format!("column `{}`: {e}", field.name()))
            })?;
            columns.push(unified);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
    }
}

fn nodes(schema: &Schema) -> Vec<Node> {
    schema
        .fields()
        .iter()
        .map(|field| Node::of(field.data_type()))
        .collect()
}

impl Node {
    fn of(data_type: &DataType) -> Self {
        let children: Vec<Node> = match data_type {
            DataType::Dictionary(_, values) => {
                return Node::Dictionary(Box::new(Growing::new(values)));
            }
            DataType::List(f)
            | DataType::LargeList(f)
            | DataType::ListView(f)
            | DataType::LargeListView(f)
            | DataType::FixedSizeList(f, _)
            | DataType::Map(f, _) => vec![Node::of(f.data_type())],
            DataType::Struct(fields) => fields.iter().map(|f| Node::of(f.data_type())).collect(),
            DataType::Union(fields, _) => fields
                .iter()
                .map(|(_, f)| Node::of(f.data_type()))
                .collect(),
            DataType::RunEndEncoded(_, values) => vec![Node::Plain, Node::of(values.data_type())],
            _ => Vec::new(),
        };
        if children.iter().all(|c| matches!(c, Node::Plain)) {
            Node::Plain
        } else {
            Node::Nested(children)
        }
    }

    fn unify(&mut self, array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
        match self {
            Node::Plain => Ok(Arc::clone(array)),
            Node::Nested(children) => {
                replace_children(array, children, |node, child| node.unify(child))
            }
            Node::Dictionary(growing) => growing.unify(array),
        }
    }

    /// An array that was unified before, over the dictionaries as they are now.
    fn renew(&self, array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
        match self {
            Node::Plain => Ok(Arc::clone(array)),
            Node::Nested(children) => {
                let mut children: Vec<&Node> = children.iter().collect();
                replace_children(array, &mut children, |node, child| node.renew(child))
            }
            Node::Dictionary(growing) => Ok(array
                .as_any_dictionary()
                .with_values(Arc::clone(&growing.values))),
        }
    }
}

fn replace_children<N>(
    array: &ArrayRef,
    nodes: &mut [N],
    mut replace: impl FnMut(&mut N, &ArrayRef) -> Result<ArrayRef, ArrowError>,
) -> Result<ArrayRef, ArrowError> {
    let data = array.to_data();
    let children = data
        .child_data()
        .iter()
        .zip(nodes)
        .map(|(child, node)| Ok(replace(node, &make_array(child.clone()))?.to_data()))
        .collect::<Result<Vec<_>, ArrowError>>()?;
    Ok(make_array(
        data.into_builder().child_data(children).build()?,
    ))
}

impl Growing {
    fn new(values: &DataType) -> Self {
        let fields = vec![SortField::new(values.clone())];
        let index = RowConverter::supports_fields(&fields)
            .then(|| RowConverter::new(fields))
            .and_then(Result::ok);
        Growing {
            below: Node::of(values),
            values: new_empty_array(values),
            index: index.map(|converter| Index {
                converter,
                places: HashMap::new(),
                indexed: 0,
            }),
            last: None,
        }
    }

    fn unify(&mut self, array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
        let dictionary = array.as_any_dictionary();
        let translation = self.translation(dictionary.values())?;
        match translation {
            Translation::Same => Ok(dictionary.with_values(Arc::clone(&self.values))),
            Translation::Table(table) => {
                let keys = translate(dictionary.keys(), &table, self.values.len())?;
                with_keys(&keys, Arc::clone(&self.values))
            }
        }
    }

    /// What the keys of a dictionary with these values become. Adds values that are new.
    fn translation(&mut self, values: &ArrayRef) -> Result<Translation, ArrowError> {
        if let Some((last, translation)) = &self.last
            && last.to_data().ptr_eq(&values.to_data())
        {
            return Ok(translation.clone());
        }
        let incoming = self.below.unify(values)?;
        let mine = self.below.renew(&self.values)?;
        let (known, new) = (mine.len(), incoming.len());
        let common = known.min(new);
        let translation = if mine.slice(0, common).to_data() == incoming.slice(0, common).to_data()
        {
            // One continues the other: the longer one serves both.
            self.values = if new > known { incoming } else { mine };
            Translation::Same
        } else {
            self.values = mine;
            Translation::Table(self.add(&incoming)?)
        };
        self.last = Some((Arc::clone(values), translation.clone()));
        Ok(translation)
    }

    /// Adds those of `incoming` that are not there; gives the place of each.
    fn add(&mut self, incoming: &ArrayRef) -> Result<Arc<[u64]>, ArrowError> {
        let mut end = self.values.len() as u64;
        let mut places = Vec::with_capacity(incoming.len());
        let mut added = Vec::new();
        match &mut self.index {
            Some(index) => {
                index.catch_up(&self.values)?;
                let rows = index
                    .converter
                    .convert_columns(std::slice::from_ref(incoming))?;
                for (i, row) in rows.iter().enumerate() {
                    let place = *index.places.entry(row.as_ref().into()).or_insert(end);
                    if place == end {
                        added.push(i as u64);
                        end = end.saturating_add(1);
                    }
                    places.push(place);
                }
                index.indexed = usize::try_from(end).unwrap_or(usize::MAX);
            }
            None => {
                for i in 0..incoming.len() as u64 {
                    places.push(end.saturating_add(i));
                    added.push(i);
                }
            }
        }
        let added = take(incoming, &UInt64Array::from(added), None)?;
        self.values = concat(&[self.values.as_ref(), added.as_ref()])?;
        Ok(places.into())
    }
}

impl Index {
    /// Takes in values that came without being looked for.
    fn catch_up(&mut self, values: &ArrayRef) -> Result<(), ArrowError> {
        let missing = values.len().saturating_sub(self.indexed);
        let rows = self
            .converter
            .convert_columns(&[values.slice(self.indexed, missing)])?;
        for (place, row) in (self.indexed as u64..).zip(rows.iter()) {
            // Of equal values the first is meant.
            self.places.entry(row.as_ref().into()).or_insert(place);
        }
        self.indexed = values.len();
        Ok(())
    }
}

fn translate(keys: &dyn Array, table: &[u64], values: usize) -> Result<ArrayRef, ArrowError> {
    let wide = cast(keys, &DataType::Int64)?;
    let wide = wide.as_primitive::<arrow::datatypes::Int64Type>();
    let new: Int64Array = wide
        .iter()
        .map(|key| {
            let place = usize::try_from(key?).ok().and_then(|key| table.get(key))?;
            i64::try_from(*place).ok()
        })
        .collect();
    let strict = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    cast_with_options(&new, keys.data_type(), &strict).map_err(|_| {
        ArrowError::InvalidArgumentError(format!(
            "its {values} different values do not fit {} keys in one Arrow file; write an Arrow stream, which may replace dictionaries",
            keys.data_type()
        ))
    })
}

fn with_keys(keys: &ArrayRef, values: ArrayRef) -> Result<ArrayRef, ArrowError> {
    macro_rules! typed {
        ($t:ty) => {
            Ok(Arc::new(DictionaryArray::<$t>::try_new(
                keys.as_primitive::<$t>().clone(),
                values,
            )?))
        };
    }
    downcast_integer! {
        keys.data_type() => (typed),
        other => Err(ArrowError::InvalidArgumentError(format!("{other} is not a type of keys"))),
    }
}
