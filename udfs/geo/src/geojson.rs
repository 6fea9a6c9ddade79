//! Reads polygons from GeoJSON (RFC 7946). Errors say which feature is meant and what to do.

use serde_json::Value;

use crate::polygon::{Polygon, Position};

/// The polygons of one feature, and its name.
pub(crate) struct Feature {
    pub name: String,
    pub polygons: Vec<Polygon>,
}

/// The features of a FeatureCollection, named by one of their properties.
pub(crate) fn features(collection: &Value, name_property: &str) -> Result<Vec<Feature>, String> {
    let features = match (&collection["type"], &collection["features"]) {
        (Value::String(kind), Value::Array(features)) if kind == "FeatureCollection" => features,
        _ => {
            return Err(
                "`zones` is not a GeoJSON FeatureCollection: it needs \"type\": \
                 \"FeatureCollection\" and a list of \"features\""
                    .to_owned(),
            );
        }
    };
    let numbered = features.iter().enumerate();
    numbered
        .map(|(number, feature)| {
            let name = name(&feature["properties"], name_property)
                .map_err(|why| format!("features[{number}]: {why}"))?;
            let polygons = polygons(&feature["geometry"])
                .map_err(|why| format!("features[{number}] (\"{name}\"): {why}"))?;
            Ok(Feature { name, polygons })
        })
        .collect()
}

fn name(properties: &Value, name_property: &str) -> Result<String, String> {
    match properties.get(name_property) {
        Some(Value::String(name)) => Ok(name.clone()),
        Some(Value::Number(number)) => Ok(number.to_string()),
        Some(_) => Err(format!(
            "its property \"{name_property}\" is neither text nor a number; say with \
             `name_property` which one names the zones"
        )),
        None => {
            let keys: Vec<&str> = properties
                .as_object()
                .map(|properties| properties.keys().map(String::as_str).take(20).collect())
                .unwrap_or_default();
            Err(format!(
                "it has no property \"{name_property}\", which should name the zone; say with \
                 `name_property` which one does (there are: {})",
                keys.join(", ")
            ))
        }
    }
}

fn polygons(geometry: &Value) -> Result<Vec<Polygon>, String> {
    let coordinates = geometry["coordinates"].as_array();
    match (geometry["type"].as_str(), coordinates) {
        (Some("Polygon"), Some(rings)) => Ok(vec![polygon(rings)?]),
        (Some("MultiPolygon"), Some(polygons)) => polygons
            .iter()
            .map(|rings| polygon(rings.as_array().ok_or("a polygon is not a list of rings")?))
            .collect(),
        (kind, _) => Err(format!(
            "its geometry is {}, and only a Polygon or MultiPolygon with coordinates can hold \
             places: leave the feature out",
            kind.unwrap_or("missing")
        )),
    }
}

fn polygon(rings: &[Value]) -> Result<Polygon, String> {
    let rings: Result<Vec<_>, String> = rings.iter().map(ring).collect();
    Ok(Polygon::new(&rings?))
}

fn ring(positions: &Value) -> Result<Vec<Position>, String> {
    let positions: Vec<Position> = positions
        .as_array()
        .ok_or("a ring is not a list of positions")?
        .iter()
        .map(position)
        .collect::<Result<_, _>>()?;
    if positions.len() < 4 || positions.first() != positions.last() {
        return Err("a ring must have at least four positions, and end where it begins".to_owned());
    }
    for (from, to) in positions.iter().zip(positions.iter().skip(1)) {
        let width = (to.lon - from.lon).abs();
        // Maps close polygons around a pole along their own border.
        if width > 180.0 && width != 360.0 {
            return Err(format!(
                "an edge goes from longitude {} to {}, more than half round the globe. A polygon \
                 that crosses the antimeridian must be cut there into two, or go on with \
                 longitudes beyond 180",
                from.lon, to.lon
            ));
        }
    }
    Ok(positions)
}

fn position(position: &Value) -> Result<Position, String> {
    let [Some(lon), Some(lat)] = [0, 1].map(|at| position.get(at).and_then(Value::as_f64)) else {
        return Err(format!(
            "{position} is not a position: it needs longitude and latitude"
        ));
    };
    if !(-360.0..=360.0).contains(&lon) || !(-90.0..=90.0).contains(&lat) {
        return Err(format!(
            "the position {position} is not on the globe: degrees are needed, longitude first"
        ));
    }
    Ok(Position { lon, lat })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn refusal(geometry: &Value) -> String {
        let collection = json!({"type": "FeatureCollection", "features": [
            {"type": "Feature", "properties": {"name": "here"}, "geometry": geometry},
        ]});
        features(&collection, "name")
            .err()
            .expect("the geometry is refused")
    }

    #[test]
    fn what_cannot_hold_places_is_refused_with_its_name() {
        for (geometry, said) in [
            (json!(null), "missing"),
            (json!({"type": "Point", "coordinates": [1, 2]}), "Point"),
            (json!({"type": "Polygon"}), "Polygon"),
            (json!({"type": "Polygon", "coordinates": [7]}), "ring"),
            (
                json!({"type": "MultiPolygon", "coordinates": [7]}),
                "list of rings",
            ),
            (
                json!({"type": "Polygon", "coordinates": [[[0, 0], [1, 1], [0, 0]]]}),
                "four",
            ),
            (
                json!({"type": "Polygon", "coordinates": [[[0, 0], [1, 1], [2, 0], [0, 1]]]}),
                "end where it begins",
            ),
            (
                json!({"type": "Polygon", "coordinates": [[["a", 0], [1, 1], [2, 0], [0, 1]]]}),
                "longitude and latitude",
            ),
            (
                json!({"type": "Polygon", "coordinates": [[[0, 100], [1, 1], [2, 0], [0, 1]]]}),
                "longitude first",
            ),
            (
                json!({"type": "Polygon", "coordinates":
                    [[[179, 0], [-179, 0], [-179, 5], [179, 5], [179, 0]]]}),
                "antimeridian",
            ),
        ] {
            let error = refusal(&geometry);
            assert!(error.contains("features[0] (\"here\")"), "{error}");
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn names_come_from_the_property_that_is_named() {
        let square = json!({"type": "Polygon", "coordinates":
            [[[0, 0], [1, 0], [1, 1], [0, 1], [0, 0]]]});
        let collection = json!({"type": "FeatureCollection", "features": [
            {"properties": {"id": 7, "title": "seven", "other": null}, "geometry": square},
        ]});
        let name = |property| features(&collection, property).map(|all| all[0].name.clone());
        assert_eq!(name("title").as_deref(), Ok("seven"));
        assert_eq!(name("id").as_deref(), Ok("7"));
        let error = name("name").expect_err("no such property");
        assert!(error.contains("id, other, title"), "{error}");
        assert!(name("other").is_err());
        assert!(features(&json!([]), "name").is_err());
        assert!(features(&json!({"type": "FeatureCollection"}), "name").is_err());
    }
}
