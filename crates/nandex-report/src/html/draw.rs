//! Figures as data for `plot.js`, which draws them as SVG in the page.
//!
//! A figure has axes and series. A series has two columns of numbers. On an axis of names, the numbers are
//! positions in the list of names. An index has the same colour, mark and dash in all figures, by its
//! position in the order asked for; no two share colour and mark. Colours are tokens (`s0`, `c1`, ...) that
//! the page's style defines for light and dark.

use serde::{Serialize, Serializer};

/// Marks of series as text. `plot.js` draws the same shapes in this order.
pub(super) const GLYPHS: [&str; 8] =
    ["\u{25cf}", "\u{25a0}", "\u{25c6}", "\u{25b2}", "\u{25bc}", "\u{2605}", "\u{271a}", "\u{2716}"];

/// Number of colours for series in the page's style.
const COLOURS: usize = 12;

/// Number of series with different combinations of colour and mark.
#[cfg(test)]
pub(super) const DISTINCT: usize = COLOURS * GLYPHS.len();

/// The colour token of a series.
pub(super) fn token(series: usize) -> String {
    format!("s{}", series % COLOURS)
}

/// The mark of a series. It changes each time the colours repeat.
pub(super) fn mark(series: usize) -> usize {
    (series % COLOURS + 3 * (series / COLOURS)) % GLYPHS.len()
}

/// The mark of a series as text.
pub(super) fn glyph(series: usize) -> &'static str {
    GLYPHS[mark(series)]
}

/// The name under which a series is switched on and off.
pub(super) fn group(series: usize) -> String {
    format!("g{series}")
}

#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Figure {
    /// Identifier of the page element that holds the plot.
    pub(super) id: String,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) series: Vec<Series>,
    /// Whether bars are stacked; otherwise they stand side by side.
    #[serde(skip_serializing_if = "is_no")]
    pub(super) stacked: bool,
    /// Whether bars point to the right, so that `x` has the values and `y` the names.
    #[serde(skip_serializing_if = "is_no")]
    pub(super) sideways: bool,
    /// Whether the names of the series stand above the plot.
    #[serde(skip_serializing_if = "is_no")]
    pub(super) legend: bool,
    /// Positions on the horizontal axis with a line and a name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) lines: Vec<(f64, String)>,
}

fn is_no(yes: &bool) -> bool {
    !yes
}

#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Axis {
    pub(super) title: String,
    #[serde(skip_serializing_if = "is_no")]
    pub(super) log: bool,
    /// Whether ticks are powers of two, labelled as sizes.
    #[serde(skip_serializing_if = "is_no")]
    pub(super) bytes: bool,
    /// Names that replace the numbers of the axis.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) names: Vec<String>,
    /// Marks before the names: the series of each name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) marks: Vec<(usize, String)>,
}

impl Axis {
    pub(super) fn of(title: &str) -> Axis {
        Axis { title: title.to_string(), ..Axis::default() }
    }

    pub(super) fn log(title: &str) -> Axis {
        Axis { log: true, ..Axis::of(title) }
    }

    pub(super) fn names(title: &str, names: Vec<String>) -> Axis {
        Axis { names, ..Axis::of(title) }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    #[default]
    Line,
    Step,
    Bar,
    Points,
}

#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Series {
    pub(super) kind: Kind,
    pub(super) name: String,
    /// Name of the control that switches the series on and off; empty if there is none.
    pub(super) group: String,
    pub(super) colour: String,
    pub(super) mark: usize,
    #[serde(serialize_with = "short")]
    pub(super) x: Vec<f64>,
    #[serde(serialize_with = "short")]
    pub(super) y: Vec<f64>,
    /// How far each value reaches down and up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) spread: Option<Spread>,
    /// Text for each point. If empty, texts are made from the numbers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) words: Vec<String>,
    /// For stacks by cause: the series of each bar.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) of: Vec<String>,
    /// Whether lines cross the bars, so that neighbours differ without colour.
    #[serde(skip_serializing_if = "is_no")]
    pub(super) hatched: bool,
    /// Whether marks are hollow.
    #[serde(skip_serializing_if = "is_no")]
    pub(super) open: bool,
    /// Whether the series is drawn broad and pale behind the others.
    #[serde(skip_serializing_if = "is_no")]
    pub(super) behind: bool,
}

#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Spread {
    #[serde(serialize_with = "short")]
    pub(super) below: Vec<f64>,
    #[serde(serialize_with = "short")]
    pub(super) above: Vec<f64>,
}

impl Series {
    /// A series for an index, in its colour, mark and dash.
    pub(super) fn of_index(kind: Kind, series: usize, name: &str) -> Series {
        Series {
            kind,
            name: name.to_string(),
            group: group(series),
            colour: token(series),
            mark: mark(series),
            ..Series::default()
        }
    }
}

/// Writes five digits of each number, since a plot cannot show more.
fn short<S: Serializer>(values: &[f64], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(values.iter().map(|value| five_digits(*value)))
}

fn five_digits(value: f64) -> serde_json::Value {
    if !value.is_finite() {
        return serde_json::Value::Null;
    }
    if value == value.trunc() && value.abs() < 1e15 {
        return (value as i64).into();
    }
    let text = format!("{value:.4e}");
    text.parse::<f64>().map_or(serde_json::Value::Null, Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_two_indexes_share_colour_and_mark() {
        let all: BTreeSet<_> = (0..DISTINCT).map(|series| (token(series), mark(series))).collect();
        assert_eq!(all.len(), DISTINCT);
        assert!(nandex_lab::registry::INDEXES.len() < DISTINCT);
    }

    #[test]
    fn numbers_have_five_digits_at_most() {
        let text = |value: f64| five_digits(value).to_string();
        assert_eq!(
            [3.0, 0.1234567, 123456.7, 1e-9 / 3.0].map(text),
            ["3", "0.12346", "123460.0", "3.3333e-10"]
        );
        assert_eq!(text(f64::INFINITY), "null");
    }
}
