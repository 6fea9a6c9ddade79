//! Codes for how English names sound.

use unicode_normalization::UnicodeNormalization;

/// The letters of a text as ASCII capitals: marks are left out, as is all that is no Latin letter.
fn capitals(text: &str) -> Vec<u8> {
    let letters = text.nfd().flat_map(|character| {
        match character {
            'ß' | 'ẞ' => "SS".bytes(),
            'Æ' | 'æ' => "AE".bytes(),
            'Œ' | 'œ' => "OE".bytes(),
            'Ø' | 'ø' => "O".bytes(),
            'Ł' | 'ł' => "L".bytes(),
            'Đ' | 'đ' | 'Ð' | 'ð' => "D".bytes(),
            'Þ' | 'þ' => "TH".bytes(),
            _ => "".bytes(),
        }
        .chain(ascii_capital(character))
    });
    letters.collect()
}

fn ascii_capital(character: char) -> Option<u8> {
    let capital = u8::try_from(character).ok()?.to_ascii_uppercase();
    capital.is_ascii_uppercase().then_some(capital)
}

/// The Soundex code of a name: its first letter and three digits. Empty where there is no letter.
pub fn soundex(text: &str) -> String {
    let letters = capitals(text);
    let Some(first) = letters.first() else {
        return String::new();
    };
    let mut code = String::with_capacity(4);
    code.push(char::from(*first));
    let mut last = soundex_group(*first);
    for letter in &letters[1..] {
        let group = soundex_group(*letter);
        match group {
            Group::Digit(digit) if group != last => code.push(digit),
            // H and W stand between letters as if they were not there.
            Group::Silent => continue,
            _ => {}
        }
        if code.len() == 4 {
            return code;
        }
        last = group;
    }
    while code.len() < 4 {
        code.push('0');
    }
    code
}

#[derive(Clone, Copy, PartialEq)]
enum Group {
    Digit(char),
    Vowel,
    Silent,
}

fn soundex_group(letter: u8) -> Group {
    match letter {
        b'B' | b'F' | b'P' | b'V' => Group::Digit('1'),
        b'C' | b'G' | b'J' | b'K' | b'Q' | b'S' | b'X' | b'Z' => Group::Digit('2'),
        b'D' | b'T' => Group::Digit('3'),
        b'L' => Group::Digit('4'),
        b'M' | b'N' => Group::Digit('5'),
        b'R' => Group::Digit('6'),
        b'H' | b'W' => Group::Silent,
        _ => Group::Vowel,
    }
}

/// The Metaphone code of the words of a text, with a blank between the codes of words.
pub fn metaphone(text: &str) -> String {
    let mut code = String::new();
    for word in text.split(|character: char| character.is_whitespace() || character == '-') {
        let letters = capitals(word);
        if letters.is_empty() {
            continue;
        }
        if !code.is_empty() {
            code.push(' ');
        }
        Word { letters: &letters }.encode(&mut code);
    }
    code
}

/// The letters of one word.
struct Word<'w> {
    letters: &'w [u8],
}

impl Word<'_> {
    /// The letter at a place; 0 beyond the ends.
    fn at(&self, place: Option<usize>) -> u8 {
        place
            .and_then(|place| self.letters.get(place))
            .copied()
            .unwrap_or(0)
    }

    /// Whether these letters stand at a place.
    fn has(&self, place: usize, letters: &str) -> bool {
        let rest = self.letters.get(place..).unwrap_or_default();
        rest.starts_with(letters.as_bytes())
    }

    fn encode(&self, code: &mut String) {
        let mut place = 0;
        // What is not spoken, or otherwise, at the start of words.
        for (start, sound, len) in [
            ("AE", "E", 2),
            ("GN", "N", 2),
            ("KN", "N", 2),
            ("PN", "N", 2),
            ("WR", "R", 2),
            ("WH", "W", 2),
            ("X", "S", 1),
        ] {
            if self.has(0, start) {
                code.push_str(sound);
                place = len;
                break;
            }
        }
        while place < self.letters.len() {
            // Of a doubled consonant, only the second sounds. CC may be two sounds, as in "accent".
            let letter = self.at(Some(place));
            let doubled = letter == self.at(Some(place + 1)) && letter != b'C' && !is_vowel(letter);
            place += if doubled { 1 } else { self.sound(place, code) };
        }
    }

    /// Writes the sound at a place; the answer is how many letters it took.
    fn sound(&self, place: usize, code: &mut String) -> usize {
        let letter = self.at(Some(place));
        let before = self.at(place.checked_sub(1));
        let after = self.at(Some(place + 1));
        let second = self.at(Some(place + 2));
        match letter {
            b'A' | b'E' | b'I' | b'O' | b'U' if place > 0 => {}
            b'B' if before == b'M' && after == 0 => {}
            b'C' => return self.sound_of_c(place, code),
            b'D' if after == b'G' && is_front(second) => {
                code.push('J');
                return 3;
            }
            b'D' => code.push('T'),
            b'G' => return self.sound_of_g(place, code),
            b'H' if is_vowel(after) && !matches!(before, b'C' | b'G' | b'P' | b'S' | b'T') => {
                code.push('H');
            }
            // As in "Hyde", and for the letter itself.
            b'H' if place == 0 && matches!(after, b'Y' | 0) => code.push('H'),
            b'H' => {}
            b'K' if before == b'C' => {}
            b'P' if after == b'H' => {
                code.push('F');
                return 2;
            }
            b'Q' => code.push('K'),
            b'S' if after == b'H' => {
                code.push('X');
                return 2;
            }
            b'S' if after == b'I' && matches!(second, b'O' | b'A') => {
                code.push('X');
                return 3;
            }
            b'S' if after == b'C' && is_front(second) => {
                code.push('S');
                return 2;
            }
            b'T' if after == b'I' && matches!(second, b'O' | b'A') => {
                code.push('X');
                return 3;
            }
            b'T' if after == b'H' => {
                code.push('0');
                return 2;
            }
            // As in "match".
            b'T' if after == b'C' && second == b'H' => {}
            b'V' => code.push('F'),
            b'W' | b'Y' if !is_vowel(after) => {}
            b'X' => code.push_str("KS"),
            b'Z' => code.push('S'),
            other => code.push(char::from(other)),
        }
        1
    }

    fn sound_of_c(&self, place: usize, code: &mut String) -> usize {
        let before = self.at(place.checked_sub(1));
        let after = self.at(Some(place + 1));
        if self.has(place, "CIA") {
            code.push('X');
            3
        } else if after == b'H' {
            code.push(if before == b'S' || self.is_greek_ch(place) {
                'K'
            } else {
                'X'
            });
            2
        } else if is_front(after) {
            // Silent in "science".
            if before != b'S' {
                code.push('S');
            }
            1
        } else {
            code.push('K');
            1
        }
    }

    /// Whether a CH is that of "chrome" or "chlorine".
    fn is_greek_ch(&self, place: usize) -> bool {
        self.has(place, "CHR") || place == 0 && self.has(place, "CHL")
    }

    fn sound_of_g(&self, place: usize, code: &mut String) -> usize {
        let before = self.at(place.checked_sub(1));
        let after = self.at(Some(place + 1));
        let second = self.at(Some(place + 2));
        if after == b'H' {
            // Spoken before a vowel and at the start, as in "ghost"; silent in "night".
            if place == 0 || is_vowel(second) {
                code.push('K');
            }
            return 2;
        }
        // Silent in "sign" and "signed".
        let silent =
            after == b'N' && (second == 0 || self.letters.get(place + 1..) == Some(b"NED"));
        if !silent {
            code.push(if is_front(after) && before != b'G' {
                'J'
            } else {
                'K'
            });
        }
        1
    }
}

fn is_vowel(letter: u8) -> bool {
    matches!(letter, b'A' | b'E' | b'I' | b'O' | b'U')
}

/// Whether a letter makes a C or G before it soft.
fn is_front(letter: u8) -> bool {
    matches!(letter, b'E' | b'I' | b'Y')
}
