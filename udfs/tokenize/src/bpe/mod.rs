//! Byte-pair encoding over bytes.

mod alphabet;
mod merges;
mod split;
mod vocabulary;

use std::collections::HashMap;

use merges::{Merges, Scratch};
use serde_json::Value;
pub use split::Split;
use wasmill_guest::{InitArgs, ListRef, log, udf};

use crate::{Count, NULL_TOKEN, Tokens};

/// A vocabulary for byte-pair encoding, in one of two usual forms.
///
/// **`vocab` and `merges`** are those of GPT-2 and of the `tokenizer.json` of Hugging Face, for
/// tokenizers that are byte-level throughout (no normalizer; the pre-tokenizer is `ByteLevel`):
///
/// ```console
/// $ jq '{vocab: .model.vocab, merges: .model.merges,
///        special_tokens: (.added_tokens | map({(.content): .id}) | add // {})}' tokenizer.json > init.json
/// $ jq -n --slurpfile vocab vocab.json --rawfile merges merges.txt \
///     '{vocab: $vocab[0], merges: ($merges | split("\n"))}' > init.json
/// ```
///
/// **`ranks`** is the text of a file of tiktoken:
///
/// ```console
/// $ jq -n --rawfile ranks cl100k_base.tiktoken '{ranks: $ranks, split: "cl100k"}' > init.json
/// ```
///
/// Either is then passed as `--init @init.json`.
#[derive(InitArgs)]
pub struct BpeArgs {
    /// The number of each piece, whose bytes are written in the alphabet of GPT-2. It must have all 256
    /// bytes. From Hugging Face: `jq '{vocab: .model.vocab, merges: .model.merges}' tokenizer.json`.
    pub vocab: Option<HashMap<String, i32>>,
    /// The pairs of pieces that are joined, the most important first: texts with a space between the
    /// two, or lists of two. Empty texts and a first line that begins with `#version` are skipped.
    pub merges: Option<Vec<Value>>,
    /// Lines with the bytes of a piece in Base64, a space and the number of the piece, which is also
    /// its rank. From tiktoken: `jq -n --rawfile ranks FILE '{ranks: $ranks}'`.
    pub ranks: Option<String>,
    /// How texts are cut into words before bytes are joined within them; `gpt2` when left out.
    pub split: Option<Split>,
    /// Texts that stand for tokens of their own. They are decoded; in texts that are encoded they are
    /// text like any other.
    pub special_tokens: Option<HashMap<String, i32>>,
    /// Whether a space is put before a text that begins without one.
    #[init(default = false)]
    pub add_prefix_space: bool,
}

/// A loaded vocabulary.
pub struct Bpe {
    merges: Merges,
    pieces: HashMap<i32, Box<[u8]>>,
    split: Split,
    add_prefix_space: bool,
}

#[udf]
impl Bpe {
    /// Loads the vocabulary and logs its size.
    ///
    /// # Errors
    /// When the vocabulary is missing, is not of the forms described, or lacks a byte or a piece that
    /// is joined.
    pub fn init(args: BpeArgs) -> Result<Self, String> {
        let special = args.special_tokens.unwrap_or_default();
        let (mut pieces, merges) = match (args.vocab, args.merges, args.ranks) {
            (Some(vocab), Some(merges), None) => {
                vocabulary::from_merges(&vocab, &merges, &special)?
            }
            (None, None, Some(ranks)) => vocabulary::from_ranks(&ranks)?,
            _ => {
                return Err(
                    "give either `vocab` and `merges` (as in a tokenizer.json), or `ranks` (a file of \
                     tiktoken)"
                        .to_owned(),
                );
            }
        };
        for (text, token) in special {
            pieces.insert(token, text.into_bytes().into());
        }
        log::info!("byte-pair encoding: {} pieces loaded", pieces.len());
        Ok(Self {
            merges,
            pieces,
            split: args.split.unwrap_or(Split::Gpt2),
            add_prefix_space: args.add_prefix_space,
        })
    }

    /// The numbers of the pieces of a text.
    pub fn bpe_encode(&self, text: &str) -> Vec<i32> {
        let mut tokens = Vec::with_capacity(text.len() / 3);
        self.tokenize(text, &mut tokens);
        tokens
    }

    /// The text of numbers. Bytes that are no UTF-8 become U+FFFD.
    ///
    /// # Errors
    /// The row fails when a number is not in the vocabulary.
    pub fn bpe_decode(&self, tokens: ListRef<'_, i32>) -> Result<String, String> {
        self.join(tokens.iter().map(|token| Some(i64::from(token))))
    }

    /// The text of numbers, from lists that may hold nulls. Bytes that are no UTF-8 become U+FFFD.
    ///
    /// # Errors
    /// The row fails when a number is not in the vocabulary, or an item is null.
    #[udf(name = "bpe_decode")]
    pub fn bpe_decode_nullable(&self, tokens: ListRef<'_, Option<i32>>) -> Result<String, String> {
        self.join(tokens.iter().map(|token| token.map(i64::from)))
    }

    /// `bpe_decode` of the whole numbers that JSON has.
    ///
    /// # Errors
    /// The row fails when a number is not in the vocabulary, or an item is null.
    #[udf(name = "bpe_decode")]
    pub fn bpe_decode_long(&self, tokens: ListRef<'_, Option<i64>>) -> Result<String, String> {
        self.join(tokens.iter())
    }

    /// How many pieces a text has.
    pub fn bpe_count_tokens(&self, text: &str) -> i32 {
        let mut count = Count(0);
        self.tokenize(text, &mut count);
        count.0 as i32
    }
}

impl Bpe {
    fn join(&self, tokens: impl Iterator<Item = Option<i64>>) -> Result<String, String> {
        let mut bytes = Vec::new();
        for token in tokens {
            let token = token.ok_or(NULL_TOKEN)?;
            let piece = i32::try_from(token)
                .ok()
                .and_then(|token| self.pieces.get(&token));
            bytes.extend_from_slice(
                piece.ok_or_else(|| format!("there is no piece {token} in the vocabulary"))?,
            );
        }
        Ok(String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
    }

    fn tokenize(&self, text: &str, tokens: &mut impl Tokens) {
        let spaced = (self.add_prefix_space && !text.is_empty() && !text.starts_with(' '))
            .then(|| format!(" {text}"));
        let text = spaced.as_deref().unwrap_or(text);
        let mut scratch = Scratch::default();
        for word in self.split.words(text) {
            self.merges.tokenize(word.as_bytes(), &mut scratch, tokens);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use wasmill_guest::testing::{Instance, column, handle};

    /// Init arguments, texts, and what the library that made the vocabulary encodes them to; written by
    /// `tests/make_fixtures.py`.
    fn check(fixture: &str) {
        let fixture: Value = serde_json::from_str(fixture).expect("JSON");
        let (instance, state) = (Instance::new(), handle!(Bpe));
        let bpe = instance
            .init(&state, &fixture["init"].to_string())
            .expect("a good vocabulary");
        let list = |value: &Value| value.as_array().expect("a list").clone();
        let texts: Vec<String> = list(&fixture["texts"])
            .iter()
            .map(|text| text.as_str().expect("a text").to_owned())
            .collect();
        let wanted: Vec<Vec<i32>> = list(&fixture["tokens"])
            .iter()
            .map(|tokens| {
                let tokens = list(tokens);
                tokens
                    .iter()
                    .map(|token| token.as_i64().expect("a number") as i32)
                    .collect()
            })
            .collect();
        let rows = texts.len();
        let call = |method: usize, argument| {
            instance
                .call_on(bpe, &state.methods[method], rows, &[argument])
                .expect("the call works")
        };
        let of_texts = || column(texts.iter().map(|text| Some(text.clone())));
        let encoded = call(0, of_texts());
        let encoded: Vec<Vec<i32>> = encoded.rows();
        for ((encoded, wanted), text) in encoded.iter().zip(&wanted).zip(&texts) {
            assert_eq!(encoded, wanted, "{text:?}");
        }
        let decoded = call(1, column(wanted.iter().map(|tokens| Some(tokens.clone()))));
        assert_eq!(decoded.rows::<&str>(), texts);
        let lengths: Vec<i32> = wanted.iter().map(|tokens| tokens.len() as i32).collect();
        assert_eq!(call(4, of_texts()).rows::<i32>(), lengths);
    }

    #[test]
    fn tokens_are_those_of_tokenizers() {
        check(include_str!("../../tests/tokenizers.json"));
    }

    #[test]
    fn tokens_are_those_of_tiktoken() {
        check(include_str!("../../tests/tiktoken_gpt2.json"));
        check(include_str!("../../tests/tiktoken_cl100k.json"));
    }

    fn vocab() -> HashMap<String, i32> {
        (0..=255)
            .map(|byte| (alphabet::character_of(byte).to_string(), i32::from(byte)))
            .collect()
    }

    fn args(pieces: &[&str], merges: &[&str]) -> BpeArgs {
        let mut vocab = vocab();
        vocab.extend(
            (256..)
                .zip(pieces)
                .map(|(token, piece)| ((*piece).to_owned(), token)),
        );
        BpeArgs {
            vocab: Some(vocab),
            merges: Some(merges.iter().map(|merge| json!(merge)).collect()),
            ranks: None,
            split: None,
            special_tokens: None,
            add_prefix_space: false,
        }
    }

    fn bpe(args: BpeArgs) -> Bpe {
        Bpe::init(args).expect("a good vocabulary")
    }

    #[test]
    fn the_most_important_pair_is_joined_first_and_the_leftmost_of_equal_ones() {
        let bpe = bpe(args(&["bc", "ab", "aa"], &["b c", "a b", "a a"]));
        assert_eq!(bpe.bpe_encode("abc"), [i32::from(b'a'), 256]);
        assert_eq!(bpe.bpe_encode("abb"), [257, i32::from(b'b')]);
        assert_eq!(bpe.bpe_encode("aaa"), [258, i32::from(b'a')]);
        assert!(bpe.bpe_encode("").is_empty());
        assert_eq!(bpe.bpe_count_tokens("abc abc"), 5);
    }

    #[test]
    fn a_prefix_space_is_added_once() {
        let mut args = args(&["Ġa"], &["Ġ a"]);
        args.add_prefix_space = true;
        let bpe = bpe(args);
        assert_eq!(bpe.bpe_encode("a"), [256]);
        assert_eq!(bpe.bpe_encode(" a"), [256]);
        assert!(bpe.bpe_encode("").is_empty());
    }

    #[test]
    fn special_tokens_are_decoded_and_not_encoded() {
        let mut args = args(&[], &[]);
        args.special_tokens = Some([("<|end|>".to_owned(), 1000)].into());
        let (instance, state) = (Instance::new(), handle!(Bpe));
        let init = json!({"vocab": vocab(), "merges": [], "special_tokens": {"<|end|>": 1000}});
        let handle = instance
            .init(&state, &init.to_string())
            .expect("a vocabulary");
        let tokens = column([
            Some(vec![i32::from(b'a'), 1000]),
            Some(vec![0xc3]),
            Some(vec![999]),
        ]);
        let answer = instance
            .call_on(handle, &state.methods[1], 3, &[tokens])
            .expect("the call works");
        assert_eq!(answer.rows::<&str>()[..2], ["a<|end|>", "\u{fffd}"]);
        assert_eq!(answer.errors()[0].row, 2);
        assert_eq!(bpe(args).bpe_count_tokens("<|end|>"), 7);
    }

    #[test]
    fn a_word_of_a_hundred_thousand_bytes_takes_no_quadratic_time() {
        let pieces = ["aa", "aaaa", "aaaaaaaa"];
        let bpe = bpe(args(&pieces, &["a a", "aa aa", "aaaa aaaa"]));
        assert_eq!(bpe.bpe_count_tokens(&"a".repeat(1 << 17)), 1 << 14);
        assert_eq!(bpe.bpe_count_tokens(&" ".repeat(1 << 17)), 1 << 17);
    }

    #[test]
    fn one_form_of_vocabulary_is_needed() {
        let without = BpeArgs {
            merges: None,
            ..args(&[], &[])
        };
        let both = BpeArgs {
            ranks: Some(String::new()),
            ..args(&[], &[])
        };
        for args in [without, both] {
            let error = Bpe::init(args).err().expect("no vocabulary");
            assert!(error.contains("either"), "{error}");
        }
    }
}
