//! "Did you mean": names that exist beside the one that was asked for.

/// What exists, and the nearest of it.
pub(crate) fn existing<'a>(
    kind: &str,
    asked: &str,
    names: impl IntoIterator<Item = &'a str>,
) -> String {
    let names: Vec<&str> = names.into_iter().collect();
    if let Some(near) = nearest(asked, &names) {
        return format!("did you mean `{near}`? The {kind} are {}", list(&names));
    }
    match names.as_slice() {
        [] => format!("there are no {kind}"),
        names => format!("the {kind} are {}", list(names)),
    }
}

/// A list that stays readable.
fn list(names: &[&str]) -> String {
    const SHOWN: usize = 30;
    let mut text: Vec<String> = names.iter().take(SHOWN).map(|n| format!("`{n}`")).collect();
    if names.len() > SHOWN {
        text.push(format!("and {} more", names.len().saturating_sub(SHOWN)));
    }
    text.join(", ")
}

fn nearest<'a>(asked: &str, names: &[&'a str]) -> Option<&'a str> {
    let best = names
        .iter()
        .map(|name| {
            (
                strsim::sorensen_dice(&asked.to_lowercase(), &name.to_lowercase()),
                *name,
            )
        })
        .max_by(|a, b| a.0.total_cmp(&b.0))?;
    (best.0 > 0.6).then_some(best.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_comes_first_and_all_are_listed() {
        let names = ["distance", "delay", "origin"];
        assert_eq!(
            existing("columns", "distanse", names),
            "did you mean `distance`? The columns are `distance`, `delay`, `origin`"
        );
        assert_eq!(
            existing("columns", "xyz", names),
            "the columns are `distance`, `delay`, `origin`"
        );
        assert_eq!(existing("columns", "x", []), "there are no columns");
    }
}
