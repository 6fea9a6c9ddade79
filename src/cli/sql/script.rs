//! From text to statements.

use std::collections::VecDeque;

use datafusion::execution::SessionState;
use datafusion::sql::parser::{DFParserBuilder, Statement};
use datafusion::sql::sqlparser::dialect::{GenericDialect, dialect_from_str};
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer, TokenizerError};

use super::refusal;
use crate::cli::failure::Failure;
use crate::cli::sql_size::check_size;

/// Reads all statements of a text, so that nothing is done where one of them is malformed.
pub(super) fn statements(text: &str, state: &SessionState) -> Result<VecDeque<Statement>, Failure> {
    check_size(text)
        .map_err(|reason| Failure::usage(format!("the query is too large: {reason}")))?;
    let options = &state.config_options().sql_parser;
    let dialect = dialect_from_str(options.dialect).unwrap_or_else(|| Box::new(GenericDialect {}));
    let parser = DFParserBuilder::new(text)
        .with_dialect(dialect.as_ref())
        .with_recursion_limit(options.recursion_limit.get())
        .build();
    parser
        .and_then(|mut parser| parser.parse_statements())
        .map_err(|error| refusal::unreadable(&error))
}

/// Whether a statement gives rows to be written.
pub(super) fn gives_rows(statement: &Statement) -> bool {
    const THAT_DO: [&str; 12] = [
        "SELECT", "WITH", "VALUES", "TABLE", "SHOW", "DESCRIBE", "DESC", "EXPLAIN", "EXECUTE",
        "INSERT", "UPDATE", "DELETE",
    ];
    let word = first_word(statement);
    THAT_DO.iter().any(|known| word == *known)
}

/// Whether a statement lists what a session has.
pub(super) fn shows(statement: &Statement) -> bool {
    first_word(statement) == "SHOW"
}

fn first_word(statement: &Statement) -> String {
    let text = statement.to_string();
    let text = text.trim_start_matches(['(', ' ']);
    let word = text.split(|c: char| !c.is_ascii_alphabetic()).next();
    word.unwrap_or_default().to_ascii_uppercase()
}

/// Whether what was typed is whole: a semicolon ends it, outside quotes and comments.
pub(super) fn is_complete(text: &str) -> bool {
    let mut tokens = Vec::new();
    let read =
        Tokenizer::new(&GenericDialect {}, text).tokenize_with_location_into_buf(&mut tokens);
    match read {
        Ok(()) => tokens
            .iter()
            .rev()
            .map(|token| &token.token)
            .find(|token| !matches!(token, Token::Whitespace(_)))
            .is_none_or(|last| *last == Token::SemiColon),
        Err(error) => !is_open(&error),
    }
}

/// Whether the end of the text is what is wrong with it.
fn is_open(error: &TokenizerError) -> bool {
    let message = error.message.to_ascii_lowercase();
    message.contains("unterminated") || message.contains("unexpected eof")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> VecDeque<Statement> {
        let state = datafusion::prelude::SessionContext::new().state();
        statements(text, &state).unwrap_or_else(|f| panic!("{}", f.message))
    }

    #[test]
    fn a_semicolon_ends_what_is_typed() {
        for whole in [
            "SELECT 1;",
            "SELECT ';';  ",
            "",
            "SELECT 1; -- end",
            "SELECT 'a;\nb';",
        ] {
            assert!(is_complete(whole), "{whole}");
        }
        for open in [
            "SELECT 1",
            "SELECT ';",
            "SELECT 1 -- ;",
            "SELECT 1 /* ;",
            "SELECT 1; SELECT",
        ] {
            assert!(!is_complete(open), "{open}");
        }
    }

    #[test]
    fn queries_give_rows_and_settings_do_not() {
        let text = "SET a.b = 1; (SELECT 1) UNION ALL SELECT 2; SHOW TABLES; DESCRIBE t;
            EXPLAIN SELECT 1; COPY t TO 'x.csv'; CREATE TABLE x AS SELECT 1; DROP TABLE x";
        let rows: Vec<bool> = read(text).iter().map(gives_rows).collect();
        assert_eq!(rows, [false, true, true, true, true, false, false, false]);
    }
}
