//! Small drawings in SVG: a curve, shares over time, a picture of dots.

use std::fmt::Write as _;

/// Width and height of a drawing.
const SIZE: (f64, f64) = (560.0, 300.0);

/// Space of the axes on the left and at the bottom.
const EDGE: (f64, f64) = (48.0, 40.0);

pub(super) struct Axes<'a> {
    pub(super) title: &'a str,
    pub(super) x: &'a str,
    pub(super) y: &'a str,
    /// Marks on the x axis: the position from 0 to 1, and the words.
    pub(super) marks: Vec<(f64, String)>,
}

fn x(at: f64) -> f64 {
    EDGE.0 + at * (SIZE.0 - EDGE.0 - 8.0)
}

fn y(at: f64) -> f64 {
    8.0 + (1.0 - at) * (SIZE.1 - EDGE.1 - 8.0)
}

fn frame(axes: &Axes<'_>, percent: bool, inside: &str) -> String {
    let mut out = format!(
        "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">{inside}",
        SIZE.0, SIZE.1, axes.title
    );
    for share in [0.0, 0.25, 0.5, 0.75, 1.0].iter().filter(|_| percent) {
        let (left, at) = (x(0.0), y(*share));
        let _ = write!(
            out,
            "<line class=\"rule\" x1=\"{left}\" x2=\"{}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
             <text class=\"end\" x=\"{}\" y=\"{:.1}\">{:.0} %</text>",
            x(1.0),
            left - 5.0,
            at + 4.0,
            share * 100.0
        );
    }
    for (at, words) in &axes.marks {
        let _ = write!(
            out,
            "<text class=\"middle\" x=\"{:.1}\" y=\"{:.1}\">{words}</text>",
            x(*at),
            y(0.0) + 16.0
        );
    }
    let _ = write!(
        out,
        "<text class=\"middle axis\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\
         <text class=\"axis\" x=\"{left}\" y=\"20\" dy=\"-2\" dx=\"6\">{}</text></svg>",
        x(0.5),
        SIZE.1 - 5.0,
        axes.x,
        axes.y,
        left = x(0.0)
    );
    out
}

/// Draws a curve through points with both coordinates from 0 to 1.
pub(super) fn curve(axes: &Axes<'_>, points: &[(f64, f64)]) -> String {
    let mut inside = String::new();
    if !points.is_empty() {
        let at = points.iter().map(|(px, py)| format!("{:.1},{:.1}", x(*px), y(*py)));
        let _ = write!(inside, "<polyline class=\"curve\" points=\"{}\"/>", at.collect::<Vec<_>>().join(" "));
    }
    for (px, py) in points {
        let _ = write!(
            inside,
            "<circle class=\"dot\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\"><title>{:.1} %</title></circle>",
            x(*px),
            y(*py),
            py * 100.0
        );
    }
    frame(axes, true, &inside)
}

/// Draws columns of stacked shares; each share has the number of its colour.
pub(super) fn stacked(axes: &Axes<'_>, columns: &[Vec<(usize, f64)>]) -> String {
    let mut inside = String::new();
    let width = 1.0 / columns.len().max(1) as f64;
    for (number, column) in columns.iter().enumerate() {
        let mut below = 0.0;
        for (colour, share) in column {
            let top = below + share;
            let _ = write!(
                inside,
                "<rect class=\"k{colour}\" x=\"{:.2}\" y=\"{:.2}\" width=\"{:.2}\" height=\"{:.2}\"/>",
                x(number as f64 * width),
                y(top),
                x(width) - x(0.0) + 0.3,
                y(below) - y(top)
            );
            below = top;
        }
    }
    frame(axes, true, &inside)
}

/// Draws a picture, each column from its lowest cell up; higher counts are darker.
pub(super) fn dots(axes: &Axes<'_>, columns: &[Vec<u32>]) -> String {
    let most = f64::from(columns.iter().flatten().copied().max().unwrap_or(0).max(1));
    let mut shades: [String; 8] = Default::default();
    let width = 1.0 / columns.len().max(1) as f64;
    for (number, column) in columns.iter().enumerate() {
        let height = 1.0 / column.len().max(1) as f64;
        for (row, count) in column.iter().enumerate().filter(|(_, count)| **count > 0) {
            // Of a few and of many operations both should be seen.
            let shade = (f64::from(*count).ln_1p() / most.ln_1p() * 7.0).round() as usize;
            let (wide, high) = (x(width) - x(0.0) + 0.2, y(0.0) - y(height) + 0.2);
            let (left, top) = (x(number as f64 * width), y((row + 1) as f64 * height));
            let _ = write!(shades[shade.min(7)], "M{left:.1} {top:.1}h{wide:.1}v{high:.1}h-{wide:.1}z");
        }
    }
    let drawn = shades.iter().enumerate().filter(|(_, path)| !path.is_empty());
    let inside: String = drawn.map(|(at, path)| format!("<path class=\"d{at}\" d=\"{path}\"/>")).collect();
    frame(axes, false, &inside)
}
