//! What begins with a backslash.

/// A command of the prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Command {
    Quit,
    Help,
    Timing,
    Functions,
    /// One that is short for SQL.
    Statement(String),
    Unknown(String),
}

pub(super) const HELP: &str = "\
\\d          tables
\\d NAME     columns of a table
\\df         UDFs of the modules; SHOW FUNCTIONS lists all functions
\\timing     tell the time of each statement, or no more
\\?          this list
\\q          end, as Ctrl-D does

Statements end with ; and may have several lines. Ctrl-C drops what is typed, or ends what runs.
CREATE FUNCTION name() LANGUAGE WASM AS 'file.wasm#udf'   loads a UDF
SET wasmill.slots = '2'                                   changes how UDFs run; SHOW ALL lists settings
COPY (SELECT …) TO 'file.parquet'                         writes a file
EXPLAIN SELECT …                                          shows the plan
";

const TABLES: &str = "SELECT table_name, table_type FROM information_schema.tables \
     WHERE table_schema <> 'information_schema' ORDER BY table_name";

impl Command {
    /// The command that a line is; none where it is something else.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let line = line.trim();
        let bare = line.trim_end_matches(';').trim_end();
        if ["quit", "exit"]
            .iter()
            .any(|word| bare.eq_ignore_ascii_case(word))
        {
            return Some(Command::Quit);
        }
        let command = bare.strip_prefix('\\')?;
        let (word, rest) = match command.split_once(char::is_whitespace) {
            Some((word, rest)) => (word, rest.trim()),
            None => (command, ""),
        };
        Some(match (word, rest) {
            ("q", "") => Command::Quit,
            ("?" | "h", "") => Command::Help,
            ("timing", "") => Command::Timing,
            ("df", "") => Command::Functions,
            ("d", "") => Command::Statement(TABLES.to_owned()),
            ("d", table) => Command::Statement(format!("DESCRIBE {table}")),
            _ => Command::Unknown(format!("\\{command}")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_begin_with_a_backslash() {
        assert_eq!(Command::parse("\\q"), Some(Command::Quit));
        assert_eq!(Command::parse(" quit; "), Some(Command::Quit));
        let described = Command::Statement("DESCRIBE flights".to_owned());
        assert_eq!(Command::parse("\\d flights;"), Some(described));
        assert_eq!(
            Command::parse("\\x y"),
            Some(Command::Unknown("\\x y".to_owned()))
        );
        assert_eq!(Command::parse("SELECT 1;"), None);
    }
}
