//! Places on the Earth: geohashes, bearings, and which zone of a map holds a place.
//!
//! Latitudes and longitudes are degrees (WGS 84 or any other; the functions work on a sphere or on the
//! plain grid of degrees). A latitude beyond ±90, a longitude beyond ±180 or a coordinate that is no
//! number fails its row. The distance between two places is `haversine` of the module `math`.

mod coordinates;
mod geohash;
mod geojson;
mod polygon;
mod zones;

pub use coordinates::bearing;
pub use geohash::{Place, geohash, geohash_decode};
pub use zones::{Zones, ZonesArgs};
