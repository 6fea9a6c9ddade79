//! The first records of a CSV file, as RFC 4180 has them: for showing, not for computing.

/// At most `limit` records of `text`; quotes are taken off, lines in quotes kept together.
pub fn records(text: &str, limit: usize) -> Vec<Vec<String>> {
    let mut records = Vec::new();
    let mut chars = text.chars().peekable();
    while records.len() < limit && chars.peek().is_some() {
        let mut record = vec![String::new()];
        let mut quoted = false;
        while let Some(c) = chars.next() {
            match c {
                '"' if quoted && chars.next_if_eq(&'"').is_some() => push(&mut record, '"'),
                '"' => quoted = !quoted,
                ',' if !quoted => record.push(String::new()),
                '\r' if !quoted && chars.peek() == Some(&'\n') => {}
                '\n' if !quoted => break,
                c => push(&mut record, c),
            }
        }
        records.push(record);
    }
    records
}

fn push(record: &mut [String], c: char) {
    if let Some(field) = record.last_mut() {
        field.push(c);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_commas_and_line_ends_are_read() {
        let text = "a,b\r\n\"x, y\",\"say \"\"hi\"\"\"\n\"two\nlines\",\nlast,1";
        assert_eq!(
            records(text, 10),
            [
                ["a", "b"],
                ["x, y", "say \"hi\""],
                ["two\nlines", ""],
                ["last", "1"]
            ]
        );
    }

    #[test]
    fn no_more_records_than_asked_for() {
        assert_eq!(records("a\nb\nc\n", 2), [["a"], ["b"]]);
        assert_eq!(records("a\n", 2), [["a"]]);
        assert!(records("", 2).is_empty());
    }
}
