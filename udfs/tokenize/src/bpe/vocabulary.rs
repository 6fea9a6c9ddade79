//! Reading vocabularies in their usual forms.

use std::collections::HashMap;

use serde_json::Value;

use super::alphabet::{bytes_of, character_of};
use super::merges::Merges;

type Pieces = HashMap<i32, Box<[u8]>>;

/// From the numbers of the pieces and the pairs that are joined. Special tokens may be among the pieces.
pub(super) fn from_merges(
    vocab: &HashMap<String, i32>,
    merges: &[Value],
    special: &HashMap<String, i32>,
) -> Result<(Pieces, Merges), String> {
    let mut pieces = Pieces::with_capacity(vocab.len());
    for (piece, token) in vocab {
        let bytes = match bytes_of(piece) {
            Some(bytes) => bytes,
            None if special.contains_key(piece) => continue,
            None => {
                return Err(format!(
                    "the piece \"{piece}\" is not written in the alphabet of byte-level tokenizers; \
                     if it is a special token, put it into `special_tokens`"
                ));
            }
        };
        add_piece(&mut pieces, *token, bytes)?;
    }
    let mut bytes = [0; 256];
    for (byte, token) in (0..=255).zip(&mut bytes) {
        let character = character_of(byte);
        *token = *vocab.get(character.encode_utf8(&mut [0; 4])).ok_or_else(|| {
            format!(
                "the vocabulary has no piece \"{character}\" for the byte {byte:#04x}: all 256 bytes \
                 are needed (train with `initial_alphabet=ByteLevel.alphabet()`)"
            )
        })?;
    }
    let mut table = Merges::new(bytes);
    let mut rank = 0;
    for (number, merge) in merges.iter().enumerate() {
        let Some((left, right)) = pair(merge, number)? else {
            continue;
        };
        let token = |piece: &str| {
            vocab.get(piece).copied().ok_or_else(|| {
                format!("merge {number} ({left} {right}) needs the piece \"{piece}\", which the vocabulary lacks")
            })
        };
        let joined = format!("{left}{right}");
        if !table.add(token(left)?, token(right)?, rank, token(&joined)?) {
            return Err(format!("merge {number} ({left} {right}) is there twice"));
        }
        rank += 1;
    }
    Ok((pieces, table))
}

/// The two pieces of a merge; `None` for lines that are none.
fn pair(merge: &Value, number: usize) -> Result<Option<(&str, &str)>, String> {
    let pair = match merge {
        Value::String(line) => {
            let line = line.trim_end_matches('\r');
            if line.is_empty() || number == 0 && line.starts_with("#version") {
                return Ok(None);
            }
            line.split_once(' ')
        }
        Value::Array(pair) => match pair.as_slice() {
            [Value::String(left), Value::String(right)] => Some((left.as_str(), right.as_str())),
            _ => None,
        },
        _ => None,
    };
    match pair {
        Some(pair) => Ok(Some(pair)),
        None => Err(format!(
            "merge {number} is {merge}, and should be two pieces: \"a b\" or [\"a\", \"b\"]"
        )),
    }
}

fn add_piece(pieces: &mut Pieces, token: i32, bytes: Vec<u8>) -> Result<(), String> {
    if token < 0 {
        return Err(format!(
            "a piece has the number {token}: numbers are not negative"
        ));
    }
    match pieces.insert(token, bytes.into()) {
        None => Ok(()),
        Some(_) => Err(format!(
            "two pieces of the vocabulary have the number {token}"
        )),
    }
}

/// From lines of Base64 and ranks. Any two pieces are joined that make a third.
pub(super) fn from_ranks(ranks: &str) -> Result<(Pieces, Merges), String> {
    let mut pieces = Pieces::new();
    let mut tokens: HashMap<Box<[u8]>, i32> = HashMap::new();
    for (number, line) in ranks.lines().enumerate() {
        if line.is_empty() {
            continue;
        }
        let fields = line.split_once(' ');
        let parsed = fields.and_then(|(text, rank)| Some((base64(text)?, rank.parse().ok()?)));
        let Some((bytes, token)) = parsed else {
            return Err(format!(
                "line {} of `ranks` is not Base64, a space and a number",
                number + 1
            ));
        };
        if tokens.insert(bytes.as_slice().into(), token).is_some() {
            return Err(format!(
                "the piece of line {} of `ranks` is there twice",
                number + 1
            ));
        }
        add_piece(&mut pieces, token, bytes)?;
    }
    let mut bytes = [0; 256];
    for (byte, token) in (0..=255_u8).zip(&mut bytes) {
        *token = *tokens.get(&[byte][..]).ok_or_else(|| {
            format!("`ranks` has no piece for the byte {byte:#04x}: all 256 bytes are needed")
        })?;
    }
    let mut merges = Merges::new(bytes);
    for (piece, token) in &tokens {
        for middle in 1..piece.len() {
            let (left, right) = piece.split_at(middle);
            if let (Some(left), Some(right)) = (tokens.get(left), tokens.get(right)) {
                merges.add(*left, *right, *token as u32, *token);
            }
        }
    }
    merges.set_whole(tokens);
    Ok((pieces, merges))
}

/// Bytes of a text in Base64, which may lack the padding; nothing is nothing.
fn base64(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut count) = (0_u32, 0);
    for digit in text.trim_end_matches('=').bytes() {
        let digit = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(digit);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    (!bytes.is_empty()).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn bytes_only() -> HashMap<String, i32> {
        (0..=255)
            .map(|byte| (character_of(byte).to_string(), i32::from(byte)))
            .collect()
    }

    fn error(added: &[(&str, i32)], merges: &[Value]) -> String {
        let mut vocab = bytes_only();
        vocab.extend(
            added
                .iter()
                .map(|(piece, token)| ((*piece).to_owned(), *token)),
        );
        from_merges(&vocab, merges, &HashMap::new())
            .err()
            .expect("a bad vocabulary")
    }

    #[test]
    fn vocabularies_that_do_not_fit_are_refused_with_a_reason() {
        let mut vocab = bytes_only();
        vocab.remove("Ġ");
        let said = from_merges(&vocab, &[], &HashMap::new())
            .err()
            .expect("a byte is missing");
        assert!(
            said.contains("0x20") && said.contains("initial_alphabet"),
            "{said}"
        );
        let said = error(&[("▁a", 300)], &[]);
        assert!(said.contains("special_tokens"), "{said}");
        let said = error(&[("ab", 7)], &[]);
        assert!(said.contains("number 7"), "{said}");
        let said = error(&[("ab", -1)], &[]);
        assert!(said.contains("negative"), "{said}");
        let said = error(&[], &[json!("a b")]);
        assert!(
            said.contains("merge 0 (a b)") && said.contains("\"ab\""),
            "{said}"
        );
        for merge in [json!("ab"), json!(["a"]), json!(7), json!(["a", 1])] {
            let said = error(&[], &[merge]);
            assert!(said.contains("should be two pieces"), "{said}");
        }
        let twice = [
            json!("#version: 0.2"),
            json!("a b"),
            json!(""),
            json!(["a", "b"]),
        ];
        let said = error(&[("ab", 300)], &twice);
        assert!(said.contains("merge 3 (a b) is there twice"), "{said}");
    }

    #[test]
    fn ranks_that_do_not_fit_are_refused_with_their_line() {
        for (ranks, said) in [
            ("QQ== 0\nQQ", "line 2"),
            ("Q?== 0", "line 1"),
            (" 0", "line 1"),
            ("QQ== x", "line 1"),
            ("QQ== 0\nQQ== 1", "line 2"),
            ("QQ== 0\nQg== 0", "number 0"),
            ("QQ== -4", "negative"),
            ("QQ== 0", "0x00"),
            ("", "0x00"),
        ] {
            let error = from_ranks(ranks).err().expect("bad ranks");
            assert!(error.contains(said), "{ranks}: {error}");
        }
    }

    #[test]
    fn base64_is_read() {
        assert_eq!(base64("IHRoZQ==").as_deref(), Some(&b" the"[..]));
        assert_eq!(base64("/+8="), Some(vec![0xff, 0xef]));
        assert_eq!(base64("====").as_deref(), None);
    }
}
