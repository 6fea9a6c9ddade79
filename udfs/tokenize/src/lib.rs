//! Tokenizers: the vocabulary is loaded once per slot, and every text is cut into its pieces.
//!
//! WordPiece (`encode`, `decode`, `count_tokens`) takes the longest pieces that the vocabulary has.
//! Byte-pair encoding (`bpe_encode`, `bpe_decode`, `bpe_count_tokens`) joins bytes step by step, as
//! GPT-2 and its descendants do.

mod bpe;
mod trie;

pub use bpe::{Bpe, BpeArgs, Split};
use trie::Trie;
use unicode_properties::{GeneralCategoryGroup, UnicodeGeneralCategory};
use wasmill_guest::{InitArgs, ListRef, log, udf};

/// Marks pieces that go on with a word, as in "##ing".
const CONTINUES: &str = "##";

/// A word of more bytes is unknown at once, so that hostile text cannot make words expensive.
const LONGEST_WORD: usize = 400;

/// The vocabulary, and how texts are prepared.
#[derive(InitArgs)]
pub struct TokenizerArgs {
    /// The pieces; a piece's number is its place in this list. Pieces that go on with a word begin
    /// with `##`.
    #[init(min_items = 1)]
    pub vocabulary: Vec<String>,
    /// The piece that stands for words that cannot be cut into known pieces. It must be in the
    /// vocabulary.
    #[init(default = "[UNK]", min_length = 1)]
    pub unknown: String,
    /// Whether texts are put into lower case first.
    #[init(default = true)]
    pub lowercase: bool,
}

/// A loaded vocabulary.
pub struct Tokenizer {
    pieces: Vec<String>,
    words: Trie,
    continuations: Trie,
    unknown: i32,
    lowercase: bool,
}

#[udf]
impl Tokenizer {
    /// Loads the vocabulary and logs its size.
    ///
    /// # Errors
    /// When the vocabulary lacks the unknown piece, or has an empty or a double one.
    pub fn init(args: TokenizerArgs) -> Result<Self, String> {
        let unknown = args
            .vocabulary
            .iter()
            .position(|piece| *piece == args.unknown);
        let Some(unknown) = unknown else {
            return Err(format!(
                "the vocabulary has no piece \"{}\": add it, or name another as `unknown`",
                args.unknown
            ));
        };
        let (mut words, mut continuations) = (Trie::new(), Trie::new());
        for (number, piece) in args.vocabulary.iter().enumerate() {
            let (trie, text) = match piece.strip_prefix(CONTINUES) {
                // "##" by itself is a word of two number signs.
                Some(rest) if !rest.is_empty() => (&mut continuations, rest),
                _ => (&mut words, piece.as_str()),
            };
            if text.is_empty() {
                return Err(format!("piece {number} of the vocabulary is empty"));
            }
            if !trie.insert(text.as_bytes(), number as i32) {
                return Err(format!(
                    "piece {number} of the vocabulary, \"{piece}\", is there twice"
                ));
            }
        }
        log::info!("tokenizer: {} pieces loaded", args.vocabulary.len());
        Ok(Self {
            pieces: args.vocabulary,
            words,
            continuations,
            unknown: unknown as i32,
            lowercase: args.lowercase,
        })
    }

    /// The numbers of the pieces of a text.
    pub fn encode(&self, text: &str) -> Vec<i32> {
        let mut tokens = Vec::with_capacity(text.len() / 4);
        self.tokenize(text, &mut tokens);
        tokens
    }

    /// The pieces of numbers, with spaces between them.
    ///
    /// # Errors
    /// The row fails when a number is not in the vocabulary.
    pub fn decode(&self, tokens: ListRef<'_, i32>) -> Result<String, String> {
        self.join(tokens.iter().map(|token| Some(i64::from(token))))
    }

    /// The pieces of numbers, with spaces between them, from lists that may hold nulls.
    ///
    /// # Errors
    /// The row fails when a number is not in the vocabulary, or an item is null.
    #[udf(name = "decode")]
    pub fn decode_nullable(&self, tokens: ListRef<'_, Option<i32>>) -> Result<String, String> {
        self.join(tokens.iter().map(|token| token.map(i64::from)))
    }

    /// `decode` of the whole numbers that JSON has.
    ///
    /// # Errors
    /// The row fails when a number is not in the vocabulary, or an item is null.
    #[udf(name = "decode")]
    pub fn decode_long(&self, tokens: ListRef<'_, Option<i64>>) -> Result<String, String> {
        self.join(tokens.iter())
    }

    /// How many pieces a text has.
    pub fn count_tokens(&self, text: &str) -> i32 {
        let mut count = Count(0);
        self.tokenize(text, &mut count);
        count.0 as i32
    }
}

/// Where tokens go. Those of a word are taken back when its end turns out to be unknown.
trait Tokens {
    fn push(&mut self, token: i32);
    fn len(&self) -> usize;
    fn truncate(&mut self, len: usize);
}

impl Tokens for Vec<i32> {
    fn push(&mut self, token: i32) {
        self.push(token);
    }

    fn len(&self) -> usize {
        self.len()
    }

    fn truncate(&mut self, len: usize) {
        self.truncate(len);
    }
}

struct Count(usize);

impl Tokens for Count {
    fn push(&mut self, _token: i32) {
        self.0 += 1;
    }

    fn len(&self) -> usize {
        self.0
    }

    fn truncate(&mut self, len: usize) {
        self.0 = len;
    }
}

/// What is wrong with a null among tokens.
const NULL_TOKEN: &str = "an item of the list is null, which is no piece";

impl Tokenizer {
    fn join(&self, tokens: impl Iterator<Item = Option<i64>>) -> Result<String, String> {
        let mut text = String::new();
        for token in tokens {
            let token = token.ok_or(NULL_TOKEN)?;
            let piece = usize::try_from(token)
                .ok()
                .and_then(|token| self.pieces.get(token));
            let Some(piece) = piece else {
                return Err(format!("there is no piece {token} in the vocabulary"));
            };
            if !text.is_empty() {
                text.push(' ');
            }
            text.push_str(piece);
        }
        Ok(text)
    }

    fn tokenize(&self, text: &str, tokens: &mut impl Tokens) {
        let lower = (self.lowercase && !is_lower_ascii(text)).then(|| text.to_lowercase());
        let text = lower.as_deref().unwrap_or(text);
        for word in words(text) {
            let start = tokens.len();
            if !self.cut(word.as_bytes(), tokens) {
                tokens.truncate(start);
                tokens.push(self.unknown);
            }
        }
    }

    /// Cuts a word into the longest known pieces; `false` when a part is unknown.
    fn cut(&self, word: &[u8], tokens: &mut impl Tokens) -> bool {
        if word.len() > LONGEST_WORD {
            return false;
        }
        let (mut trie, mut rest) = (&self.words, word);
        while !rest.is_empty() {
            let Some((token, len)) = trie.longest_prefix(rest) else {
                return false;
            };
            tokens.push(token);
            rest = &rest[len..];
            trie = &self.continuations;
        }
        true
    }
}

fn is_lower_ascii(text: &str) -> bool {
    text.bytes()
        .all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase())
}

/// The words of a text, as BERT has them: what stands between blanks, cut before and after punctuation,
/// each of which is a word by itself.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_start();
        let first = rest.chars().next()?;
        let end = if is_punctuation(first) {
            first.len_utf8()
        } else {
            let ends = |character: char| character.is_whitespace() || is_punctuation(character);
            rest.find(ends).unwrap_or(rest.len())
        };
        let (word, after) = rest.split_at(end);
        rest = after;
        Some(word)
    })
}

/// Punctuation as BERT has it: that of Unicode, and all signs of ASCII. Other signs stay in their words.
fn is_punctuation(character: char) -> bool {
    if character.is_ascii() {
        return character.is_ascii_punctuation();
    }
    character.general_category_group() == GeneralCategoryGroup::Punctuation
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(vocabulary: &[&str]) -> TokenizerArgs {
        TokenizerArgs {
            vocabulary: vocabulary.iter().map(|piece| (*piece).to_owned()).collect(),
            unknown: "[UNK]".to_owned(),
            lowercase: true,
        }
    }

    fn tokenizer() -> Tokenizer {
        let vocabulary = [
            "[UNK]", "un", "##aff", "##able", "want", "##ed", "##want", "the", "run", "##ning",
            ",", "é", "##é", "##a",
        ];
        Tokenizer::init(args(&vocabulary)).expect("a good vocabulary")
    }

    #[test]
    fn the_longest_pieces_win() {
        assert_eq!(tokenizer().encode("unaffable"), [1, 2, 3]);
        assert_eq!(tokenizer().encode("unwanted running"), [1, 6, 5, 8, 9]);
    }

    #[test]
    fn a_word_with_an_unknown_part_is_one_unknown_token() {
        assert_eq!(tokenizer().encode("unwantedX the"), [0, 7]);
        assert_eq!(tokenizer().encode("affable"), [0]);
    }

    #[test]
    fn punctuation_stands_by_itself() {
        assert_eq!(tokenizer().encode("  The,the\n,"), [7, 10, 7, 10]);
    }

    /// As `BertPreTokenizer` of the Python package tokenizers 0.23 cuts them.
    #[test]
    fn words_are_those_of_bert() {
        let cut = |text| words(text).collect::<Vec<_>>();
        assert_eq!(cut("don't 3.14$"), ["don", "'", "t", "3", ".", "14", "$"]);
        assert_eq!(cut("5€+½ × 2°C™"), ["5€", "+", "½", "×", "2°C™"]);
        assert_eq!(
            cut("e\u{301}a—b«c»"),
            ["e\u{301}a", "—", "b", "«", "c", "»"]
        );
        assert_eq!(cut("🦀🦀 a\u{200b}b\u{a0}c"), ["🦀🦀", "a\u{200b}b", "c"]);
        assert_eq!(cut("日本、x_y"), ["日本", "、", "x", "_", "y"]);
    }

    #[test]
    fn lower_case_can_be_left_out() {
        let mut args = args(&["[UNK]", "the"]);
        args.lowercase = false;
        let tokenizer = Tokenizer::init(args).expect("a good vocabulary");
        assert_eq!(tokenizer.encode("the The"), [1, 0]);
    }

    #[test]
    fn letters_beyond_ascii_are_put_into_lower_case() {
        assert_eq!(tokenizer().encode("É éé"), [11, 11, 12]);
    }

    #[test]
    fn texts_without_words_have_no_tokens() {
        assert_eq!(tokenizer().encode(" \t\n"), [0; 0]);
        assert_eq!(tokenizer().count_tokens(""), 0);
    }

    #[test]
    fn counting_agrees_with_encoding() {
        let tokenizer = tokenizer();
        for text in [
            "unaffable",
            "unwantedX the",
            "run, running; é",
            "un\u{301}",
            "🦀 the",
        ] {
            assert_eq!(
                tokenizer.count_tokens(text) as usize,
                tokenizer.encode(text).len(),
                "{text}"
            );
        }
    }

    #[test]
    fn very_long_words_are_unknown() {
        let word = format!("un{}", "a".repeat(LONGEST_WORD));
        assert_eq!(tokenizer().encode(&word), [0]);
    }

    #[test]
    fn a_bad_vocabulary_is_refused_with_a_reason() {
        let reason =
            |vocabulary: &[&str]| Tokenizer::init(args(vocabulary)).err().unwrap_or_default();
        assert!(reason(&["a"]).contains("[UNK]"));
        assert!(reason(&["[UNK]", "a", "a"]).contains("twice"));
        assert!(reason(&["[UNK]", ""]).contains("empty"));
    }

    #[test]
    fn two_number_signs_alone_are_a_word() {
        let tokenizer = Tokenizer::init(args(&["[UNK]", "#", "##"])).expect("a good vocabulary");
        assert_eq!(tokenizer.encode("#"), [1]);
    }
}
