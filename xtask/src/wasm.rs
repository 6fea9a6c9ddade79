//! What the table of modules says about a module: a walk over its sections, nothing more.

const CUSTOM: u8 = 0;
const IMPORT: u8 = 2;
const MANIFEST: &[u8] = b"wasmill.manifest";

#[derive(Debug, PartialEq, Eq)]
pub struct Summary {
    /// Records in the manifest: one per UDF and overload.
    pub records: usize,
    pub imports: u32,
}

impl Summary {
    /// Reads a core module; the error says what is wrong with it.
    pub fn of(module: &[u8]) -> Result<Summary, &'static str> {
        let mut input = Input(module);
        if input.take(4) != Some(b"\0asm") || input.take(4) != Some(&[1, 0, 0, 0]) {
            return Err("not a core WebAssembly module");
        }
        // Sections of one name are one stream: a record may begin in one and end in the next.
        let mut manifest = Vec::new();
        let mut imports = 0;
        while !input.0.is_empty() {
            let (id, mut section) = input.section().ok_or("a section is cut short")?;
            match id {
                CUSTOM => {
                    let name = section.name().ok_or("a custom section is cut short")?;
                    if name == MANIFEST {
                        manifest.extend_from_slice(section.0);
                    }
                }
                IMPORT => imports = section.u32().ok_or("the import section is cut short")?,
                _ => {}
            }
        }
        let records = manifest.split(|&byte| byte == b'\n');
        let records = records
            .filter(|record| !record.trim_ascii().is_empty())
            .count();
        Ok(Summary { records, imports })
    }
}

/// The bytes that have not been read yet.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(len)?;
        self.0 = tail;
        Some(head)
    }

    fn section(&mut self) -> Option<(u8, Input<'a>)> {
        let id = *self.take(1)?.first()?;
        let len = self.u32()?;
        Some((id, Input(self.take(len as usize)?)))
    }

    fn name(&mut self) -> Option<&'a [u8]> {
        let len = self.u32()?;
        self.take(len as usize)
    }

    /// An unsigned LEB128 number.
    fn u32(&mut self) -> Option<u32> {
        let mut value: u64 = 0;
        for shift in [0, 7, 14, 21, 28] {
            let byte = *self.take(1)?.first()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return u32::try_from(value).ok();
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(sections: &[(u8, &[u8])]) -> Vec<u8> {
        let mut bytes = b"\0asm\x01\0\0\0".to_vec();
        for (id, body) in sections {
            bytes.push(*id);
            // Two bytes of LEB128, so that lengths above 127 work.
            let len = u8::try_from(body.len() & 0x7f).unwrap();
            bytes.extend([len | 0x80, u8::try_from(body.len() >> 7).unwrap()]);
            bytes.extend_from_slice(body);
        }
        bytes
    }

    fn custom(name: &str, body: &str) -> Vec<u8> {
        let mut section = vec![u8::try_from(name.len()).unwrap()];
        section.extend_from_slice(name.as_bytes());
        section.extend_from_slice(body.as_bytes());
        section
    }

    #[test]
    fn records_and_imports_are_counted() {
        let manifest = custom("wasmill.manifest", "{\"name\":\"a\"}\n\n{\"name\":\"b\"}\n");
        let other = custom("name", "{}\n{}\n");
        let bytes = module(&[(1, &[0]), (2, &[3, 0, 0]), (0, &other), (0, &manifest)]);
        assert_eq!(
            Summary::of(&bytes),
            Ok(Summary {
                records: 2,
                imports: 3
            })
        );
    }

    #[test]
    fn sections_of_one_name_are_one_stream() {
        let first = custom("wasmill.manifest", "{\"na");
        let second = custom("wasmill.manifest", "me\":\"a\"}\n{}\n");
        let bytes = module(&[(0, &first), (0, &second)]);
        assert_eq!(
            Summary::of(&bytes),
            Ok(Summary {
                records: 2,
                imports: 0
            })
        );
    }

    #[test]
    fn a_module_without_manifest_has_no_records() {
        assert_eq!(
            Summary::of(&module(&[])),
            Ok(Summary {
                records: 0,
                imports: 0
            })
        );
    }

    #[test]
    fn every_cut_of_a_module_is_read_or_refused() {
        let manifest = custom("wasmill.manifest", "{}\n");
        let bytes = module(&[(2, &[1, 0, 0]), (0, &manifest)]);
        for end in 0..bytes.len() {
            // The two places where a shorter module is whole as well.
            let whole = end == 8 || end == 8 + 3 + 3;
            assert_eq!(Summary::of(&bytes[..end]).is_ok(), whole, "cut at {end}");
        }
    }

    #[test]
    fn other_files_are_refused() {
        assert!(Summary::of(b"").is_err());
        assert!(
            Summary::of(b"\0asm\x0d\0\x01\0").is_err(),
            "a component is not a module"
        );
        assert!(Summary::of(b"\0asm\x01\0\0\0\0\xff\xff\xff\xff\xff\x0f").is_err());
        assert!(
            Summary::of(b"\0asm\x01\0\0\0\0\xff\xff\xff\xff\x1f").is_err(),
            "above 32 bits"
        );
    }
}
