//! Spatial data: points and rectangles from files, bundled ones, and synthetic ones.
//!
//! - CSV with a header: `lon`,`lat` or `x`,`y` make points, `xmin`,`ymin`,`xmax`,`ymax` rectangles. `id` is
//!   the entry's number, by default the number of the line. Other columns are ignored.
//! - GeoJSON: each feature is an entry, a point or the box around its geometry. Its number is the feature's
//!   `id`, by default its position.
//!
//! Either may be packed with zstd. The first line or feature that makes no sense is named in the error. Two
//! entries with the same number are refused, because answers are compared by number.

use super::registry::Number;
use crate::data as folder;
use crate::error::LabError;
use crate::input::{self, BoundedLines, Plain};
use geojson::feature::Id;
use geojson::{Feature, FeatureCollection, GeoJson, GeometryValue, Position};
use nandex::rng::{Rng, split_mix};
use nandex::spatial::Rect;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// A named set of spatial entries.
#[derive(Clone, Debug, PartialEq)]
pub struct Dataset<C, const D: usize> {
    /// The data's name in results.
    pub name: String,
    /// The entries, each with a number of its own.
    pub entries: Vec<(Rect<C, D>, u64)>,
    /// Number of features of the file that are nowhere, such as one whose geometry is null, and no entries.
    pub passed_over: u64,
}

/// A dataset that comes with the program or is made by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bundled {
    /// The data's name on the command line.
    pub name: &'static str,
    /// The data in one line, for lists.
    pub summary: &'static str,
}

/// All bundled datasets.
pub const BUNDLED: &[Bundled] = &[
    Bundled { name: "places", summary: "8,168 places of GeoNames as points, real" },
    Bundled { name: "rivers", summary: "3,964 runs of rivers and borders as rectangles, real" },
    Bundled { name: "uniform", summary: "10,000 small rectangles anywhere in the unit square" },
    Bundled { name: "clustered", summary: "10,000 points in 50 clusters of falling size" },
];

/// Size of the largest accepted GeoJSON file in bytes; it is held in memory as a whole.
const GEOJSON_BYTES_MAX: u64 = 1 << 30;

/// Number of entries of a synthetic dataset.
const SYNTHETIC: usize = 10_000;

/// Seed of the synthetic datasets. It does not depend on the seed of the operations, so the data are always
/// the same.
const SYNTHETIC_SEED: u64 = 1984;

/// Finds a dataset by name: a bundled one, or else a file, which may be in the folder of inputs (see
/// [`crate::data`]).
pub fn find(name: &str) -> Result<Dataset<f64, 2>, LabError> {
    let entries = match name {
        "places" => bundled("data/places.csv.zst", nandex_data::PLACES)?,
        "rivers" => bundled("data/rivers.csv.zst", nandex_data::RIVERS)?,
        "uniform" => uniform(SYNTHETIC, 1.0, SYNTHETIC_SEED),
        "clustered" => clustered(SYNTHETIC, 1.0, SYNTHETIC_SEED),
        file if Path::new(file).exists() => return read(Path::new(file)),
        _ => {
            // A name without a dot or a slash was hardly meant as a file.
            if !name.contains(['.', '/']) {
                return Err(LabError::unknown("data", name, BUNDLED.iter().map(|set| set.name)));
            }
            return match folder::find(name, None) {
                Ok(path) => read(&path),
                Err(_) => Err(LabError::io(name, std::io::ErrorKind::NotFound.into())),
            };
        }
    };
    Ok(Dataset { name: name.to_string(), entries, passed_over: 0 })
}

/// Reads a dataset from a file.
pub fn read(path: &Path) -> Result<Dataset<f64, 2>, LabError> {
    let mut input = input::open(path)?;
    let file = path.display().to_string();
    let start = input.fill_buf().map_err(|error| LabError::io(&file, error))?;
    let start = input::without_mark(start);
    let (entries, passed_over) = match start.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'{') => {
            let Places { entries, passed_over } =
                read_geojson(&file, &input::read(path, GEOJSON_BYTES_MAX)?[..])?;
            (entries, passed_over)
        }
        _ => (read_csv(&file, input)?, 0),
    };
    let name = path.file_name().map_or(file, |name| name.to_string_lossy().into_owned());
    Ok(Dataset { name, entries, passed_over })
}

fn bundled(file: &str, packed: &[u8]) -> Result<Vec<(Rect<f64, 2>, u64)>, LabError> {
    let bytes = zstd::stream::decode_all(packed).map_err(|error| LabError::io(file, error))?;
    read_csv(file, &bytes[..])
}

fn wrong(file: &str, place: String, reason: impl Into<String>) -> LabError {
    LabError::Trace { file: file.to_string(), place: Some(place), reason: reason.into() }
}

struct Columns {
    id: Option<usize>,
    /// Columns of the lower and the upper corner; for a point they are the same.
    corners: [usize; 4],
}

impl Columns {
    fn of(header: &csv::StringRecord) -> Option<Columns> {
        let column = |name: &str| header.iter().position(|head| head.trim().eq_ignore_ascii_case(name));
        let all = |names: [&str; 4]| -> Option<[usize; 4]> {
            let [a, b, c, d] = names.map(column);
            Some([a?, b?, c?, d?])
        };
        let corners = all(["xmin", "ymin", "xmax", "ymax"])
            .or_else(|| all(["lon", "lat", "lon", "lat"]))
            .or_else(|| all(["longitude", "latitude", "longitude", "latitude"]))
            .or_else(|| all(["x", "y", "x", "y"]))?;
        Some(Columns { id: column("id"), corners })
    }
}

/// Reads rectangles with their numbers from a CSV file; `file` is its name for errors.
pub fn read_csv(file: &str, input: impl Read) -> Result<Vec<(Rect<f64, 2>, u64)>, LabError> {
    let mut reader = csv::Reader::from_reader(BoundedLines::new(input));
    let header = reader.headers().map_err(|error| wrong(file, "line 1".into(), error.to_string()))?;
    let Some(columns) = Columns::of(header) else {
        let reason = "the header has neither lon and lat, nor x and y, nor xmin, ymin, xmax and ymax";
        return Err(wrong(file, "line 1".into(), reason));
    };
    let mut entries = Vec::new();
    let mut seen = BTreeSet::new();
    let mut record = csv::StringRecord::new();
    loop {
        let line = reader.position().line();
        let at = || format!("line {line}");
        match reader.read_record(&mut record) {
            Ok(true) => {}
            Ok(false) => return Ok(entries),
            Err(error) => return Err(wrong(file, at(), csv_words(&error))),
        }
        let mut corners = [0.0; 4];
        for (number, &column) in corners.iter_mut().zip(&columns.corners) {
            let text = record.get(column).unwrap_or_default().trim();
            *number = text.parse().map_err(|_| wrong(file, at(), format!("'{text}' is no number")))?;
        }
        let [left, low, right, high] = corners;
        let rect = Rect::new([left, low], [right, high]).map_err(|why| wrong(file, at(), why.to_string()))?;
        let id = match columns.id.map(|column| record.get(column).unwrap_or_default().trim()) {
            None => line,
            Some(text) => {
                text.parse().map_err(|_| wrong(file, at(), format!("id '{text}' is no whole number")))?
            }
        };
        if !seen.insert(id) {
            return Err(wrong(file, at(), format!("id {id} is there twice")));
        }
        entries.push((rect, id));
    }
}

/// The reason of an error without its position, which the caller reports.
fn csv_words(error: &csv::Error) -> String {
    match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("{len} fields where the header has {expected_len}")
        }
        csv::ErrorKind::Utf8 { .. } => String::from("is no UTF-8"),
        _ => error.to_string(),
    }
}

/// The entries of a GeoJSON file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Places {
    /// The rectangles around the features that are somewhere, with their numbers.
    pub entries: Vec<(Rect<f64, 2>, u64)>,
    /// Number of features without a position: their geometry is null or empty, as RFC 7946 allows.
    pub passed_over: u64,
}

/// Reads the features of a GeoJSON file as the rectangles around them; `file` is its name for errors.
pub fn read_geojson(file: &str, input: impl Read) -> Result<Places, LabError> {
    let input = BufReader::new(Plain::new(input));
    let whole: GeoJson = serde_json::from_reader(input).map_err(|error| {
        let place = format!("line {}", error.line());
        wrong(file, place, error.to_string())
    })?;
    let features: Vec<Feature> = match whole {
        GeoJson::FeatureCollection(FeatureCollection { features, .. }) => features,
        GeoJson::Feature(feature) => vec![feature],
        GeoJson::Geometry(geometry) => vec![geometry.into()],
    };
    let mut places = Places::default();
    let mut seen = BTreeSet::new();
    for (number, feature) in (1..).zip(&features) {
        let wrong = |reason: &str| wrong(file, format!("feature {number}"), reason);
        let mut corners = None;
        if let Some(geometry) = &feature.geometry {
            bound(&geometry.value, &mut corners).map_err(wrong)?;
        }
        let Some([low, high]) = corners else {
            places.passed_over += 1;
            continue;
        };
        let rect = Rect::new(low, high).map_err(|why| wrong(&why.to_string()))?;
        let id = match &feature.id {
            None => number,
            Some(Id::Number(id)) => id.as_u64().ok_or_else(|| wrong("has an id that is no whole number"))?,
            Some(Id::String(id)) => {
                id.parse().map_err(|_| wrong(&format!("has the id '{id}', which is no whole number")))?
            }
        };
        if !seen.insert(id) {
            return Err(wrong(&format!("has the id {id} of another")));
        }
        places.entries.push((rect, id));
    }
    Ok(places)
}

type Corners = Option<[[f64; 2]; 2]>;

/// Widens the corners so that they contain the geometry.
fn bound(value: &GeometryValue, corners: &mut Corners) -> Result<(), &'static str> {
    use GeometryValue as G;
    match value {
        G::Point { coordinates } => widen(coordinates, corners),
        G::MultiPoint { coordinates } | G::LineString { coordinates } => {
            coordinates.iter().try_for_each(|at| widen(at, corners))
        }
        G::MultiLineString { coordinates } | G::Polygon { coordinates } => {
            coordinates.iter().flatten().try_for_each(|at| widen(at, corners))
        }
        G::MultiPolygon { coordinates } => {
            coordinates.iter().flatten().flatten().try_for_each(|at| widen(at, corners))
        }
        G::GeometryCollection { geometries } => {
            geometries.iter().try_for_each(|geometry| bound(&geometry.value, corners))
        }
    }
}

fn widen(position: &Position, corners: &mut Corners) -> Result<(), &'static str> {
    let [x, y, ..] = *position.as_slice() else { return Err("has a position of fewer than two numbers") };
    let [low, high] = corners.get_or_insert([[x, y]; 2]);
    for (axis, at) in [x, y].into_iter().enumerate() {
        low[axis] = low[axis].min(at);
        high[axis] = high[axis].max(at);
    }
    Ok(())
}

/// Rectangles at random positions from 0 to `side` on each axis. Their sides are at most a thousandth of
/// `side`.
pub fn uniform<C: Number, const D: usize>(count: usize, side: f64, seed: u64) -> Vec<(Rect<C, D>, u64)> {
    let mut rng = Rng::new(seed ^ split_mix(11));
    let numbered = (0..count as u64).filter_map(|id| {
        let low: [f64; D] = core::array::from_fn(|_| unit(&mut rng) * side);
        let high = low.map(|at| at + unit(&mut rng) * side / 1000.0);
        Some((rect(low, high)?, id))
    });
    numbered.collect()
}

/// Points around 50 centres. Each centre has nine tenths as many points as the previous one.
pub fn clustered<C: Number, const D: usize>(count: usize, side: f64, seed: u64) -> Vec<(Rect<C, D>, u64)> {
    const CLUSTERS: usize = 50;
    let mut rng = Rng::new(seed ^ split_mix(12));
    let centres: Vec<[f64; D]> =
        (0..CLUSTERS).map(|_| core::array::from_fn(|_| unit(&mut rng) * side)).collect();
    let numbered = (0..count as u64).filter_map(|id| {
        let mut cluster = 0;
        while cluster + 1 < CLUSTERS && rng.below(10) != 0 {
            cluster += 1;
        }
        // The mean of four numbers falls off from the centre as a bell does, near enough.
        let mut off = || (0..4).map(|_| unit(&mut rng) - 0.5).sum::<f64>() / 4.0 * side / 10.0;
        let at: [f64; D] = centres[cluster].map(|centre| centre + off());
        Some((rect(at, at)?, id))
    });
    numbered.collect()
}

fn rect<C: Number, const D: usize>(low: [f64; D], high: [f64; D]) -> Option<Rect<C, D>> {
    let corner = |from: [f64; D]| -> Option<[C; D]> {
        let numbers: Vec<C> = from.into_iter().filter_map(C::of_f64).collect();
        numbers.try_into().ok()
    };
    Rect::new(corner(low)?, corner(high)?).ok()
}

/// A random number at least 0 and below 1, made of 53 random bits.
fn unit(rng: &mut Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn csv(text: &str) -> Result<Vec<(Rect<f64, 2>, u64)>, String> {
        read_csv("x.csv", text.as_bytes()).map_err(|error| error.to_string())
    }

    fn json(text: &str) -> Result<Places, String> {
        read_geojson("x.json", text.as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn points_and_rectangles_are_read_by_their_header() {
        let point = |x, y| Rect::point([x, y]).unwrap();
        assert_eq!(csv("id,lon,lat,population\n7,1.5,-2,9\n"), Ok(vec![(point(1.5, -2.0), 7)]));
        assert_eq!(csv("x,y\n1,2\n3,4\n"), Ok(vec![(point(1.0, 2.0), 2), (point(3.0, 4.0), 3)]));
        let rect = Rect::new([0.0, 1.0], [2.0, 3.0]).unwrap();
        assert_eq!(csv("id,xmin,ymin,xmax,ymax\n4,0,1,2,3\n"), Ok(vec![(rect, 4)]));
    }

    #[test]
    fn each_wrong_line_is_named() {
        let refused = |text: &str| csv(text).unwrap_err();
        assert_eq!(refused("id,lon,lat\n1,2,3\n2,east,4\n"), "x.csv: line 3: 'east' is no number");
        assert_eq!(
            refused("id,lon,lat\n1,2,NaN\n"),
            "x.csv: line 2: a coordinate of axis 1 is NaN or infinite"
        );
        assert!(refused("xmin,ymin,xmax,ymax\n5,0,1,2\n").contains("line 2: the lower side of axis 0"));
        assert_eq!(refused("id,lon,lat\n1,2,3\n1,2,3\n"), "x.csv: line 3: id 1 is there twice");
        assert_eq!(refused("id,lon,lat\n1,2\n"), "x.csv: line 2: 2 fields where the header has 3");
        assert!(refused("a,b\n").starts_with("x.csv: line 1: the header has neither lon"));
        assert!(refused("id,lon,lat\nx,2,3\n").contains("id 'x' is no whole number"));
    }

    #[test]
    fn features_become_the_boxes_around_them() {
        let text = r#"{"type":"FeatureCollection","features":[
            {"type":"Feature","id":9,"properties":null,"geometry":{"type":"Point","coordinates":[1,2]}},
            {"type":"Feature","properties":{},"geometry":
                {"type":"LineString","coordinates":[[3,9],[1,4],[2,5]]}}]}"#;
        let expected =
            vec![(Rect::point([1.0, 2.0]).unwrap(), 9), (Rect::new([1.0, 4.0], [3.0, 9.0]).unwrap(), 2)];
        assert_eq!(json(text), Ok(Places { entries: expected, passed_over: 0 }));
        assert!(json("{\"type\":\n\"Feature\",,}").unwrap_err().starts_with("x.json: line 2: "));
    }

    #[test]
    fn features_that_are_nowhere_are_passed_over_and_counted() {
        let feature = |geometry: &str| {
            format!(r#"{{"type":"Feature","id":7,"properties":null,"geometry":{geometry}}}"#)
        };
        let point = feature(r#"{"type":"Point","coordinates":[1,2]}"#);
        let read = Places { entries: vec![(Rect::point([1.0, 2.0]).unwrap(), 7)], passed_over: 0 };
        let nowhere = [
            "null",
            r#"{"type":"MultiPoint","coordinates":[]}"#,
            r#"{"type":"LineString","coordinates":[]}"#,
            r#"{"type":"MultiLineString","coordinates":[[]]}"#,
            r#"{"type":"Polygon","coordinates":[]}"#,
            r#"{"type":"MultiPolygon","coordinates":[]}"#,
            r#"{"type":"GeometryCollection","geometries":[]}"#,
        ];
        for geometry in nowhere {
            let empty = feature(geometry);
            let alone = Places { entries: Vec::new(), passed_over: 1 };
            assert_eq!(json(&empty), Ok(alone.clone()), "{geometry}");
            if geometry != "null" {
                assert_eq!(json(geometry), Ok(alone), "{geometry}");
            }
            for features in [format!("{empty},{point}"), format!("{point},{empty}")] {
                let text = format!(r#"{{"type":"FeatureCollection","features":[{features}]}}"#);
                assert_eq!(json(&text), Ok(Places { passed_over: 1, ..read.clone() }), "{geometry}");
            }
        }
        assert_eq!(json(r#"{"type":"FeatureCollection","features":[]}"#), Ok(Places::default()));
        let partly = r#"{"type":"GeometryCollection","geometries":[{"type":"MultiPoint","coordinates":[]},
            {"type":"Point","coordinates":[1,2]}]}"#;
        assert_eq!(json(&feature(partly)), Ok(read));
        let short = json(&feature(r#"{"type":"LineString","coordinates":[[1,2],[]]}"#)).unwrap_err();
        assert!(short.contains("position"), "{short}");
    }

    #[test]
    fn the_bundled_sets_are_there() {
        let sizes = [("places", 8168), ("rivers", 3964), ("uniform", 10_000), ("clustered", 10_000)];
        for (name, size) in sizes {
            assert_eq!(find(name).unwrap().entries.len(), size, "{name}");
        }
        assert_eq!(BUNDLED.len(), sizes.len());
        assert!(find("placs").unwrap_err().to_string().contains("did you mean 'places'?"));
        assert!(find("no/such.csv").unwrap_err().to_string().starts_with("no/such.csv: "));
    }

    #[test]
    fn synthetic_sets_follow_from_their_seed() {
        assert_eq!(uniform::<f64, 3>(50, 1.0, 1), uniform(50, 1.0, 1));
        assert_ne!(uniform::<f64, 3>(50, 1.0, 1), uniform(50, 1.0, 2));
        let points = clustered::<i32, 2>(500, 1e6, 1);
        assert!(points.len() == 500 && points.iter().all(|(rect, _)| rect.low() == rect.high()));
    }
}
