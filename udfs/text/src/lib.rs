//! Text made comparable: Unicode normal forms, case folding, slugs, and one regular expression that
//! several functions share.

mod pattern;

use caseless::Caseless;
use unicode_normalization::char::is_combining_mark;
use unicode_normalization::{IsNormalized, UnicodeNormalization};
use wasmill_guest::{StrWriter, udf};

pub use pattern::{Pattern, PatternArgs};

/// A text in the Unicode normal form `form`: `NFC`, `NFD`, `NFKC` or `NFKD`, in upper or lower case.
/// NFC and NFD keep the meaning; the forms with K also replace ligatures, full-width letters and the
/// like by plain ones.
///
/// # Errors
/// The row fails when there is no such form.
#[udf]
pub fn normalize(text: &str, form: &str, out: &mut StrWriter) -> Result<(), String> {
    let form = Form::named(form)?;
    if form.is_quick(text) {
        out.push_str(text);
        return Ok(());
    }
    match form {
        Form::Nfc => text.nfc().for_each(|character| out.push(character)),
        Form::Nfd => text.nfd().for_each(|character| out.push(character)),
        Form::Nfkc => text.nfkc().for_each(|character| out.push(character)),
        Form::Nfkd => text.nfkd().for_each(|character| out.push(character)),
    }
    Ok(())
}

/// The normal forms of Unicode.
#[derive(Clone, Copy)]
enum Form {
    Nfc,
    Nfd,
    Nfkc,
    Nfkd,
}

impl Form {
    fn named(name: &str) -> Result<Self, String> {
        let forms = [
            ("NFC", Self::Nfc),
            ("NFD", Self::Nfd),
            ("NFKC", Self::Nfkc),
            ("NFKD", Self::Nfkd),
        ];
        forms
            .into_iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, form)| form)
            .ok_or_else(|| {
                format!("there is no normal form \"{name}\": take NFC, NFD, NFKC or NFKD")
            })
    }

    /// Whether a look at each character is enough to see that a text has the form already.
    fn is_quick(self, text: &str) -> bool {
        let characters = text.chars();
        let quick = match self {
            Self::Nfc => unicode_normalization::is_nfc_quick(characters),
            Self::Nfd => unicode_normalization::is_nfd_quick(characters),
            Self::Nfkc => unicode_normalization::is_nfkc_quick(characters),
            Self::Nfkd => unicode_normalization::is_nfkd_quick(characters),
        };
        quick == IsNormalized::Yes
    }
}

/// A text without differences of case, for comparisons: full case folding of Unicode (the mappings C
/// and F of its file `CaseFolding.txt`), the same for all languages. `ß` becomes `ss`, and all forms of
/// sigma become `σ`. The result need not be in a normal form.
#[udf]
pub fn fold_case(text: &str, out: &mut StrWriter) {
    if !out.push_ascii(text, |byte| byte.to_ascii_lowercase()) {
        text.chars()
            .default_case_fold()
            .for_each(|character| out.push(character));
    }
}

/// A text as part of an address: words in lower case with `-` between them. Latin letters lose their
/// marks and become ASCII (`São Paulo/Guarulhos!` is `sao-paulo-guarulhos`, `Øresund` is `oresund`);
/// letters and digits of other scripts stay, in lower case and in NFC. Apostrophes vanish, and all else
/// separates words. A text without letters and digits gives an empty slug.
#[udf]
pub fn slugify(text: &str, out: &mut StrWriter) {
    if text.is_ascii() {
        let mut slug = Slug::new(|character| out.push(character));
        text.chars().for_each(|character| slug.add(character));
        return;
    }
    let mut decomposed = String::with_capacity(text.len());
    let mut slug = Slug::new(|character| decomposed.push(character));
    text.nfkd().for_each(|character| slug.add(character));
    decomposed.nfc().for_each(|character| out.push(character));
}

/// Makes a slug of decomposed characters, one by one.
struct Slug<F> {
    write: F,
    /// What came before.
    last: Last,
}

/// What a slug ends with, as far as the next character depends on it.
#[derive(Clone, Copy, PartialEq)]
enum Last {
    /// Nothing: there is no word yet.
    Nothing,
    /// A Latin letter or an ASCII digit, whose marks are left out.
    Plain,
    /// A letter of another script, which keeps its marks.
    Marked,
    /// Something that ended a word.
    Separator,
}

impl<F: FnMut(char)> Slug<F> {
    fn new(write: F) -> Self {
        Self {
            write,
            last: Last::Nothing,
        }
    }

    fn add(&mut self, character: char) {
        if character.is_ascii_alphanumeric() {
            self.begin(Last::Plain);
            (self.write)(character.to_ascii_lowercase());
        } else if is_combining_mark(character) {
            if self.last == Last::Marked {
                (self.write)(character);
            }
        } else if let Some(ascii) = ascii_for_latin(character) {
            self.begin(Last::Plain);
            ascii.chars().for_each(&mut self.write);
        } else if character.is_alphanumeric() {
            self.begin(Last::Marked);
            character.to_lowercase().for_each(&mut self.write);
        } else if !matches!(character, '\'' | '’') && self.last != Last::Nothing {
            self.last = Last::Separator;
        }
    }

    /// Ends the word before, where there is one to end.
    fn begin(&mut self, kind: Last) {
        if self.last == Last::Separator {
            (self.write)('-');
        }
        self.last = kind;
    }
}

/// ASCII for the Latin letters that have no decomposition.
fn ascii_for_latin(letter: char) -> Option<&'static str> {
    Some(match letter {
        'ß' | 'ẞ' => "ss",
        'Æ' | 'æ' => "ae",
        'Œ' | 'œ' => "oe",
        'Ø' | 'ø' => "o",
        'Đ' | 'đ' | 'Ð' | 'ð' => "d",
        'Þ' | 'þ' => "th",
        'Ł' | 'ł' => "l",
        'ı' => "i",
        'ȷ' => "j",
        'Ħ' | 'ħ' => "h",
        'Ŧ' | 'ŧ' => "t",
        'Ŋ' | 'ŋ' => "ng",
        'ĸ' => "k",
        'Ə' | 'ə' => "a",
        'Ƒ' | 'ƒ' => "f",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut StrWriter)) -> String {
        let mut out = StrWriter::default();
        write(&mut out);
        out.as_str().to_owned()
    }

    fn normal(text: &str, form: &str) -> Result<String, String> {
        let mut out = StrWriter::default();
        normalize(text, form, &mut out).map(|()| out.as_str().to_owned())
    }

    #[test]
    fn the_four_normal_forms_differ_as_unicode_says() {
        let text = "ﬁ e\u{301}é Å";
        let forms = ["NFC", "nfd", "NFKC", "nfkd"].map(|form| normal(text, form));
        let wanted = [
            "ﬁ éé Å",
            "ﬁ e\u{301}e\u{301} A\u{30a}",
            "fi éé Å",
            "fi e\u{301}e\u{301} A\u{30a}",
        ];
        assert_eq!(forms, wanted.map(|text| Ok(text.to_owned())));
    }

    #[test]
    fn marks_are_put_in_order() {
        let out_of_order = "a\u{301}\u{323}";
        assert_eq!(normal(out_of_order, "NFD"), Ok("a\u{323}\u{301}".into()));
        assert_eq!(normal("", "NFC"), Ok(String::new()));
    }

    #[test]
    fn an_unknown_form_fails_the_row_and_names_the_known_ones() {
        let said = normal("x", "NFX").expect_err("no such form");
        assert!(said.contains("NFX") && said.contains("NFKD"), "{said}");
    }

    #[test]
    fn folding_is_full_and_needs_no_language() {
        let fold = |text: &str| written(|out| fold_case(text, out));
        assert_eq!(fold("STRASSE Straße"), "strasse strasse");
        assert_eq!(fold("ΣΊΣΥΦΟΣ Σίσυφος"), "σίσυφοσ σίσυφοσ");
        assert_eq!(fold("ﬃ"), "ffi");
        assert_eq!(fold("İ I ı"), "i\u{307} i ı");
        assert_eq!(fold(""), "");
    }

    fn slug(text: &str) -> String {
        written(|out| slugify(text, out))
    }

    #[test]
    fn latin_slugs_are_ascii() {
        assert_eq!(slug("São Paulo/Guarulhos!"), "sao-paulo-guarulhos");
        assert_eq!(slug("  Łódź – Đakovo, İzmir "), "lodz-dakovo-izmir");
        assert_eq!(slug("Großer Œdipe ½ №5"), "grosser-oedipe-1-2-no5");
        assert_eq!(slug("Let's Talk, it’s 2ᵉ"), "lets-talk-its-2e");
    }

    #[test]
    fn other_scripts_keep_their_letters_and_marks() {
        assert_eq!(slug("Йошкар-Ола 2"), "йошкар-ола-2");
        assert_eq!(slug("東京 タワー が"), "東京-タワー-が");
        assert_eq!(slug("नमस्ते दुनिया"), "नमस्ते-दुनिया");
    }

    #[test]
    fn a_text_without_letters_gives_no_slug() {
        assert_eq!(slug(""), "");
        assert_eq!(slug(" -- !? "), "");
        assert_eq!(slug("\u{301}🦀"), "");
        assert_eq!(slug("--a--"), "a");
    }

    #[test]
    fn slugs_stay_as_they_are() {
        for text in ["São Paulo", "Йод и ёж", "が ガ ǆ ﬁ", "İI ıi", "ẞß ŉ ΐ"] {
            let once = slug(text);
            assert_eq!(slug(&once), once, "{text}");
        }
    }
}
