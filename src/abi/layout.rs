//! One recursive description of how an Arrow type lies in memory, worked out once per schema and
//! walked for every batch, in both directions.

use arrow::datatypes::{DataType, Field, UnionMode};

use crate::module::{MAX_DEPTH, check_type};

/// How one array lies in memory, its children included.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    pub kind: Kind,
    pub data_type: DataType,
    pub nullable: bool,
    /// Children; a dictionary's values are its only one.
    pub children: Vec<Layout>,
    /// Where in the type this is, for messages: `value.item`.
    pub path: Box<str>,
    /// Whether a dictionary is somewhere in here.
    pub has_dictionary: bool,
}

/// What the buffers of an array mean. Each kind stands for all types that lie in memory alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// No buffers.
    Null,
    /// Validity, bits.
    Bits,
    /// Validity, values of so many bytes.
    Fixed { width: usize, domain: Domain },
    /// Validity, offsets, bytes.
    Bytes { offsets: Width },
    /// Validity, views, any number of byte buffers, their lengths.
    Views,
    /// Validity, offsets; one child.
    List { offsets: Width },
    /// Validity, offsets, sizes; one child.
    ListView { offsets: Width },
    /// Validity; one child of so many elements each.
    FixedList { size: usize },
    /// Validity; children of the same length.
    Struct,
    /// Type ids; children of the same length.
    SparseUnion,
    /// Type ids, offsets.
    DenseUnion,
    /// Run ends and values as children.
    RunEnds { ends: RunEnds },
    /// Validity, keys; values.
    Dictionary { keys: Keys },
}

/// Width of offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Width {
    Four,
    Eight,
}

impl Width {
    pub(crate) const fn bytes(self) -> usize {
        match self {
            Width::Four => 4,
            Width::Eight => 8,
        }
    }
}

/// Type of run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunEnds {
    Int16,
    Int32,
    Int64,
}

/// Type of dictionary keys: their width, and whether they have a sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Keys {
    pub width: usize,
    pub signed: bool,
}

/// Which values of a fixed-width type mean something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Domain {
    /// All.
    All,
    /// Decimals of at most so many digits.
    Digits(u8),
    /// Times of day, below so many units.
    Below(i64),
}

/// Where a child is; deep paths and long names are cut, since they are the guest's.
fn child_path(path: &str, name: &str) -> String {
    const SEGMENT: usize = 64;
    const PATH: usize = 512;
    if path.len() > PATH {
        return path.to_owned();
    }
    let name: String = name.chars().take(SEGMENT).collect();
    format!("{path}.{}", super::frame::clean_line(&name))
}

impl Layout {
    /// Bytes that an array of so many nulls takes at least; `None` when that is beyond counting.
    pub(crate) fn null_bytes(&self, rows: u64) -> Option<u64> {
        let own = match self.kind {
            Kind::Fixed { width, .. } => rows.checked_mul(width as u64)?,
            Kind::Bytes { offsets } | Kind::List { offsets } => {
                rows.checked_mul(offsets.bytes() as u64)?
            }
            Kind::ListView { offsets } => {
                rows.checked_mul(offsets.bytes() as u64)?.checked_mul(2)?
            }
            Kind::Views => rows.checked_mul(16)?,
            Kind::Dictionary { keys } => rows.checked_mul(keys.width as u64)?,
            Kind::DenseUnion => rows.checked_mul(5)?,
            _ => rows,
        };
        let child_rows = match self.kind {
            Kind::FixedList { size } => rows.checked_mul(size as u64)?,
            Kind::Struct | Kind::SparseUnion | Kind::DenseUnion => rows,
            _ => return Some(own),
        };
        self.children.iter().try_fold(own, |sum, child| {
            sum.checked_add(child.null_bytes(child_rows)?)
        })
    }

    /// Describes a field.
    ///
    /// # Errors
    /// Why values of this type cannot cross.
    pub(crate) fn new(field: &Field, path: &str) -> Result<Self, String> {
        check_type(field.data_type())?;
        Self::build(field.data_type(), field.is_nullable(), path, 0)
    }

    fn build(
        data_type: &DataType,
        nullable: bool,
        path: &str,
        depth: usize,
    ) -> Result<Self, String> {
        use DataType as T;
        if depth >= MAX_DEPTH {
            return Err(format!("types nest deeper than {MAX_DEPTH}"));
        }
        let child = |field: &Field, name: &str| {
            Self::build(
                field.data_type(),
                field.is_nullable(),
                &child_path(path, name),
                depth.saturating_add(1),
            )
        };
        let fixed = |width| Kind::Fixed {
            width,
            domain: Domain::All,
        };
        let day = |units: i64, width| Kind::Fixed {
            width,
            domain: Domain::Below(units),
        };
        let mut children = Vec::new();
        let kind = match data_type {
            T::Null => Kind::Null,
            T::Boolean => Kind::Bits,
            T::Decimal32(p, _) => Kind::Fixed {
                width: 4,
                domain: Domain::Digits(*p),
            },
            T::Decimal64(p, _) => Kind::Fixed {
                width: 8,
                domain: Domain::Digits(*p),
            },
            T::Decimal128(p, _) => Kind::Fixed {
                width: 16,
                domain: Domain::Digits(*p),
            },
            T::Decimal256(p, _) => Kind::Fixed {
                width: 32,
                domain: Domain::Digits(*p),
            },
            T::Time32(arrow::datatypes::TimeUnit::Second) => day(86_400, 4),
            T::Time32(_) => day(86_400_000, 4),
            T::Time64(arrow::datatypes::TimeUnit::Microsecond) => day(86_400_000_000, 8),
            T::Time64(_) => day(86_400_000_000_000, 8),
            T::FixedSizeBinary(n) => fixed(usize::try_from(*n).map_err(|e| e.to_string())?),
            T::Utf8 | T::Binary => Kind::Bytes {
                offsets: Width::Four,
            },
            T::LargeUtf8 | T::LargeBinary => Kind::Bytes {
                offsets: Width::Eight,
            },
            T::Utf8View | T::BinaryView => Kind::Views,
            T::List(f) | T::LargeList(f) | T::ListView(f) | T::LargeListView(f) | T::Map(f, _) => {
                children.push(child(f, f.name())?);
                match data_type {
                    T::List(_) | T::Map(..) => Kind::List {
                        offsets: Width::Four,
                    },
                    T::LargeList(_) => Kind::List {
                        offsets: Width::Eight,
                    },
                    T::ListView(_) => Kind::ListView {
                        offsets: Width::Four,
                    },
                    _ => Kind::ListView {
                        offsets: Width::Eight,
                    },
                }
            }
            T::FixedSizeList(f, n) => {
                children.push(child(f, f.name())?);
                Kind::FixedList {
                    size: usize::try_from(*n).map_err(|e| e.to_string())?,
                }
            }
            T::Struct(fields) => {
                children = fields
                    .iter()
                    .map(|f| child(f, f.name()))
                    .collect::<Result<_, _>>()?;
                Kind::Struct
            }
            T::Union(fields, mode) => {
                children = fields
                    .iter()
                    .map(|(_, f)| child(f, f.name()))
                    .collect::<Result<_, _>>()?;
                match mode {
                    UnionMode::Sparse => Kind::SparseUnion,
                    UnionMode::Dense => Kind::DenseUnion,
                }
            }
            T::RunEndEncoded(ends, values) => {
                children.push(child(ends, "run_ends")?);
                children.push(child(values, "values")?);
                let ends = match ends.data_type() {
                    T::Int16 => RunEnds::Int16,
                    T::Int32 => RunEnds::Int32,
                    _ => RunEnds::Int64,
                };
                Kind::RunEnds { ends }
            }
            T::Dictionary(keys, values) => {
                children.push(Self::build(
                    values,
                    true,
                    &child_path(path, "dictionary"),
                    depth.saturating_add(1),
                )?);
                let width = keys
                    .primitive_width()
                    .ok_or_else(|| format!("{keys} cannot be a key"))?;
                Kind::Dictionary {
                    keys: Keys {
                        width,
                        signed: keys.is_signed_integer(),
                    },
                }
            }
            other => match other.primitive_width() {
                Some(width) => fixed(width),
                None => return Err(format!("{other} is not supported by this version")),
            },
        };
        let has_dictionary =
            matches!(kind, Kind::Dictionary { .. }) || children.iter().any(|c| c.has_dictionary);
        Ok(Layout {
            kind,
            data_type: data_type.clone(),
            nullable,
            children,
            path: path.into(),
            has_dictionary,
        })
    }

    /// Number of buffers, the variadic ones of views left out.
    pub(crate) fn buffers(&self) -> usize {
        match self.kind {
            Kind::Null | Kind::RunEnds { .. } => 0,
            Kind::FixedList { .. } | Kind::Struct | Kind::SparseUnion => 1,
            Kind::Bits
            | Kind::Fixed { .. }
            | Kind::List { .. }
            | Kind::DenseUnion
            | Kind::Dictionary { .. } => 2,
            Kind::Bytes { .. } | Kind::Views | Kind::ListView { .. } => 3,
        }
    }

    /// Number of children in the C Data Interface, where a dictionary's values are not one.
    pub(crate) fn child_count(&self) -> usize {
        if matches!(self.kind, Kind::Dictionary { .. }) {
            0
        } else {
            self.children.len()
        }
    }

    /// Whether the first buffer is a validity bitmap.
    pub(crate) fn has_validity(&self) -> bool {
        !matches!(
            self.kind,
            Kind::Null | Kind::SparseUnion | Kind::DenseUnion | Kind::RunEnds { .. }
        )
    }
}
