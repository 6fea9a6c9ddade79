//! Cutting texts into words, by hand: what regular expressions do for the tokenizers of OpenAI.

use unicode_properties::{GeneralCategoryGroup, UnicodeGeneralCategory};
use wasmill_guest::InitArgs;

/// How texts are cut into words. Each byte of a text is in just one word.
#[derive(InitArgs, Clone, Copy, Debug, PartialEq)]
pub enum Split {
    /// As for GPT-2, and the vocabularies r50k and p50k.
    #[init(rename = "gpt2")]
    Gpt2,
    /// As for the vocabulary cl100k.
    #[init(rename = "cl100k")]
    Cl100k,
}

impl Split {
    /// The words of a text.
    pub(super) fn words(self, text: &str) -> impl Iterator<Item = &str> {
        let mut rest = text;
        std::iter::from_fn(move || {
            let first = rest.chars().next()?;
            let len = match self {
                Self::Gpt2 => gpt2(rest, first),
                Self::Cl100k => cl100k(rest, first),
            };
            let (word, after) = rest.split_at(len);
            rest = after;
            Some(word)
        })
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Letter,
    Number,
    Space,
    Other,
}

fn kind(character: char) -> Kind {
    match character {
        'a'..='z' | 'A'..='Z' => Kind::Letter,
        '0'..='9' => Kind::Number,
        _ if character.is_whitespace() => Kind::Space,
        _ if character.is_ascii() => Kind::Other,
        // Not `is_alphabetic`: that has marks and numbers too.
        _ => match character.general_category_group() {
            GeneralCategoryGroup::Letter => Kind::Letter,
            GeneralCategoryGroup::Number => Kind::Number,
            _ => Kind::Other,
        },
    }
}

/// Bytes of the characters of a kind with which a text begins.
fn run(text: &str, wanted: Kind) -> usize {
    text.find(|character| kind(character) != wanted)
        .unwrap_or(text.len())
}

/// A shortened word such as "'ll", a run of letters, numbers or signs with a space before it, or space.
fn gpt2(text: &str, first: char) -> usize {
    if let Some(len) = contraction(text) {
        return len;
    }
    match after_space(text, first) {
        Some((start, kind)) => start + run(&text[start..], kind),
        None => space(text),
    }
}

fn contraction(text: &str) -> Option<usize> {
    let after = text.strip_prefix('\'')?;
    let known = ["s", "d", "m", "t", "ll", "ve", "re"];
    let known = known.into_iter().find(|end| after.starts_with(end))?;
    Some(1 + known.len())
}

/// Where the run begins that a text begins with, after one space at most, and its kind; `None` for
/// space before space.
fn after_space(text: &str, first: char) -> Option<(usize, Kind)> {
    let (start, character) = match text.strip_prefix(' ') {
        Some(rest) => (1, rest.chars().next()?),
        None => (0, first),
    };
    let kind = kind(character);
    (kind != Kind::Space).then_some((start, kind))
}

/// Space up to the last of it, which goes with the word that follows, unless it is all there is.
fn space(text: &str) -> usize {
    let len = run(text, Kind::Space);
    if len == text.len() {
        return len;
    }
    match text[..len].char_indices().next_back() {
        Some((last, _)) if last > 0 => last,
        _ => len,
    }
}

/// A shortened word in any case; letters with one other character before them; up to three numbers;
/// signs with a space before and line ends after them; space up to its last line end; space.
fn cl100k(text: &str, first: char) -> usize {
    if let Some(len) = contraction_in_any_case(text) {
        return len;
    }
    let first_kind = kind(first);
    let is_line_end = |character: char| matches!(character, '\r' | '\n');
    if first_kind == Kind::Letter {
        return run(text, Kind::Letter);
    }
    if first_kind == Kind::Number {
        let three = text
            .char_indices()
            .nth(3)
            .map_or(text.len(), |(end, _)| end);
        return run(&text[..three], Kind::Number);
    }
    if !is_line_end(first) {
        let letters = run(&text[first.len_utf8()..], Kind::Letter);
        if letters > 0 {
            return first.len_utf8() + letters;
        }
    }
    if let Some((start, Kind::Other)) = after_space(text, first) {
        let signs = start + run(&text[start..], Kind::Other);
        let after = &text[signs..];
        let line_ends = after.len() - after.trim_start_matches(is_line_end).len();
        return signs + line_ends;
    }
    let len = run(text, Kind::Space);
    match text[..len].rfind(is_line_end) {
        Some(last) if len < text.len() => last + 1,
        _ => space(text),
    }
}

fn contraction_in_any_case(text: &str) -> Option<usize> {
    let mut characters = text.strip_prefix('\'')?.chars();
    let first = characters.next()?;
    match first.to_ascii_lowercase() {
        // The long s is an s in another case.
        's' | 'd' | 'm' | 't' | 'ſ' => return Some(1 + first.len_utf8()),
        _ => {}
    }
    let second = characters.next()?;
    match (first.to_ascii_lowercase(), second.to_ascii_lowercase()) {
        ('l', 'l') | ('v', 'e') | ('r', 'e') => Some(3),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(split: Split, text: &str) -> Vec<&str> {
        let words: Vec<&str> = split.words(text).collect();
        assert_eq!(words.concat(), text);
        words
    }

    #[test]
    fn gpt2_keeps_a_space_with_the_word_after_it() {
        let words = |text| words(Split::Gpt2, text);
        assert_eq!(
            words("Hello  world's 123abc!! 'Tis"),
            [
                "Hello", " ", " world", "'s", " 123", "abc", "!!", " '", "Tis"
            ]
        );
        assert_eq!(words("a \n\n b\t\n"), ["a", " \n\n", " b", "\t\n"]);
        assert_eq!(
            words("I'll we've '' 'r"),
            ["I", "'ll", " we", "'ve", " ''", " '", "r"]
        );
        assert_eq!(words("  "), ["  "]);
        assert_eq!(words(" "), [" "]);
        assert_eq!(words(""), [""; 0]);
        // Numbers beyond digits; a mark is no letter; a no-break space is space.
        assert_eq!(words("½Ⅷ e\u{301}a"), ["½Ⅷ", " e", "\u{301}", "a"]);
        assert_eq!(words("a\u{a0}b"), ["a", "\u{a0}", "b"]);
    }

    #[test]
    fn cl100k_takes_three_numbers_and_line_ends() {
        let words = |text| words(Split::Cl100k, text);
        assert_eq!(
            words("Don'T 12345\n\n x!\r\ny"),
            ["Don", "'T", " ", "123", "45", "\n\n", " x", "!\r\n", "y"]
        );
        assert_eq!(words("(abc) \t def"), ["(abc", ")", " \t", " def"]);
        assert_eq!(words("a  \n  b"), ["a", "  \n", " ", " b"]);
        assert_eq!(words("a \n "), ["a", " \n "]);
        assert_eq!(words("\nabc"), ["\n", "abc"]);
        assert_eq!(
            words("'ſx 'LLy 'vEz"),
            ["'ſ", "x", " '", "LLy", " '", "vEz"]
        );
        assert_eq!(words("!'LLy"), ["!'", "LLy"]);
        assert_eq!(words("'lLy'Ree"), ["'lL", "y", "'Re", "e"]);
        assert_eq!(words(" \u{301}a"), [" \u{301}", "a"]);
    }
}
