//! The best match among candidates that are prepared once per slot.

use rapidfuzz::distance::{jaro_winkler, levenshtein};
use wasmill_guest::{ArrowType, InitArgs, udf};

/// What to match against, and how.
#[derive(InitArgs)]
pub struct CandidatesArgs {
    /// The texts to choose from. Of equally good ones, the first is chosen.
    #[init(min_items = 1)]
    pub candidates: Vec<String>,
    /// How alike two texts are: `levenshtein` as in `similarity`, or `jaro_winkler`, which suits names.
    pub measure: Option<Measure>,
    /// The least score of a match, from 0 to 1.
    #[init(default = 0.0, minimum = 0, maximum = 1)]
    pub min_score: f64,
    /// Whether upper and lower case are alike.
    #[init(default = true)]
    pub ignore_case: bool,
}

/// How alike two texts are.
#[derive(InitArgs, Clone, Copy)]
pub enum Measure {
    /// Edits against the length; the default.
    #[init(rename = "levenshtein")]
    Levenshtein,
    /// Common letters and a common start.
    #[init(rename = "jaro_winkler")]
    JaroWinkler,
}

/// A candidate and how alike it is.
#[derive(ArrowType, Debug, PartialEq)]
pub struct Match {
    /// The candidate, as it was given.
    pub candidate: String,
    /// From 0 to 1, which stands for equal texts.
    pub score: f64,
}

/// Prepared candidates.
pub struct Candidates {
    texts: Vec<String>,
    comparators: Comparators,
    min_score: f64,
    ignore_case: bool,
}

enum Comparators {
    Levenshtein(Vec<levenshtein::BatchComparator<char>>),
    JaroWinkler(Vec<jaro_winkler::BatchComparator<char>>),
}

#[udf(name = "candidates")]
impl Candidates {
    /// Prepares the candidates.
    ///
    /// # Errors
    /// When there are none, or the least score is not from 0 to 1.
    pub fn init(args: CandidatesArgs) -> Result<Self, String> {
        if args.candidates.is_empty() {
            return Err("`candidates` is empty: give at least one text".to_owned());
        }
        if !(0.0..=1.0).contains(&args.min_score) {
            return Err(format!(
                "`min_score` is {}: give a number from 0 to 1",
                args.min_score
            ));
        }
        let prepared = args
            .candidates
            .iter()
            .map(|candidate| folded(candidate, args.ignore_case));
        let comparators = match args.measure {
            None | Some(Measure::Levenshtein) => Comparators::Levenshtein(
                prepared
                    .map(|text| levenshtein::BatchComparator::new(text.chars()))
                    .collect(),
            ),
            Some(Measure::JaroWinkler) => Comparators::JaroWinkler(
                prepared
                    .map(|text| jaro_winkler::BatchComparator::new(text.chars()))
                    .collect(),
            ),
        };
        Ok(Self {
            texts: args.candidates,
            comparators,
            min_score: args.min_score,
            ignore_case: args.ignore_case,
        })
    }

    /// The candidate that is most like a text, and its score; null where none reaches `min_score`.
    pub fn best_match(&self, text: &str) -> Option<Match> {
        let text = folded(text, self.ignore_case);
        let (place, score) = match &self.comparators {
            Comparators::Levenshtein(comparators) => self.best(comparators, |comparator, least| {
                let args = levenshtein::Args::default().score_cutoff(least);
                comparator.normalized_similarity_with_args(text.chars(), &args)
            }),
            Comparators::JaroWinkler(comparators) => self.best(comparators, |comparator, least| {
                let args = jaro_winkler::Args::default().score_cutoff(least);
                comparator.similarity_with_args(text.chars(), &args)
            }),
        }?;
        Some(Match {
            candidate: self.texts.get(place)?.clone(),
            score,
        })
    }
}

impl Candidates {
    /// The place and score of the best comparator. `score` may leave out what is below the least score
    /// that it is told.
    fn best<C>(
        &self,
        comparators: &[C],
        score: impl Fn(&C, f64) -> Option<f64>,
    ) -> Option<(usize, f64)> {
        let mut best: Option<(usize, f64)> = None;
        for (place, comparator) in comparators.iter().enumerate() {
            let least = best.map_or(self.min_score, |(_, score)| score);
            let Some(score) = score(comparator, least) else {
                continue;
            };
            if score >= self.min_score && best.is_none_or(|(_, best)| score > best) {
                best = Some((place, score));
            }
            if score >= 1.0 {
                break;
            }
        }
        best
    }
}

fn folded(text: &str, ignore_case: bool) -> String {
    if ignore_case {
        text.to_lowercase()
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use wasmill_guest::testing::{Instance, column, handle};

    use super::*;

    fn candidates(texts: &[&str], measure: Option<Measure>, min_score: f64) -> Candidates {
        let args = CandidatesArgs {
            candidates: texts.iter().map(|text| (*text).to_owned()).collect(),
            measure,
            min_score,
            ignore_case: true,
        };
        Candidates::init(args).expect("good candidates")
    }

    fn found(candidate: &str, score: f64) -> Option<Match> {
        let candidate = candidate.to_owned();
        Some(Match { candidate, score })
    }

    #[test]
    fn the_most_similar_candidate_wins() {
        let islands = candidates(&["Biscoe", "Dream", "Torgersen"], None, 0.0);
        assert_eq!(
            islands.best_match("torgerson"),
            found("Torgersen", 8.0 / 9.0)
        );
        assert_eq!(islands.best_match("DREAM"), found("Dream", 1.0));
    }

    #[test]
    fn the_first_of_equally_good_candidates_wins() {
        let letters = candidates(&["ab", "ac", "ab"], None, 0.0);
        assert_eq!(letters.best_match("ad"), found("ab", 0.5));
        assert_eq!(letters.best_match("ac"), found("ac", 1.0));
        assert_eq!(letters.best_match(""), found("ab", 0.0));
    }

    #[test]
    fn the_least_score_is_reached_or_there_is_no_match() {
        for (least, score) in [(0.75, Some(0.75)), (0.7500001, None)] {
            let texts = candidates(&["abcd"], None, least);
            assert_eq!(texts.best_match("abcx").map(|found| found.score), score);
        }
        let scores = [1.0 / 3.0, 0.6, 0.7, 0.8, 0.9];
        for (edits, length) in [(2, 3), (2, 5), (3, 10), (1, 5), (1, 10)] {
            let text = "a".repeat(length);
            let other = "b".repeat(edits) + &"a".repeat(length - edits);
            let least = 1.0 - edits as f64 / length as f64;
            let texts = candidates(&[&text], None, least - 1e-9);
            let score = texts.best_match(&other).expect("a match").score;
            assert!(
                scores.iter().any(|known| (known - score).abs() < 1e-12),
                "{score}"
            );
        }
    }

    #[test]
    fn jaro_winkler_likes_a_common_start() {
        let names = candidates(&["Karmath", "Martha"], Some(Measure::JaroWinkler), 0.0);
        let found = names.best_match("marhta").expect("a match");
        assert_eq!(found.candidate, "Martha");
        assert!((found.score - 0.961_111).abs() < 1e-6, "{}", found.score);
    }

    #[test]
    fn case_counts_when_it_is_asked_for() {
        let args = CandidatesArgs {
            candidates: vec!["ABCD".to_owned(), "abce".to_owned()],
            measure: None,
            min_score: 0.0,
            ignore_case: false,
        };
        let texts = Candidates::init(args).expect("good candidates");
        assert_eq!(texts.best_match("abcd"), found("abce", 0.75));
    }

    #[test]
    fn the_state_takes_its_arguments_as_json() {
        let (instance, state) = (Instance::new(), handle!(Candidates));
        let args = r#"{"candidates":["Adelie"],"measure":"jaro_winkler","min_score":0.9,"ignore_case":true}"#;
        let handle = instance.init(&state, args).expect("a state");
        let texts = [column([
            Some("adelie".to_owned()),
            None,
            Some("x".to_owned()),
        ])];
        let answer = instance.call_on(handle, &state.methods[0], 3, &texts);
        assert!(answer.is_ok_and(|answer| answer.errors().is_empty()));
        instance.close(&state, handle);
        let refused = |args| instance.init(&state, args).err().unwrap_or_default();
        let said = refused(r#"{"candidates":[],"min_score":0,"ignore_case":true}"#);
        assert!(said.contains("at least one"), "{said}");
        let said = refused(r#"{"candidates":["a"],"min_score":2,"ignore_case":true}"#);
        assert!(said.contains("from 0 to 1"), "{said}");
    }
}
