//! How deep the schema of a Parquet file nests, found out before anything is built from it.
//!
//! The readers call themselves once a level, and so does all that handles a type later on. In the footer
//! the schema is a flat list, so that its depth can be told by counting. The footer is a Thrift structure
//! in the compact protocol.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use datafusion::common::DataFusionError;
use datafusion::object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};

use super::{InputError, Source};

/// Levels that a schema may have. A list takes two of them.
const LEVELS: usize = 128;

/// Bytes at the end of a file: the length of the footer, and the magic number.
const TAIL: u64 = 8;

/// Structures of the footer within each other; the format needs less than ten.
const STRUCTURES: usize = 32;

/// Refuses a file whose schema nests deeper than [`LEVELS`], or whose footer cannot be followed.
pub(super) fn check_depth(name: &Path, file: &mut File) -> Result<(), InputError> {
    match footer(file).map_err(InputError::read(name))? {
        Some(footer) => check_footer(name, &footer),
        // Not a whole file; the reader knows what to say.
        None => Ok(()),
    }
}

/// As [`check_depth`], of an object.
pub(super) async fn check_depth_of(
    source: &Source,
    store: &dyn ObjectStore,
    about: &ObjectMeta,
) -> Result<(), InputError> {
    let fetch = async |start, end| {
        let fetched = store.get_range(&about.location, start..end).await;
        fetched
            .map_err(|e| InputError::of_reader(source, &DataFusionError::ObjectStore(Box::new(e))))
    };
    let Some(end) = about.size.checked_sub(TAIL) else {
        return Ok(());
    };
    let tail = fetch(end, about.size).await?;
    match footer_start(end, &tail) {
        Some(start) => check_footer(source.name(), &fetch(start, end).await?),
        None => Ok(()),
    }
}

fn check_footer(name: &Path, footer: &[u8]) -> Result<(), InputError> {
    let mut bytes = Compact(footer);
    match bytes.schema_depth() {
        None => Err(InputError::corrupt(name, "its footer is malformed")),
        Some(depth) if depth > LEVELS => Err(InputError::unsupported(
            name,
            format!(
                "its columns nest {depth} levels deep, at most {LEVELS} are accepted; a list counts twice"
            ),
        )),
        Some(_) => Ok(()),
    }
}

/// The bytes of the footer; `None` where the file does not end as a Parquet file.
fn footer(file: &mut File) -> io::Result<Option<Vec<u8>>> {
    let size = file.metadata()?.len();
    let Some(end) = size.checked_sub(TAIL) else {
        return Ok(None);
    };
    file.seek(SeekFrom::Start(end))?;
    let mut tail = Vec::new();
    file.take(TAIL).read_to_end(&mut tail)?;
    let Some(start) = footer_start(end, &tail) else {
        return Ok(None);
    };
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(end.saturating_sub(start))
        .read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

/// Where the footer begins that ends before the tail.
fn footer_start(end: u64, tail: &[u8]) -> Option<u64> {
    match *tail {
        [a, b, c, d, b'P', b'A', b'R', b'1'] => {
            end.checked_sub(u64::from(u32::from_le_bytes([a, b, c, d])))
        }
        _ => None,
    }
}

/// Types of the compact protocol.
mod kind {
    pub(super) const STOP: u8 = 0;
    pub(super) const TRUE: u8 = 1;
    pub(super) const FALSE: u8 = 2;
    pub(super) const I8: u8 = 3;
    pub(super) const I16: u8 = 4;
    pub(super) const I32: u8 = 5;
    pub(super) const I64: u8 = 6;
    pub(super) const DOUBLE: u8 = 7;
    pub(super) const BINARY: u8 = 8;
    pub(super) const LIST: u8 = 9;
    pub(super) const SET: u8 = 10;
    pub(super) const MAP: u8 = 11;
    pub(super) const STRUCT: u8 = 12;
    pub(super) const UUID: u8 = 13;
}

/// Field of `FileMetaData`: the elements of the schema, parents before their children.
const SCHEMA: i64 = 2;
/// Field of `SchemaElement`: how many of the elements after it are its children.
const CHILDREN: i64 = 5;

/// What is left to read. All readers give `None` where the bytes end or make no sense.
struct Compact<'a>(&'a [u8]);

impl Compact<'_> {
    /// The depth of the schema in a `FileMetaData`: 1 for plain columns.
    fn schema_depth(&mut self) -> Option<usize> {
        let mut depth = 0_usize;
        let mut field = 0_i64;
        while let Some(of) = self.field(&mut field)? {
            match (field, of) {
                (SCHEMA, kind::LIST) => depth = depth.max(self.elements()?),
                _ => self.skip(of, STRUCTURES)?,
            }
        }
        Some(depth)
    }

    /// The depth of a list of `SchemaElement`.
    fn elements(&mut self) -> Option<usize> {
        let (count, of) = self.list()?;
        if of != kind::STRUCT && count > 0 {
            return None;
        }
        let mut deepest = 0_usize;
        // Children that are still to come, for each element that we are below of.
        let mut missing: Vec<u64> = Vec::new();
        for _ in 0..count {
            while missing.last() == Some(&0) {
                missing.pop();
            }
            if let Some(siblings) = missing.last_mut() {
                *siblings = siblings.saturating_sub(1);
            }
            deepest = deepest.max(missing.len());
            let children = self.children()?;
            if children > 0 {
                missing.push(children);
            }
        }
        Some(deepest)
    }

    /// Reads a `SchemaElement`.
    fn children(&mut self) -> Option<u64> {
        let mut children = 0_u64;
        let mut field = 0_i64;
        while let Some(of) = self.field(&mut field)? {
            match (field, of) {
                (CHILDREN, kind::I32) => children = u64::try_from(self.number()?).ok()?,
                _ => self.skip(of, STRUCTURES)?,
            }
        }
        Some(children)
    }

    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn bytes(&mut self, count: u64) -> Option<()> {
        self.0 = self.0.get(usize::try_from(count).ok()?..)?;
        Some(())
    }

    fn unsigned(&mut self) -> Option<u64> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f).wrapping_shl(shift);
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    /// Signed numbers alternate: 0, -1, 1, -2.
    fn number(&mut self) -> Option<i64> {
        let number = self.unsigned()?;
        let half = (number >> 1).cast_signed();
        Some(if number & 1 == 0 { half } else { !half })
    }

    /// The type of a structure's next field, whose number becomes `field`. No type at the end.
    fn field(&mut self, field: &mut i64) -> Option<Option<u8>> {
        let header = self.byte()?;
        let of = header & 0x0f;
        if of == kind::STOP {
            return Some(None);
        }
        *field = match header >> 4 {
            0 => self.number()?,
            step => field.checked_add(i64::from(step))?,
        };
        Some(Some(of))
    }

    /// The number of a list's elements, and their type.
    fn list(&mut self) -> Option<(u64, u8)> {
        let header = self.byte()?;
        let count = match header >> 4 {
            15 => self.unsigned()?,
            few => u64::from(few),
        };
        Some((count, header & 0x0f))
    }

    fn skip(&mut self, of: u8, structures: usize) -> Option<()> {
        let below = structures.checked_sub(1)?;
        match of {
            // The value of a field stands in its type.
            kind::TRUE | kind::FALSE => Some(()),
            kind::I8 => self.bytes(1),
            kind::I16 | kind::I32 | kind::I64 => self.unsigned().map(drop),
            kind::DOUBLE => self.bytes(8),
            kind::BINARY => {
                let length = self.unsigned()?;
                self.bytes(length)
            }
            kind::LIST | kind::SET => {
                let (count, of) = self.list()?;
                (0..count).try_for_each(|_| self.skip_element(of, below))
            }
            kind::MAP => {
                let count = self.unsigned()?;
                if count == 0 {
                    return Some(());
                }
                let kinds = self.byte()?;
                (0..count).try_for_each(|_| {
                    self.skip_element(kinds >> 4, below)?;
                    self.skip_element(kinds & 0x0f, below)
                })
            }
            kind::STRUCT => {
                let mut field = 0_i64;
                while let Some(of) = self.field(&mut field)? {
                    self.skip(of, below)?;
                }
                Some(())
            }
            kind::UUID => self.bytes(16),
            _ => None,
        }
    }

    /// Elements of lists and maps have a byte each, also where they are true or false.
    fn skip_element(&mut self, of: u8, structures: usize) -> Option<()> {
        match of {
            kind::TRUE | kind::FALSE => self.bytes(1),
            of => self.skip(of, structures),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parquet::basic::{Repetition, Type as Physical};
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::types::Type;

    use super::*;

    /// A file without rows, whose column `x` lies in groups within each other.
    fn nested(groups: usize) -> File {
        let number = |name: &str| {
            let column = Type::primitive_type_builder(name, Physical::INT64)
                .with_repetition(Repetition::OPTIONAL);
            Arc::new(column.build().unwrap())
        };
        let group = |fields| {
            let group = Type::group_type_builder("x")
                .with_repetition(Repetition::OPTIONAL)
                .with_fields(fields);
            Arc::new(group.build().unwrap())
        };
        let column = (0..groups).fold(number("x"), |inner, _| group(vec![inner]));
        let schema = group(vec![column, number("z")]);
        let file = tempfile::tempfile().unwrap();
        let properties = Arc::new(WriterProperties::builder().build());
        let writer = SerializedFileWriter::new(file.try_clone().unwrap(), schema, properties);
        writer.unwrap().close().unwrap();
        file
    }

    #[test]
    fn the_depth_of_a_schema_is_counted() {
        for groups in [0, 1, 5] {
            let footer = footer(&mut nested(groups)).unwrap().unwrap();
            assert_eq!(Compact(&footer).schema_depth(), Some(groups + 1));
        }
    }

    #[test]
    fn schemas_that_nest_too_deep_are_refused() {
        let name = Path::new("x.parquet");
        assert!(check_depth(name, &mut nested(LEVELS - 1)).is_ok());
        let error = check_depth(name, &mut nested(LEVELS)).unwrap_err();
        assert!(error.to_string().contains("129 levels"), "{error}");
    }

    #[test]
    fn a_footer_cut_anywhere_is_malformed() {
        let footer = footer(&mut nested(3)).unwrap().unwrap();
        for length in 0..footer.len() {
            assert_eq!(Compact(&footer[..length]).schema_depth(), None, "{length}");
        }
    }

    #[test]
    fn structures_within_each_other_are_bounded() {
        // Field 9, a structure, whose field 1 is a structure, and so on.
        let mut bytes = vec![0x9c];
        bytes.extend([0x1c; 100_000]);
        assert_eq!(Compact(&bytes).schema_depth(), None);
    }
}
