//! A regular expression, compiled once per slot.

use regex::Regex;
use regex_automata::util::interpolate;
use wasmill_guest::{InitArgs, udf};

/// The pattern, and what to do with its matches.
#[derive(InitArgs)]
pub struct PatternArgs {
    /// A regular expression in the syntax of the Rust crate `regex`: `(?i)` at its start ignores case.
    /// Matching takes time in proportion to the text, whatever the pattern.
    pub pattern: String,
    /// The group that is extracted: its number or its name. 0 is the whole match.
    #[init(default = "0")]
    pub group: String,
    /// What takes the place of matches. `$1` and `${name}` stand for groups, `$$` for a dollar sign.
    #[init(default = "")]
    pub replacement: String,
}

/// A compiled regular expression.
pub struct Pattern {
    regex: Regex,
    group: usize,
    replacement: String,
}

#[udf(name = "regex")]
impl Pattern {
    /// Compiles the pattern.
    ///
    /// # Errors
    /// When the pattern is wrong or too large, or has no group of a name that the other arguments use.
    pub fn init(args: PatternArgs) -> Result<Self, String> {
        let regex = Regex::new(&args.pattern).map_err(|error| format!("`pattern`: {error}"))?;
        let group =
            group_number(&regex, &args.group).ok_or_else(|| no_group("group", &args.group))?;
        check_replacement(&regex, &args.replacement)?;
        Ok(Self {
            regex,
            group,
            replacement: args.replacement,
        })
    }

    /// The group in the first match; null where the pattern does not match, or the group has no part
    /// in the match.
    pub fn regex_extract(&self, text: &str) -> Option<String> {
        let found = if self.group == 0 {
            self.regex.find(text)
        } else {
            self.regex.captures(text)?.get(self.group)
        };
        found.map(|found| found.as_str().to_owned())
    }

    /// The group in every match that does not overlap the one before; null where the group has no part
    /// in a match.
    pub fn regex_extract_all(&self, text: &str) -> Vec<Option<String>> {
        let part = |captures: regex::Captures<'_>| {
            let found = captures.get(self.group);
            found.map(|found| found.as_str().to_owned())
        };
        self.regex.captures_iter(text).map(part).collect()
    }

    /// The text with every match replaced.
    pub fn regex_replace(&self, text: &str) -> String {
        self.regex
            .replace_all(text, self.replacement.as_str())
            .into_owned()
    }

    /// Whether the pattern matches somewhere in the text. `^` and `$` tie it to the ends.
    pub fn regex_matches(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }
}

/// The number of a group that is given by number or name.
fn group_number(regex: &Regex, group: &str) -> Option<usize> {
    match group.parse() {
        Ok(number) => (number < regex.captures_len()).then_some(number),
        Err(_) => regex.capture_names().position(|name| name == Some(group)),
    }
}

/// Refuses a replacement with groups that the pattern lacks: they would silently stand for nothing.
fn check_replacement(regex: &Regex, replacement: &str) -> Result<(), String> {
    let mut missing = None;
    let mut require = |group: &str| {
        let number = group_number(regex, group);
        if number.is_none() {
            missing.get_or_insert_with(|| group.to_owned());
        }
        number
    };
    // Numbers come here, names below.
    let mut numbers = Vec::new();
    let mut text = String::new();
    interpolate::string(
        replacement,
        |number, _| numbers.push(number),
        |name| require(name),
        &mut text,
    );
    for number in numbers {
        require(&number.to_string());
    }
    match missing {
        Some(group) => Err(format!(
            "{}; where text follows a group, write ${{1}}text",
            no_group("replacement", &group)
        )),
        None => Ok(()),
    }
}

fn no_group(argument: &str, group: &str) -> String {
    format!("`{argument}`: the pattern has no group \"{group}\"")
}

#[cfg(test)]
mod tests {
    use wasmill_guest::testing::{Instance, column, handle};

    use super::*;

    fn args(pattern: &str, group: &str, replacement: &str) -> PatternArgs {
        PatternArgs {
            pattern: pattern.to_owned(),
            group: group.to_owned(),
            replacement: replacement.to_owned(),
        }
    }

    fn pattern(pattern: &str, group: &str, replacement: &str) -> Pattern {
        Pattern::init(args(pattern, group, replacement)).expect("a good pattern")
    }

    fn refused(pattern: &str, group: &str, replacement: &str) -> String {
        let refused = Pattern::init(args(pattern, group, replacement));
        refused.err().expect("bad arguments")
    }

    #[test]
    fn a_group_is_named_by_number_or_name() {
        let year = r"(?<month>\w{3}) \d+ (\d{4})";
        assert_eq!(
            pattern(year, "2", "")
                .regex_extract("Jun 12 1998")
                .as_deref(),
            Some("1998")
        );
        assert_eq!(
            pattern(year, "month", "")
                .regex_extract("Jun 12 1998")
                .as_deref(),
            Some("Jun")
        );
        assert_eq!(
            pattern(year, "0", "")
                .regex_extract("on Jun 12 1998!")
                .as_deref(),
            Some("Jun 12 1998")
        );
        assert_eq!(pattern(year, "0", "").regex_extract("never"), None);
    }

    #[test]
    fn a_group_without_part_in_the_match_is_null() {
        let either = pattern("(a)|(b)", "2", "");
        assert_eq!(either.regex_extract("a"), None);
        assert_eq!(either.regex_extract_all("ab"), [None, Some("b".to_owned())]);
        assert!(either.regex_extract_all("c").is_empty());
    }

    #[test]
    fn every_match_is_replaced() {
        let swap = pattern(r"(\w+) (?<second>\w+)", "0", "${second} $1");
        assert_eq!(swap.regex_replace("a b, c d"), "b a, d c");
        assert_eq!(pattern("[0-9]", "0", "").regex_replace("a1b2"), "ab");
        assert_eq!(pattern("", "0", "-").regex_replace("é"), "-é-");
    }

    #[test]
    fn unicode_and_case_are_understood() {
        assert!(pattern(r"(?i)^\p{Greek}+$", "0", "").regex_matches("Σίσυφος"));
        assert!(pattern("(?i)straSSe", "0", "").regex_matches("STRASSE"));
        assert!(!pattern("^b", "0", "").regex_matches("ab"));
    }

    #[test]
    fn a_wrong_pattern_is_refused_with_the_reason() {
        let said = refused("a(b", "0", "");
        assert!(
            said.contains("`pattern`") && said.contains("unclosed group"),
            "{said}"
        );
        let said = refused(r"\w{1000}{1000}{1000}", "0", "");
        assert!(said.contains("size limit"), "{said}");
    }

    #[test]
    fn groups_that_the_pattern_lacks_are_refused() {
        assert!(refused("(a)", "2", "").contains("`group`"));
        assert!(refused("(a)", "x", "").contains("\"x\""));
        assert!(refused("(a)", "0", "$2").contains("\"2\""));
        let said = refused("(a)", "0", "$1st");
        assert!(
            said.contains("\"1st\"") && said.contains("${1}text"),
            "{said}"
        );
        assert_eq!(
            pattern("(a)", "0", "$$2 ${1}st").regex_replace("a"),
            "$2 ast"
        );
    }

    #[test]
    fn one_state_serves_all_functions_and_nulls_stay_null() {
        let (instance, state) = (Instance::new(), handle!(Pattern));
        let handle = instance
            .init(
                &state,
                r#"{"pattern":"[aeiou]","group":"0","replacement":"*"}"#,
            )
            .expect("a state");
        let [_, _, replace, matches] = state.methods else {
            panic!("four methods")
        };
        let texts = || {
            [column([
                Some("wasm".to_owned()),
                None,
                Some("xyz".to_owned()),
            ])]
        };
        let replaced = instance.call_on(handle, replace, 3, &texts());
        let replaced = replaced.expect("the call works").rows::<String>();
        assert_eq!(
            (replaced[0].as_str(), replaced[2].as_str()),
            ("w*sm", "xyz")
        );
        let matched = instance.call_on(handle, matches, 3, &texts());
        let matched = matched.expect("the call works").rows::<bool>();
        assert_eq!((matched[0], matched[2]), (true, false));
        instance.close(&state, handle);
    }
}
