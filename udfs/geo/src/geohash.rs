//! Geohashes: texts that name ever smaller cells of a grid over the globe.

use wasmill_guest::{ArrowType, StrWriter, udf};

use crate::coordinates::check;

/// The digits, each of five bits: 0 to 9 and the letters without a, i, l and o.
const DIGITS: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";

/// Cells of this many digits are 37 by 19 millimetres, at the limit of what a degree of 64 bits is
/// used for.
const MOST_DIGITS: i32 = 12;

/// A place on the globe.
#[derive(ArrowType, Clone, Copy, Debug, PartialEq)]
pub struct Place {
    /// Degrees north of the equator.
    pub lat: f64,
    /// Degrees east of Greenwich.
    pub lon: f64,
}

/// Geohash of a place, of `precision` digits: 1 to 12, where 5 is a cell of about 5 km and 9 one of
/// about 5 m. Fails the row for coordinates that are not on the globe and for other precisions.
#[udf]
pub fn geohash(lat: f64, lon: f64, precision: i32, out: &mut StrWriter) -> Result<(), String> {
    check(lat, lon)?;
    if !(1..=MOST_DIGITS).contains(&precision) {
        return Err(format!(
            "a geohash has 1 to {MOST_DIGITS} digits, not {precision}"
        ));
    }
    let mut cell = Cell::GLOBE;
    for _ in 0..precision {
        let digit = (0..5).fold(0, |digit, _| {
            digit << 1 | usize::from(cell.narrow(lat, lon))
        });
        out.push(char::from(DIGITS[digit]));
    }
    Ok(())
}

/// Centre of the cell that a geohash names. Capitals are taken as small letters. Fails the row for a
/// text that is no geohash of 1 to 12 digits.
#[udf]
pub fn geohash_decode(hash: &str) -> Result<Place, String> {
    if hash.is_empty() || hash.len() > MOST_DIGITS as usize {
        return Err(format!(
            "a geohash has 1 to {MOST_DIGITS} digits, and this text {} bytes",
            hash.len()
        ));
    }
    let mut cell = Cell::GLOBE;
    for character in hash.chars() {
        let small = character.to_ascii_lowercase();
        let digit = DIGITS.iter().position(|digit| char::from(*digit) == small);
        let Some(digit) = digit else {
            return Err(format!("'{character}' is no digit of a geohash"));
        };
        for bit in (0..5).rev() {
            cell.halve(digit >> bit & 1 == 1);
        }
    }
    Ok(Place {
        lat: cell.lat.middle(),
        lon: cell.lon.middle(),
    })
}

/// A part of the globe. Its bounds are the ends of 180 and 360 degrees, halved at most 30 times: they
/// are exact.
struct Cell {
    lat: Span,
    lon: Span,
    next_is_lon: bool,
}

#[derive(Clone, Copy)]
struct Span {
    low: f64,
    high: f64,
}

impl Span {
    fn middle(self) -> f64 {
        (self.low + self.high) / 2.0
    }

    fn halve(&mut self, upper: bool) {
        let middle = self.middle();
        if upper {
            self.low = middle;
        } else {
            self.high = middle;
        }
    }
}

impl Cell {
    const GLOBE: Self = Self {
        lat: Span {
            low: -90.0,
            high: 90.0,
        },
        lon: Span {
            low: -180.0,
            high: 180.0,
        },
        next_is_lon: true,
    };

    /// Takes the half that holds the place; says whether it is the upper one.
    fn narrow(&mut self, lat: f64, lon: f64) -> bool {
        let upper = if self.next_is_lon {
            lon >= self.lon.middle()
        } else {
            lat >= self.lat.middle()
        };
        self.halve(upper);
        upper
    }

    fn halve(&mut self, upper: bool) {
        if self.next_is_lon {
            self.lon.halve(upper);
        } else {
            self.lat.halve(upper);
        }
        self.next_is_lon = !self.next_is_lon;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(lat: f64, lon: f64, precision: i32) -> Result<String, String> {
        let mut out = StrWriter::default();
        geohash(lat, lon, precision, &mut out)?;
        Ok(out.as_str().to_owned())
    }

    #[test]
    fn known_places_have_their_known_geohashes() {
        assert_eq!(hash(57.64911, 10.40744, 11).as_deref(), Ok("u4pruydqqvj"));
        assert_eq!(hash(42.605, -5.603, 5).as_deref(), Ok("ezs42"));
        assert_eq!(hash(0.0, 0.0, 1).as_deref(), Ok("s"));
    }

    #[test]
    fn the_ends_of_the_globe_are_in_the_last_cells() {
        assert_eq!(hash(90.0, 180.0, 12).as_deref(), Ok("zzzzzzzzzzzz"));
        assert_eq!(hash(-90.0, -180.0, 12).as_deref(), Ok("000000000000"));
        // A hair below the equator is below it.
        assert_eq!(hash(-1e-300, 0.0, 1).as_deref(), Ok("k"));
    }

    #[test]
    fn decoding_gives_a_place_in_the_cell() {
        assert_eq!(
            geohash_decode("s"),
            Ok(Place {
                lat: 22.5,
                lon: 22.5
            })
        );
        assert_eq!(geohash_decode("EZS42"), geohash_decode("ezs42"));
        for (lat, lon) in [(12.3, -45.6), (-89.99, 179.99), (0.0, 0.0)] {
            for precision in 1..=12 {
                let text = hash(lat, lon, precision).expect("good coordinates");
                let place = geohash_decode(&text).expect("a geohash");
                assert_eq!(hash(place.lat, place.lon, precision), Ok(text));
            }
        }
    }

    #[test]
    fn what_is_no_geohash_is_refused() {
        assert!(hash(0.0, 0.0, 0).is_err());
        assert!(hash(0.0, 0.0, 13).is_err());
        assert!(hash(91.0, 0.0, 5).is_err());
        assert!(geohash_decode("").is_err());
        assert!(geohash_decode("0123456789bcd").is_err());
        let error = geohash_decode("ezsa2").expect_err("a is no digit");
        assert!(error.contains("'a'"), "{error}");
        assert!(geohash_decode("é").is_err());
    }
}
