//! How long an SQL expression of the command line may be, and how much of it is shown.

use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

/// Words and signs of an expression that may depend on each other. Planners call themselves once an
/// operator, and a chain of `OR` nests as brackets do.
const LONGEST_CHAIN: usize = 2_000;

/// SQL as it is shown in messages: it may be as long as a command line.
pub(crate) fn quoted(text: &str) -> String {
    const SHOWN: usize = 200;
    let mut shown: String = text.chars().take(SHOWN).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    format!("{shown:?}")
}

/// Refuses SQL that could nest deeper than planners can follow.
pub(crate) fn check_size(sql: &str) -> Result<(), String> {
    let Ok(tokens) = Tokenizer::new(&GenericDialect {}, sql).tokenize() else {
        // The parser knows what to say.
        return Ok(());
    };
    match longest_chain(&tokens) {
        size if size > LONGEST_CHAIN => Err(format!(
            "it is a chain of {size} words and signs, at most {LONGEST_CHAIN} are accepted; compare with many values by IN (…), which counts once"
        )),
        _ => Ok(()),
    }
}

/// The most words and signs that may depend on each other. What commas or semicolons separate does not.
fn longest_chain(tokens: &[Token]) -> usize {
    /// Within a pair of brackets: the part since the last comma, and the longest before.
    #[derive(Default)]
    struct Level {
        part: usize,
        longest: usize,
    }
    let mut above: Vec<Level> = Vec::new();
    let mut level = Level::default();
    for token in tokens {
        match token {
            Token::Whitespace(_) => {}
            Token::Comma | Token::SemiColon => {
                level.longest = level.longest.max(level.part);
                level.part = 0;
            }
            Token::LParen | Token::LBracket | Token::LBrace => {
                above.push(std::mem::take(&mut level));
            }
            Token::RParen | Token::RBracket | Token::RBrace => {
                let inside = level.longest.max(level.part);
                level = above.pop().unwrap_or_default();
                level.part = level.part.saturating_add(inside).saturating_add(1);
            }
            _ => level.part = level.part.saturating_add(1),
        }
    }
    // Brackets that are still open are for the parser to complain about.
    above.iter().fold(level.longest.max(level.part), |sum, l| {
        sum.saturating_add(l.longest.max(l.part))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(sql: &str) -> usize {
        longest_chain(&Tokenizer::new(&GenericDialect {}, sql).tokenize().unwrap())
    }

    #[test]
    fn chains_are_counted_along_operators_and_brackets() {
        assert_eq!(chain("a = 1 OR b = 2"), 7);
        assert_eq!(chain("a = ((1))"), 5);
        assert_eq!(chain("a IN (1, 2, 3)"), 4);
        assert_eq!(chain("f(a + b + c, d) > 0"), 9);
        assert_eq!(chain("f(a, b + c + d)"), 7);
    }

    #[test]
    fn long_lists_are_accepted_and_long_chains_are_not() {
        let numbers: Vec<String> = (0..100_000).map(|n| n.to_string()).collect();
        assert!(check_size(&format!("a IN ({})", numbers.join(", "))).is_ok());
        assert!(check_size(&format!("a > {}", "1 + ".repeat(3_000))).is_err());
    }
}
