//! Polygons on the plain grid of degrees, and whether they hold a point.

/// A position of a ring.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Position {
    pub lon: f64,
    pub lat: f64,
}

/// A polygon with its holes. A point on its border belongs to it in the south and west, but not in the
/// north and east, so that of polygons side by side just one holds each point.
pub(crate) struct Polygon {
    bounds: Bounds,
    edges: Vec<Edge>,
    /// Of each [`RUN`] edges, how far south and north they reach.
    runs: Vec<(f64, f64)>,
}

/// Edges that are left out together where their latitudes are others. Neighbours in a ring are near to
/// each other, so that few runs are looked at.
const RUN: usize = 16;

/// The pole itself is seen as the last place before it: there is nothing north of it that could hold
/// its border.
const LAST_BEFORE_POLE: f64 = 90.0_f64.next_down();

struct Bounds {
    south: f64,
    north: f64,
    west: f64,
    east: f64,
}

/// An edge from its lower to its upper end, so that two polygons with a common edge calculate alike.
struct Edge {
    low: Position,
    high: Position,
}

impl Polygon {
    /// A polygon of closed rings: the outer one, and the holes in it.
    pub fn new(rings: &[Vec<Position>]) -> Self {
        let mut edges: Vec<Edge> = Vec::new();
        for ring in rings {
            for (from, to) in ring.iter().zip(ring.iter().skip(1)) {
                // No line to the east can cross an edge that goes east itself.
                if from.lat < to.lat {
                    edges.push(Edge {
                        low: *from,
                        high: *to,
                    });
                } else if from.lat > to.lat {
                    edges.push(Edge {
                        low: *to,
                        high: *from,
                    });
                }
            }
        }
        let reach = |edges: &[Edge]| {
            let south = edges.iter().map(|edge| edge.low.lat);
            let north = edges.iter().map(|edge| edge.high.lat);
            (
                south.fold(f64::INFINITY, f64::min),
                north.fold(f64::NEG_INFINITY, f64::max),
            )
        };
        let (south, north) = reach(&edges);
        let lons = || edges.iter().flat_map(|edge| [edge.low.lon, edge.high.lon]);
        Self {
            bounds: Bounds {
                south,
                north,
                west: lons().fold(f64::INFINITY, f64::min),
                east: lons().fold(f64::NEG_INFINITY, f64::max),
            },
            runs: edges.chunks(RUN).map(reach).collect(),
            edges,
        }
    }

    /// Whether the polygon holds the point. Its longitudes may go on beyond ±180.
    pub fn holds(&self, lat: f64, lon: f64) -> bool {
        let lat = lat.min(LAST_BEFORE_POLE);
        if lat < self.bounds.south || lat >= self.bounds.north {
            return false;
        }
        [lon, lon - 360.0, lon + 360.0]
            .into_iter()
            .filter(|lon| self.bounds.west <= *lon && *lon < self.bounds.east)
            .any(|lon| self.edges_to_the_east(lat, lon) % 2 == 1)
    }

    fn edges_to_the_east(&self, lat: f64, lon: f64) -> usize {
        let mut count = 0;
        for (edges, (south, north)) in self.edges.chunks(RUN).zip(&self.runs) {
            if lat < *south || lat >= *north {
                continue;
            }
            count += edges
                .iter()
                .filter(|edge| edge.low.lat <= lat && lat < edge.high.lat)
                .filter(|edge| lon < edge.lon_at(lat))
                .count();
        }
        count
    }
}

impl Edge {
    fn lon_at(&self, lat: f64) -> f64 {
        let share = (lat - self.low.lat) / (self.high.lat - self.low.lat);
        self.low.lon + share * (self.high.lon - self.low.lon)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(positions: &[(f64, f64)]) -> Vec<Position> {
        positions
            .iter()
            .map(|(lon, lat)| Position {
                lon: *lon,
                lat: *lat,
            })
            .collect()
    }

    fn rectangle(west: f64, south: f64, east: f64, north: f64) -> Vec<Position> {
        ring(&[
            (west, south),
            (east, south),
            (east, north),
            (west, north),
            (west, south),
        ])
    }

    #[test]
    fn holes_are_outside() {
        let polygon = Polygon::new(&[
            rectangle(0.0, 0.0, 10.0, 10.0),
            rectangle(4.0, 4.0, 6.0, 6.0),
        ]);
        assert!(polygon.holds(2.0, 2.0));
        assert!(!polygon.holds(5.0, 5.0));
        assert!(polygon.holds(5.0, 7.0));
        assert!(!polygon.holds(5.0, 10.5));
        assert!(!polygon.holds(-0.1, 5.0));
    }

    #[test]
    fn a_border_belongs_to_one_side() {
        let (a, b) = ((0.1, 0.3), (7.7, 9.1));
        let left = Polygon::new(&[ring(&[a, b, (-5.0, 9.1), (-5.0, 0.3), a])]);
        let right = Polygon::new(&[ring(&[b, a, (20.0, 0.3), (20.0, 9.1), b])]);
        for step in 0..1000 {
            let share = f64::from(step) / 1000.0;
            let (lat, lon) = (0.3 + share * 8.8, 0.1 + share * 7.6);
            assert!(left.holds(lat, lon) != right.holds(lat, lon), "{share}");
        }
        let below = Polygon::new(&[rectangle(0.0, 0.0, 1.0, 1.0)]);
        let above = Polygon::new(&[rectangle(0.0, 1.0, 1.0, 2.0)]);
        assert!(!below.holds(1.0, 0.5) && above.holds(1.0, 0.5));
    }

    #[test]
    fn longitudes_go_on_beyond_the_antimeridian() {
        let polygon = Polygon::new(&[rectangle(175.0, -20.0, 185.0, -10.0)]);
        assert!(polygon.holds(-15.0, 178.0));
        assert!(polygon.holds(-15.0, -178.0));
        assert!(polygon.holds(-15.0, 180.0) && polygon.holds(-15.0, -180.0));
        assert!(!polygon.holds(-15.0, -170.0));
    }

    #[test]
    fn a_polygon_of_the_whole_map_holds_every_place() {
        let polygon = Polygon::new(&[rectangle(-180.0, -90.0, 180.0, 90.0)]);
        for lat in [-90.0, 0.0, 90.0] {
            for lon in [-180.0, 0.0, 180.0] {
                assert!(polygon.holds(lat, lon), "{lat} {lon}");
            }
        }
    }

    #[test]
    fn a_polygon_without_area_holds_nothing() {
        let flat = Polygon::new(&[ring(&[(0.0, 0.0), (5.0, 0.0), (9.0, 0.0), (0.0, 0.0)])]);
        assert!(!flat.holds(0.0, 3.0));
    }

    #[test]
    fn many_edges_are_as_good_as_few() {
        let circle: Vec<(f64, f64)> = (0..=1000)
            .map(|step| f64::from(step % 1000) / 1000.0 * std::f64::consts::TAU)
            .map(|angle| (10.0 * angle.cos(), 10.0 * angle.sin()))
            .collect();
        let circle = Polygon::new(&[ring(&circle)]);
        for x in -12..=12 {
            for y in -12..=12 {
                let (x, y) = (f64::from(x) * 0.97, f64::from(y) * 0.97);
                assert_eq!(circle.holds(y, x), x.hypot(y) < 9.999, "{x} {y}");
            }
        }
    }
}
