//! Pieces of the text of a date: digits, words and signs.

use crate::shown;

/// A piece of a text, without the blanks around it.
#[derive(Clone, Copy, Debug)]
pub struct Token<'t> {
    pub kind: TokenKind<'t>,
    /// Whether it follows the token before without a blank.
    pub tight: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TokenKind<'t> {
    Digits(&'t str),
    Word(&'t str),
    Sign(char),
}

/// More tokens than any date has.
const MOST_TOKENS: usize = 40;

/// Cuts a text into tokens; a remark in parentheses at its end, as in e-mail, is left out.
///
/// # Errors
/// When there are more tokens than any date has.
pub fn tokens(text: &str) -> Result<Vec<Token<'_>>, String> {
    let mut rest = text.trim_end();
    if let Some((before, _)) = rest
        .strip_suffix(')')
        .and_then(|inside| inside.rsplit_once('('))
    {
        rest = before;
    }
    let mut tokens = Vec::new();
    loop {
        let next = rest.trim_start();
        let tight = next.len() == rest.len();
        let Some(first) = next.chars().next() else {
            return Ok(tokens);
        };
        if tokens.len() == MOST_TOKENS {
            return Err("it is too long".to_owned());
        }
        let run = |wanted: fn(char) -> bool| {
            next.split_at(next.find(|other| !wanted(other)).unwrap_or(next.len()))
        };
        let (kind, after) = if first.is_ascii_digit() {
            let (digits, after) = run(|character| character.is_ascii_digit());
            (TokenKind::Digits(digits), after)
        } else if first.is_alphabetic() {
            let (word, after) = run(char::is_alphabetic);
            (TokenKind::Word(word), after)
        } else {
            (TokenKind::Sign(first), &next[first.len_utf8()..])
        };
        tokens.push(Token { kind, tight });
        rest = after;
    }
}

impl Token<'_> {
    /// Whether it is this word, in any case.
    pub fn is_word(&self, wanted: &str) -> bool {
        matches!(self.kind, TokenKind::Word(word) if word.eq_ignore_ascii_case(wanted))
    }
}

/// The number of digits.
///
/// # Errors
/// When it does not fit.
pub fn number<T: std::str::FromStr>(digits: &str) -> Result<T, String> {
    digits
        .parse()
        .map_err(|_| format!("{} is too large a number", shown(digits)))
}
