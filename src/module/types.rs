//! Arrow types as manifests and `bind` write them: format strings of the C Data Interface with
//! children. Parsing one format string is arrow's; everything around it is checked here first.

use std::collections::BTreeMap;

use arrow::datatypes::{
    DECIMAL32_MAX_PRECISION, DECIMAL64_MAX_PRECISION, DECIMAL128_MAX_PRECISION,
    DECIMAL256_MAX_PRECISION, DataType, Field,
};
use arrow_schema::ffi::{FFI_ArrowSchema, Flags};
use serde::{Deserialize, Serialize};

/// How deep a type may nest.
pub(crate) const MAX_DEPTH: usize = 64;
/// How many fields a type may have altogether.
pub(crate) const MAX_FIELDS: usize = 4_096;
/// Bytes of a name or a format string.
pub(crate) const MAX_TEXT: usize = 4_096;

/// A type as `ArrowSchema` holds it, in a form that JSON and guest memory both fill in.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct TypeRecord {
    #[serde(default)]
    pub name: String,
    pub format: String,
    #[serde(default = "yes")]
    pub nullable: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<TypeRecord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dictionary: Option<Box<TypeRecord>>,
    #[serde(default, skip_serializing_if = "is_false")]
    pub dictionary_ordered: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    pub keys_sorted: bool,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
}

fn yes() -> bool {
    true
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature that serde asks for"
)]
fn is_false(b: &bool) -> bool {
    !*b
}

impl TypeRecord {
    /// The Arrow field, or why there is none.
    pub(crate) fn to_field(&self) -> Result<Field, String> {
        let mut fields = 0;
        let schema = self.to_ffi(0, &mut fields)?;
        let field = Field::try_from(&schema).map_err(|e| e.to_string())?;
        check_type(field.data_type())?;
        Ok(field)
    }

    /// The record of a field: what inspection prints and `bind` is given.
    pub(crate) fn from_field(field: &Field) -> Result<Self, String> {
        let schema = FFI_ArrowSchema::try_from(field).map_err(|e| e.to_string())?;
        let mut record = Self::from_ffi(&schema)?;
        record.metadata = field
            .metadata()
            .iter()
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        Ok(record)
    }

    fn from_ffi(schema: &FFI_ArrowSchema) -> Result<Self, String> {
        Ok(TypeRecord {
            name: schema.name().unwrap_or_default().to_owned(),
            format: schema.format().to_owned(),
            nullable: schema.nullable(),
            children: schema
                .children()
                .map(Self::from_ffi)
                .collect::<Result<_, _>>()?,
            dictionary: schema
                .dictionary()
                .map(Self::from_ffi)
                .transpose()?
                .map(Box::new),
            dictionary_ordered: schema.dictionary_ordered(),
            keys_sorted: schema.map_keys_sorted(),
            metadata: schema
                .metadata()
                .map_err(|e| e.to_string())?
                .into_iter()
                .collect(),
        })
    }

    fn to_ffi(&self, depth: usize, fields: &mut usize) -> Result<FFI_ArrowSchema, String> {
        *fields = fields.saturating_add(1);
        if depth >= MAX_DEPTH {
            return Err(format!("types nest deeper than {MAX_DEPTH}"));
        }
        if *fields > MAX_FIELDS {
            return Err(format!("the type has more than {MAX_FIELDS} fields"));
        }
        for text in [&self.name, &self.format] {
            if text.len() > MAX_TEXT || text.contains('\0') {
                return Err(format!(
                    "a name or format is longer than {MAX_TEXT} bytes or holds NUL"
                ));
            }
        }
        // arrow's parser takes the number of children for granted.
        if let Some(expected) = children_of(&self.format)
            && expected != self.children.len()
        {
            return Err(format!(
                "format {:?} takes {expected} children, found {}",
                self.format,
                self.children.len()
            ));
        }
        let deeper = depth.saturating_add(1);
        let children = self
            .children
            .iter()
            .map(|c| c.to_ffi(deeper, fields))
            .collect::<Result<Vec<_>, _>>()?;
        let dictionary = self
            .dictionary
            .as_ref()
            .map(|d| d.to_ffi(deeper, fields))
            .transpose()?;
        let mut flags = Flags::empty();
        flags.set(Flags::NULLABLE, self.nullable);
        flags.set(Flags::DICTIONARY_ORDERED, self.dictionary_ordered);
        flags.set(Flags::MAP_KEYS_SORTED, self.keys_sorted);
        FFI_ArrowSchema::try_new(&self.format, children, dictionary)
            .and_then(|s| s.with_name(&self.name))
            .and_then(|s| s.with_flags(flags))
            .and_then(|s| s.with_metadata(self.metadata.iter()))
            .map_err(|e| e.to_string())
    }
}

/// The number of children that a format takes; `None` where any number is right.
fn children_of(format: &str) -> Option<usize> {
    match format {
        "+s" => None,
        "+l" | "+L" | "+vl" | "+vL" | "+m" => Some(1),
        "+r" => Some(2),
        f if f.starts_with("+w:") => Some(1),
        f if f.starts_with("+ud:") || f.starts_with("+us:") => None,
        _ => Some(0),
    }
}

/// Refuses types that arrow's parser lets through and its constructors then panic on, or whose
/// arrays could be made to claim any amount of host memory.
pub(crate) fn check_type(data_type: &DataType) -> Result<(), String> {
    let decimal = |precision: u8, scale: i8, max: u8| {
        if precision == 0 || precision > max {
            Err(format!("{data_type}: the precision must be 1 to {max}"))
        } else if i16::from(scale) > i16::from(precision) {
            Err(format!(
                "{data_type}: the scale is larger than the precision"
            ))
        } else {
            Ok(())
        }
    };
    match data_type {
        DataType::Decimal32(p, s) => decimal(*p, *s, DECIMAL32_MAX_PRECISION),
        DataType::Decimal64(p, s) => decimal(*p, *s, DECIMAL64_MAX_PRECISION),
        DataType::Decimal128(p, s) => decimal(*p, *s, DECIMAL128_MAX_PRECISION),
        DataType::Decimal256(p, s) => decimal(*p, *s, DECIMAL256_MAX_PRECISION),
        DataType::FixedSizeBinary(n) if *n < 0 => Err(format!("{data_type}: a negative size")),
        DataType::FixedSizeList(_, n) if *n < 0 => Err(format!("{data_type}: a negative size")),
        DataType::List(f)
        | DataType::LargeList(f)
        | DataType::ListView(f)
        | DataType::LargeListView(f)
        | DataType::FixedSizeList(f, _) => check_type(f.data_type()),
        DataType::Struct(fields) => fields.iter().try_for_each(|f| check_type(f.data_type())),
        DataType::Union(fields, _) => {
            if fields.iter().any(|(id, _)| id < 0) {
                return Err(format!("{data_type}: a negative type id"));
            }
            fields
                .iter()
                .try_for_each(|(_, f)| check_type(f.data_type()))
        }
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(pair) if pair.len() == 2 && !entries.is_nullable() => {
                check_type(entries.data_type())
            }
            _ => Err("a map's child must be a struct of key and value, without nulls".to_owned()),
        },
        DataType::Dictionary(keys, values) => {
            if !keys.is_dictionary_key_type() {
                return Err(format!("{keys} cannot be the key of a dictionary"));
            }
            check_type(values)
        }
        DataType::RunEndEncoded(ends, values) => {
            if !ends.data_type().is_run_ends_type() || ends.is_nullable() {
                return Err("run ends must be int16, int32 or int64, without nulls".to_owned());
            }
            check_type(values.data_type())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(json: &str) -> Result<Field, String> {
        serde_json::from_str::<TypeRecord>(json)
            .map_err(|e| e.to_string())?
            .to_field()
    }

    #[test]
    fn a_type_survives_the_round_trip_through_its_record() {
        let json = r#"{"name":"x","format":"+s","nullable":false,"children":[{"name":"a","format":"tsu:UTC"},{"name":"d","format":"i","dictionary":{"format":"u"}},{"name":"m","format":"+m","children":[{"name":"entries","format":"+s","nullable":false,"children":[{"name":"k","format":"u","nullable":false},{"name":"v","format":"d:10,2"}]}]}],"metadata":{"k":"v"}}"#;
        let field = parse(json).expect("parses");
        let again = TypeRecord::from_field(&field)
            .expect("has a record")
            .to_field()
            .expect("parses again");
        assert_eq!(field, again);
    }

    #[test]
    fn malformed_types_are_refused_and_never_panic() {
        for json in [
            r#"{"format":"+l"}"#,
            r#"{"format":"+m","children":[{"format":"i"}]}"#,
            r#"{"format":"+r","children":[{"format":"i"},{"format":"i"}]}"#,
            r#"{"format":"+ud:0,1","children":[{"format":"i"}]}"#,
            r#"{"format":"+us:300","children":[{"format":"i"}]}"#,
            r#"{"format":"+us:-1","children":[{"format":"i"}]}"#,
            r#"{"format":"+w:-1","children":[{"format":"i"}]}"#,
            r#"{"format":"w:-5"}"#,
            r#"{"format":"d:99,2"}"#,
            r#"{"format":"d:0,0"}"#,
            r#"{"format":"u","dictionary":{"format":"u"}}"#,
            r#"{"format":"l","children":[{"format":"i"}]}"#,
            r#"{"format":"l ","name":"a"}"#,
            r#"{"format":"\u0000"}"#,
            r#"{"format":""}"#,
        ] {
            assert!(parse(json).is_err(), "{json} was accepted");
        }
        let mut deep = TypeRecord {
            format: "l".into(),
            ..TypeRecord::default()
        };
        for _ in 0..MAX_DEPTH {
            deep = TypeRecord {
                format: "+l".into(),
                children: vec![deep],
                ..TypeRecord::default()
            };
        }
        assert!(deep.to_field().is_err());
    }
}
