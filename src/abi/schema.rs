//! `ArrowSchema` structs: argument types into guest memory for `bind`, the result type out of it.

use arrow::datatypes::Field;

use super::frame::{SCHEMA_BYTES, STRUCT_ALIGN, bytes_at, read_i64, read_u32};
use super::write::{WriteError, Writer};
use crate::error::Violation;
use crate::module::{MAX_DEPTH, MAX_FIELDS, MAX_TEXT, TypeRecord};

const FLAG_DICTIONARY_ORDERED: u64 = 1;
const FLAG_NULLABLE: u64 = 2;
const FLAG_MAP_KEYS_SORTED: u64 = 4;

/// Writes the schemas of fields and gives the address of a table of pointers to them.
pub(crate) fn write_schemas<'a>(
    writer: &mut Writer<'_>,
    fields: impl ExactSizeIterator<Item = &'a Field>,
) -> Result<u32, WriteError> {
    let (table, address) = writer.structure(fields.len().saturating_mul(4))?;
    for (i, field) in fields.enumerate() {
        let at = write_schema(writer, &TypeRecord::from_field(field)?)?;
        writer.put_u32(table, i.saturating_mul(4), at);
    }
    Ok(address)
}

fn write_schema(writer: &mut Writer<'_>, record: &TypeRecord) -> Result<u32, WriteError> {
    let (schema, address) = writer.structure(SCHEMA_BYTES)?;
    let format = write_text(writer, &record.format)?;
    let name = write_text(writer, &record.name)?;
    writer.put_u32(schema, 0, format);
    writer.put_u32(schema, 4, name);
    if !record.metadata.is_empty() {
        let mut bytes = Vec::new();
        let number = |bytes: &mut Vec<u8>, n: usize| -> Result<(), WriteError> {
            bytes.extend_from_slice(&i32::try_from(n).map_err(|e| e.to_string())?.to_le_bytes());
            Ok(())
        };
        number(&mut bytes, record.metadata.len())?;
        for text in record.metadata.iter().flat_map(|(key, value)| [key, value]) {
            number(&mut bytes, text.len())?;
            bytes.extend_from_slice(text.as_bytes());
        }
        let at = writer.copy(&bytes)?;
        writer.put_u32(schema, 8, at);
    }
    let mut flags = 0;
    for (set, flag) in [
        (record.dictionary_ordered, FLAG_DICTIONARY_ORDERED),
        (record.nullable, FLAG_NULLABLE),
        (record.keys_sorted, FLAG_MAP_KEYS_SORTED),
    ] {
        flags |= if set { flag } else { 0 };
    }
    writer.put_u64(schema, 16, flags);
    writer.put_u64(schema, 24, record.children.len() as u64);
    if !record.children.is_empty() {
        let (table, at) = writer.structure(record.children.len().saturating_mul(4))?;
        for (i, child) in record.children.iter().enumerate() {
            let child = write_schema(writer, child)?;
            writer.put_u32(table, i.saturating_mul(4), child);
        }
        writer.put_u32(schema, 32, at);
    }
    if let Some(dictionary) = &record.dictionary {
        let at = write_schema(writer, dictionary)?;
        writer.put_u32(schema, 36, at);
    }
    Ok(address)
}

fn write_text(writer: &mut Writer<'_>, text: &str) -> Result<u32, WriteError> {
    let len = text.len().saturating_add(1);
    let piece = writer.reserve(len, STRUCT_ALIGN)?;
    if let Some(bytes) = writer.bytes(piece) {
        bytes.fill(0);
        if let Some(place) = bytes.get_mut(..text.len()) {
            place.copy_from_slice(text.as_bytes());
        }
    }
    writer.address(piece)
}

/// Reads the type that `bind` answered.
pub(crate) fn read_schema(memory: &[u8], pointer: u32) -> Result<Field, Violation> {
    let mut budget = Budget {
        fields: 0,
        bytes: 0,
    };
    read_record(memory, pointer, 0, &mut budget)
        .and_then(|r| r.to_field())
        .map_err(|reason| Violation::Schema { reason })
}

/// What an answer may still hold: shared strings are cheap for a guest and not for the host.
struct Budget {
    fields: usize,
    bytes: usize,
}

/// Bytes of names, formats and metadata in one answer.
const MAX_BYTES: usize = 1 << 20;
/// What a string of metadata costs beside its bytes.
const PAIR_COST: usize = 32;

impl Budget {
    fn spend(&mut self, bytes: usize) -> Result<(), String> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > MAX_BYTES {
            return Err(format!(
                "its names and metadata have more than {MAX_BYTES} bytes"
            ));
        }
        Ok(())
    }
}

fn read_record(
    memory: &[u8],
    pointer: u32,
    depth: usize,
    budget: &mut Budget,
) -> Result<TypeRecord, String> {
    budget.fields = budget.fields.saturating_add(1);
    if depth >= MAX_DEPTH || budget.fields > MAX_FIELDS {
        return Err(format!(
            "it nests deeper than {MAX_DEPTH} or has more than {MAX_FIELDS} fields"
        ));
    }
    let outside = || format!("the ArrowSchema at {pointer:#x} lies outside the memory");
    let bytes = bytes_at(memory, u64::from(pointer), SCHEMA_BYTES as u64).ok_or_else(outside)?;
    let word = |at| read_u32(bytes, at).unwrap_or(0);
    let flags = read_i64(bytes, 16).unwrap_or(0).cast_unsigned();
    let n_children = read_i64(bytes, 24).unwrap_or(-1);
    let n_children = usize::try_from(n_children)
        .ok()
        .filter(|n| *n <= MAX_FIELDS)
        .ok_or_else(|| format!("it has {n_children} children"))?;
    let mut children = Vec::new();
    for i in 0..n_children {
        let at = u64::from(word(32)).saturating_add((i as u64).saturating_mul(4));
        let child = read_u32(memory, at).ok_or_else(outside)?;
        children.push(read_record(memory, child, depth.saturating_add(1), budget)?);
    }
    let dictionary = match word(36) {
        0 => None,
        at => Some(Box::new(read_record(
            memory,
            at,
            depth.saturating_add(1),
            budget,
        )?)),
    };
    Ok(TypeRecord {
        name: if word(4) == 0 {
            String::new()
        } else {
            read_text(memory, word(4), budget)?
        },
        format: read_text(memory, word(0), budget)?,
        nullable: flags & FLAG_NULLABLE != 0,
        children,
        dictionary,
        dictionary_ordered: flags & FLAG_DICTIONARY_ORDERED != 0,
        keys_sorted: flags & FLAG_MAP_KEYS_SORTED != 0,
        metadata: read_metadata(memory, word(8), budget)?,
    })
}

/// A NUL-terminated string.
fn read_text(memory: &[u8], pointer: u32, budget: &mut Budget) -> Result<String, String> {
    let rest = usize::try_from(pointer)
        .ok()
        .and_then(|at| memory.get(at..))
        .unwrap_or_default();
    let end = rest
        .iter()
        .take(MAX_TEXT.saturating_add(1))
        .position(|b| *b == 0);
    let end = end
        .ok_or_else(|| format!("the text at {pointer:#x} does not end within {MAX_TEXT} bytes"))?;
    let bytes = rest.get(..end).unwrap_or_default();
    budget.spend(end)?;
    String::from_utf8(bytes.to_vec()).map_err(|_| format!("the text at {pointer:#x} is not UTF-8"))
}

fn read_metadata(
    memory: &[u8],
    pointer: u32,
    budget: &mut Budget,
) -> Result<std::collections::BTreeMap<String, String>, String> {
    let mut map = std::collections::BTreeMap::new();
    if pointer == 0 {
        return Ok(map);
    }
    let mut at = u64::from(pointer);
    let wrong = || format!("the metadata at {pointer:#x} is malformed");
    let number = |at: &mut u64| {
        let n = read_u32(memory, *at)
            .filter(|n| *n <= i32::MAX.unsigned_abs())
            .ok_or_else(wrong)?;
        *at = at.saturating_add(4);
        Ok::<u32, String>(n)
    };
    let pairs = number(&mut at)?;
    if pairs as usize > MAX_FIELDS {
        return Err(wrong());
    }
    for _ in 0..pairs {
        let mut text = || {
            let len = number(&mut at)?;
            budget.spend((len as usize).saturating_add(PAIR_COST))?;
            let bytes = bytes_at(memory, at, u64::from(len))
                .filter(|_| len as usize <= MAX_TEXT)
                .ok_or_else(wrong)?;
            at = at.saturating_add(u64::from(len));
            String::from_utf8(bytes.to_vec()).map_err(|_| wrong())
        };
        let (key, value) = (text()?, text()?);
        map.insert(key, value);
    }
    Ok(map)
}
