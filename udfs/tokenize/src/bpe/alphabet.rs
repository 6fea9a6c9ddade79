//! The alphabet of GPT-2, which writes each byte as one visible character: the visible ones of Latin-1
//! as themselves, the others as the characters from U+0100, in order.

/// The character of each byte.
pub(super) fn character_of(byte: u8) -> char {
    match byte {
        b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff => char::from(byte),
        0..=b' ' => moved(byte),
        0x7f..=0xa0 => moved(byte - 0x7f + 0x21),
        0xad => moved(0xad - 0x7f + 0x21 - 0xc),
    }
}

fn moved(place: u8) -> char {
    char::from_u32(0x100 + u32::from(place)).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// The bytes that a piece is written for; `None` where a character is not of the alphabet.
pub(super) fn bytes_of(piece: &str) -> Option<Vec<u8>> {
    piece.chars().map(byte_of).collect()
}

fn byte_of(character: char) -> Option<u8> {
    let byte = match u32::from(character) {
        place @ 0x100..=0x120 => place - 0x100,
        place @ 0x121..=0x142 => place - 0x121 + 0x7f,
        0x143 => 0xad,
        other => other,
    };
    let byte = u8::try_from(byte).ok()?;
    (character_of(byte) == character).then_some(byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_a_character_of_its_own() {
        // By the definition: what is not visible gets the next free character.
        let mut next = 0x100;
        for byte in 0..=255_u8 {
            let visible = matches!(byte, 33..=126 | 161..=172 | 174..=255);
            let wanted = if visible {
                char::from(byte)
            } else {
                next += 1;
                char::from_u32(next - 1).expect("a character")
            };
            assert_eq!(character_of(byte), wanted, "{byte}");
            assert_eq!(byte_of(wanted), Some(byte), "{byte}");
        }
    }

    #[test]
    fn pieces_outside_the_alphabet_have_no_bytes() {
        assert_eq!(bytes_of("Ġthe").as_deref(), Some(&b" the"[..]));
        assert_eq!(bytes_of("Ã©").as_deref(), Some("é".as_bytes()));
        assert_eq!(bytes_of("a b"), None);
        assert_eq!(bytes_of("▁the"), None);
        assert_eq!(bytes_of("\u{ad}"), None);
    }
}
