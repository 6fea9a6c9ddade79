//! Writing JSON during constant evaluation: manifests are finished when the guest is compiled.

/// Text that is written twice: into nothing, to learn its length, and into its place.
pub(crate) struct Writer<'b> {
    out: &'b mut [u8],
    len: usize,
}

impl<'b> Writer<'b> {
    pub(crate) const fn new(out: &'b mut [u8]) -> Self {
        Self { out, len: 0 }
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    const fn byte(&mut self, byte: u8) {
        if self.len < self.out.len() {
            self.out[self.len] = byte;
        }
        self.len += 1;
    }

    /// Text that is JSON already.
    pub(crate) const fn raw(&mut self, text: &str) {
        let bytes = text.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            self.byte(bytes[at]);
            at += 1;
        }
    }

    /// The inside of a JSON string.
    pub(crate) const fn escaped(&mut self, text: &str) {
        let bytes = text.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            match bytes[at] {
                b'"' => self.raw("\\\""),
                b'\\' => self.raw("\\\\"),
                b'\n' => self.raw("\\n"),
                control @ 0..0x20 => {
                    self.raw("\\u00");
                    self.byte(HEX[(control >> 4) as usize]);
                    self.byte(HEX[(control & 15) as usize]);
                }
                byte => self.byte(byte),
            }
            at += 1;
        }
    }

    pub(crate) const fn string(&mut self, text: &str) {
        self.raw("\"");
        self.escaped(text);
        self.raw("\"");
    }

    pub(crate) const fn number(&mut self, number: i128) {
        if number < 0 {
            self.raw("-");
        }
        self.digits(number.unsigned_abs());
    }

    const fn digits(&mut self, number: u128) {
        if number >= 10 {
            self.digits(number / 10);
        }
        self.byte(b'0' + (number % 10) as u8);
    }

    pub(crate) const fn boolean(&mut self, value: bool) {
        self.raw(if value { "true" } else { "false" });
    }

    /// `,"key":`
    pub(crate) const fn key(&mut self, key: &str) {
        self.raw(",");
        self.string(key);
        self.raw(":");
    }
}

const HEX: &[u8; 16] = b"0123456789abcdef";

#[cfg(test)]
mod tests {
    use super::*;

    fn write(into: impl Fn(&mut Writer<'_>)) -> String {
        let mut counting = Writer::new(&mut []);
        into(&mut counting);
        let mut bytes = vec![0; counting.len()];
        into(&mut Writer::new(&mut bytes));
        String::from_utf8(bytes).expect("JSON is UTF-8")
    }

    #[test]
    fn strings_are_escaped() {
        let text = "say \"hé\\llo\"\n\t\u{1}";
        let json = write(|writer| writer.string(text));
        assert_eq!(
            serde_json::from_str::<String>(&json).ok().as_deref(),
            Some(text)
        );
    }

    #[test]
    fn numbers_have_their_digits_and_sign() {
        for number in [0, 7, 10, -10, i128::MAX, i128::MIN] {
            assert_eq!(write(|writer| writer.number(number)), number.to_string());
        }
    }
}
