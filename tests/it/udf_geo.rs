//! The module `geo`: geohashes and zones of real airports.

use std::collections::HashMap;

use crate::cli::{Workplace, data, module};
use crate::cli_run::{run, run_with};

/// Two states of the USA whose borders are parallels and meridians, one with a notch, and a zone that
/// crosses the antimeridian.
const MAP: &str = r#"{"zones": {"type": "FeatureCollection", "features": [
    {"type": "Feature", "properties": {"name": "Colorado"}, "geometry": {"type": "Polygon", "coordinates":
        [[[-109.0452, 37], [-102.0424, 37], [-102.0424, 41], [-109.0452, 41], [-109.0452, 37]]]}},
    {"type": "Feature", "properties": {"name": "Utah"}, "geometry": {"type": "MultiPolygon", "coordinates":
        [[[[-114.0525, 37], [-109.0452, 37], [-109.0452, 41], [-111.0467, 41], [-111.0467, 42],
           [-114.0525, 42], [-114.0525, 37]]]]}},
    {"type": "Feature", "properties": {"name": "Fiji"}, "geometry": {"type": "Polygon", "coordinates":
        [[[176, -20], [182, -20], [182, -15], [176, -15], [176, -20]]]}}
]}}"#;

/// The last column of a CSV file by its first.
fn last_by_first(csv: &str) -> HashMap<&str, &str> {
    csv.lines()
        .filter_map(|line| Some((line.split_once(',')?.0, line.rsplit_once(',')?.1)))
        .collect()
}

#[test]
fn airports_have_their_geohashes() {
    let Some(airports) = data("real/airports.csv") else {
        return;
    };
    let workplace = Workplace::new();
    let airports = airports.to_str().expect("UTF-8");
    let rest = ["-i", airports, "-o", "out.csv", "--arg", "precision=lit:8"];
    run_with(&workplace, &module("geo"), "geohash", &rest).success();
    let text = std::fs::read_to_string(workplace.path("out.csv")).expect("a file");
    let hashes = last_by_first(&text);
    // Calculated with fractions, which round nothing.
    for (airport, hash) in [
        ("JFK", "dr5x1n5z"),
        ("LAX", "9q5c1e1c"),
        ("ANC", "bdvk48ry"),
        ("HNL", "87z9q2uq"),
    ] {
        assert_eq!(hashes.get(airport), Some(&hash), "{airport}");
    }
    assert_eq!(hashes.len(), 1459);
}

#[test]
fn airports_are_found_in_their_states() {
    let Some(airports) = data("real/airports.csv") else {
        return;
    };
    let workplace = Workplace::new();
    workplace.file("map.json", MAP);
    let airports = airports.to_str().expect("UTF-8");
    let rest = [
        "-i",
        airports,
        "-o",
        "out.csv",
        "--init",
        "@map.json",
        "--as",
        "zone",
        "--slots",
        "2",
    ];
    run_with(&workplace, &module("geo"), "locate", &rest).success();
    let text = std::fs::read_to_string(workplace.path("out.csv")).expect("a file");
    let zones = last_by_first(&text);
    assert_eq!(zones.get("DEN"), Some(&"Colorado"));
    assert_eq!(zones.get("SLC"), Some(&"Utah"));
    assert_eq!(zones.get("JFK"), Some(&""));
    let count = |zone: &str| zones.values().filter(|found| **found == zone).count();
    assert_eq!((count("Colorado"), count("Utah")), (26, 16));
}

#[test]
fn zones_cross_the_antimeridian_and_bad_coordinates_are_reported() {
    let workplace = Workplace::new();
    workplace.file("map.json", MAP);
    workplace.file(
        "in.csv",
        "lat,lon\n-17.7,178.5\n-16.8,-179.9\n,0.5\n0.5,0.5\n",
    );
    run(
        &workplace,
        "geo",
        "locate",
        "-i in.csv -o out.csv --init @map.json",
    )
    .success();
    assert_eq!(
        std::fs::read_to_string(workplace.path("out.csv")).expect("a file"),
        "lat,lon,locate\n-17.7,178.5,Fiji\n-16.8,-179.9,Fiji\n,0.5,\n0.5,0.5,\n"
    );
    workplace.file("in.csv", "lat,lon\n0.5,0.5\n90.5,0.5\n");
    let ended = run(
        &workplace,
        "geo",
        "locate",
        "-i in.csv -o out.csv --init @map.json",
    );
    let said = ended.stderr();
    assert_eq!(ended.code(), 1, "{said}");
    assert!(
        said.contains("row 1") && said.contains("latitude 90.5"),
        "{said}"
    );
}
