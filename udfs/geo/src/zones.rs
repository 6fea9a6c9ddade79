//! Zones of a map: loaded once per slot, then asked for each place.

use std::collections::HashMap;

use serde_json::Value;
use wasmill_guest::{InitArgs, log, udf};

use crate::coordinates::check;
use crate::geojson::{Feature, features};

/// A map with named zones.
///
/// From a GeoJSON file: `jq '{zones: .}' countries.geojson > init.json`, then `--init @init.json`.
#[derive(InitArgs)]
pub struct ZonesArgs {
    /// GeoJSON (RFC 7946): a FeatureCollection whose features are a Polygon or a MultiPolygon each
    /// (`jq '{zones: .}' map.geojson` makes init arguments of a file).
    /// Edges are straight lines on the grid of degrees. Holes are outside. A polygon that crosses the
    /// antimeridian must be cut there, or go on with longitudes beyond 180.
    pub zones: Value,
    /// The property that names a zone: a text or a number.
    #[init(default = "name", min_length = 1)]
    pub name_property: String,
}

/// Loaded zones.
pub struct Zones {
    zones: Vec<Feature>,
    by_name: HashMap<String, Vec<usize>>,
}

#[udf]
impl Zones {
    /// Loads the zones and logs their number.
    ///
    /// # Errors
    /// When the map is no GeoJSON FeatureCollection of named polygons, or a polygon cannot be
    /// understood.
    pub fn init(args: ZonesArgs) -> Result<Self, String> {
        let zones = features(&args.zones, &args.name_property)?;
        let mut by_name: HashMap<String, Vec<usize>> = HashMap::new();
        for (number, zone) in zones.iter().enumerate() {
            by_name.entry(zone.name.clone()).or_default().push(number);
        }
        log::info!("zones: {} loaded", zones.len());
        Ok(Self { zones, by_name })
    }

    /// Name of the first zone, in the order of the map, that holds a place; null if none does. Of a
    /// border, the south and west belong to a zone, the north and east to its neighbour.
    ///
    /// # Errors
    /// The row fails for coordinates that are not on the globe.
    pub fn locate(&self, lat: f64, lon: f64) -> Result<Option<String>, String> {
        check(lat, lon)?;
        let zone = self.zones.iter().find(|zone| zone.holds(lat, lon));
        Ok(zone.map(|zone| zone.name.clone()))
    }

    /// Whether the zone of this name holds a place. Zones of one name are seen as one.
    ///
    /// # Errors
    /// The row fails for coordinates that are not on the globe, and when no zone has the name.
    pub fn contains(&self, zone: &str, lat: f64, lon: f64) -> Result<bool, String> {
        check(lat, lon)?;
        let Some(numbers) = self.by_name.get(zone) else {
            return Err(format!("the map has no zone \"{zone}\""));
        };
        Ok(numbers
            .iter()
            .filter_map(|number| self.zones.get(*number))
            .any(|zone| zone.holds(lat, lon)))
    }
}

impl Feature {
    fn holds(&self, lat: f64, lon: f64) -> bool {
        self.polygons.iter().any(|polygon| polygon.holds(lat, lon))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use wasmill_guest::testing::{Instance, column, handle};

    fn map() -> Value {
        let square = |west: f64, south: f64, size: f64| {
            let (east, north) = (west + size, south + size);
            json!([
                [west, south],
                [east, south],
                [east, north],
                [west, north],
                [west, south]
            ])
        };
        json!({"type": "FeatureCollection", "name": "test", "features": [
            {"type": "Feature", "properties": {"name": "ring"}, "geometry":
                {"type": "Polygon", "coordinates": [square(0.0, 0.0, 10.0), square(4.0, 4.0, 2.0)]}},
            {"type": "Feature", "properties": {"name": "isles"}, "geometry":
                {"type": "MultiPolygon", "coordinates": [[square(4.5, 4.5, 1.0)], [square(-179.0, 0.0, 5.0)]]}},
            {"type": "Feature", "properties": {"name": "over all"}, "geometry":
                {"type": "Polygon", "coordinates": [square(-20.0, -20.0, 40.0)]}},
            {"type": "Feature", "properties": {"name": "isles"}, "geometry":
                {"type": "Polygon", "coordinates": [square(178.0, 0.0, 5.0)]}},
        ]})
    }

    fn zones() -> Zones {
        let args = ZonesArgs {
            zones: map(),
            name_property: "name".to_owned(),
        };
        Zones::init(args).expect("a good map")
    }

    #[test]
    fn the_first_zone_that_holds_the_place_is_named() {
        let zones = zones();
        let name = |lat, lon| zones.locate(lat, lon).expect("good coordinates");
        assert_eq!(name(1.0, 1.0).as_deref(), Some("ring"));
        assert_eq!(name(5.0, 5.0).as_deref(), Some("isles"));
        assert_eq!(name(4.2, 4.2).as_deref(), Some("over all"));
        assert_eq!(name(1.0, -179.5).as_deref(), Some("isles"));
        assert_eq!(name(80.0, 0.0), None);
        assert!(zones.locate(100.0, 0.0).is_err());
    }

    #[test]
    fn zones_of_one_name_are_one() {
        let zones = zones();
        assert_eq!(zones.contains("isles", 5.0, 5.0), Ok(true));
        assert_eq!(zones.contains("isles", 1.0, 179.0), Ok(true));
        assert_eq!(zones.contains("ring", 5.0, 5.0), Ok(false));
        assert!(zones.contains("nowhere", 5.0, 5.0).is_err());
        assert!(zones.contains("ring", 5.0, f64::NAN).is_err());
    }

    #[test]
    fn nulls_give_null_and_bad_coordinates_fail_their_row_only() {
        let (instance, state) = (Instance::new(), handle!(Zones));
        let args = json!({ "zones": map() }).to_string();
        let handle = instance.init(&state, &args).expect("a good map");
        let lat = column([Some(1.0), None, Some(99.0), Some(80.0)]);
        let lon = column([Some(1.0), Some(1.0), Some(1.0), Some(1.0)]);
        let answer = instance
            .call_on(handle, &state.methods[0], 4, &[lat, lon])
            .expect("the call works");
        let failed: Vec<u32> = answer.errors().iter().map(|error| error.row).collect();
        assert_eq!(failed, [2]);
        assert_eq!(answer.rows::<Option<&str>>()[0], Some("ring"));
        assert_eq!(answer.rows::<Option<&str>>()[3], None);
        let refused = instance.init(&state, "{\"zones\": 7}").err();
        assert!(refused.is_some_and(|why| why.contains("FeatureCollection")));
    }
}
