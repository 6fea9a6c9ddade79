//! Coordinates that can be trusted, and directions between them.

use wasmill_guest::udf;

/// Refuses what is not on the globe.
pub(crate) fn check(lat: f64, lon: f64) -> Result<(), String> {
    // Written so that NaN is refused too.
    if !(-90.0..=90.0).contains(&lat) {
        return Err(format!(
            "latitude {lat} is not between -90 and 90 degrees{}",
            if (-180.0..=180.0).contains(&lat) && (-90.0..=90.0).contains(&lon) {
                ": are latitude and longitude swapped?"
            } else {
                ""
            }
        ));
    }
    if !(-180.0..=180.0).contains(&lon) {
        return Err(format!(
            "longitude {lon} is not between -180 and 180 degrees"
        ));
    }
    Ok(())
}

/// Direction in which the great circle from the first place to the second sets out: degrees clockwise
/// from north, at least 0 and below 360; null between equal places. Fails the row for coordinates that
/// are not on the globe.
#[udf]
pub fn bearing(lat1: f64, lon1: f64, lat2: f64, lon2: f64) -> Result<Option<f64>, String> {
    check(lat1, lon1)?;
    check(lat2, lon2)?;
    let (from, to) = (lat1.to_radians(), lat2.to_radians());
    let east = (lon2 - lon1).to_radians();
    let eastward = east.sin() * to.cos();
    let northward = from.cos() * to.sin() - from.sin() * to.cos() * east.cos();
    if eastward == 0.0 && northward == 0.0 {
        return Ok(None);
    }
    let degrees = eastward.atan2(northward).to_degrees();
    let turned = if degrees < 0.0 {
        degrees + 360.0
    } else {
        degrees
    };
    // A direction a hair west of north is rounded to a whole turn.
    Ok(Some(if turned < 360.0 { turned } else { 0.0 }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bearing_of(lat1: f64, lon1: f64, lat2: f64, lon2: f64) -> f64 {
        bearing(lat1, lon1, lat2, lon2)
            .expect("good coordinates")
            .expect("two places")
    }

    #[test]
    fn bearings_turn_clockwise_from_north() {
        assert_eq!(bearing_of(0.0, 0.0, 10.0, 0.0), 0.0);
        assert_eq!(bearing_of(0.0, 0.0, 0.0, 10.0), 90.0);
        assert_eq!(bearing_of(10.0, 0.0, 0.0, 0.0), 180.0);
        assert_eq!(bearing_of(0.0, 0.0, 0.0, -10.0), 270.0);
        // Across the antimeridian.
        assert_eq!(bearing_of(0.0, 179.0, 0.0, -179.0).round(), 90.0);
        // A well-known example: Baghdad to Osaka sets out a little north of east.
        let degrees = bearing_of(35.0, 45.0, 35.0, 135.0);
        assert!((degrees - 60.16).abs() < 0.01, "{degrees}");
        let below_a_turn = bearing_of(0.0, 0.0, 10.0, -1e-300);
        assert!((0.0..360.0).contains(&below_a_turn));
    }

    #[test]
    fn equal_places_have_no_bearing() {
        for lat in [-90.0, -12.3, 0.0, 48.8566, 90.0] {
            assert_eq!(bearing(lat, 2.3522, lat, 2.3522), Ok(None));
        }
    }

    #[test]
    fn places_off_the_globe_are_refused_with_a_reason() {
        for (lat, lon, said) in [
            (90.1, 0.0, "latitude 90.1"),
            (f64::NAN, 0.0, "latitude NaN"),
            (0.0, 180.5, "longitude 180.5"),
            (0.0, f64::NEG_INFINITY, "longitude -inf"),
            (-122.4, 37.8, "swapped"),
        ] {
            let error = check(lat, lon).expect_err("not on the globe");
            assert!(error.contains(said), "{error}");
        }
        assert!(check(-90.0, 180.0).is_ok());
    }
}
