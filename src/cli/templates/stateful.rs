//! UDFs that share a state: it is made once per slot and kept between batches.

use std::collections::HashMap;

use wasmill_guest::{InitArgs, log, udf};

/// Words and what they become.
#[derive(InitArgs)]
pub struct ReplacerArgs {
    /// Words as they are written.
    #[init(min_items = 1)]
    pub from: Vec<String>,
    /// What each of them becomes, in the same order.
    pub to: Vec<String>,
}

/// A loaded list of words.
pub struct Replacer {
    words: HashMap<String, String>,
}

#[udf]
impl Replacer {
    /// Loads the words.
    ///
    /// # Errors
    /// When the two lists differ in length.
    pub fn init(args: ReplacerArgs) -> Result<Self, String> {
        if args.from.len() != args.to.len() {
            return Err(format!(
                "there are {} words in `from` and {} in `to`: give as many of each",
                args.from.len(),
                args.to.len()
            ));
        }
        log::info!("{} words loaded", args.from.len());
        Ok(Self {
            words: args.from.into_iter().zip(args.to).collect(),
        })
    }

    /// The text with known words replaced; runs of blanks become one blank.
    pub fn replace(&self, text: &str) -> String {
        let words: Vec<&str> = text
            .split_whitespace()
            .map(|word| self.words.get(word).map_or(word, String::as_str))
            .collect();
        words.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replacer() -> Replacer {
        Replacer::init(ReplacerArgs {
            from: vec!["NY".to_owned()],
            to: vec!["New York".to_owned()],
        })
        .expect("a good list")
    }

    #[test]
    fn known_words_are_replaced() {
        assert_eq!(replacer().replace("to  NY"), "to New York");
    }

    #[test]
    fn lists_of_different_lengths_are_refused() {
        let args = ReplacerArgs {
            from: vec!["a".to_owned()],
            to: Vec::new(),
        };
        assert!(Replacer::init(args).is_err());
    }
}
