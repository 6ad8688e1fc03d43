//! A spatial index on a map, as a drawing in the page itself: boxes of leaves, queries, and the leaves they
//! read.

use crate::summary::scale::show_count;
use nandex_lab::spatial::map::{MapNode, MapQuery, Shape, TreeMap};
use std::fmt::Write as _;

/// Width of a drawing in its own units.
const WIDTH: f64 = 1000.0;

/// Least and largest ratio of a drawing's height to its width.
const ASPECT: (f64, f64) = (0.25, 1.2);

pub(super) struct MapView {
    pub(super) index: String,
    pub(super) leaves: String,
    pub(super) nodes: String,
    /// The drawing as SVG. It consists only of numbers, so it needs no escaping.
    pub(super) svg: String,
    /// Each query: its kind, its number of answers, and the nodes it read.
    pub(super) rows: Vec<[String; 4]>,
}

/// Converts coordinates to the drawing, with the same scale on both axes and north at the top.
struct Canvas {
    low: [f64; 2],
    scale: f64,
    height: f64,
}

impl Canvas {
    fn of(map: &TreeMap) -> Canvas {
        let [low, high] = map.extent();
        let sides = [high[0] - low[0], high[1] - low[1]].map(|side| if side > 0.0 { side } else { 1.0 });
        let aspect = (sides[1] / sides[0]).clamp(ASPECT.0, ASPECT.1);
        let height = WIDTH * aspect;
        Canvas { low, scale: (WIDTH / sides[0]).min(height / sides[1]), height }
    }

    fn x(&self, at: f64) -> f64 {
        (at - self.low[0]) * self.scale
    }

    fn y(&self, at: f64) -> f64 {
        self.height - (at - self.low[1]) * self.scale
    }

    fn rect(&self, class: &str, [low, high]: [[f64; 2]; 2], title: &str, svg: &mut String) {
        let (x, y) = (self.x(low[0]), self.y(high[1]));
        // A box without an extent is drawn all the same.
        let [width, height] = [0, 1].map(|axis| ((high[axis] - low[axis]) * self.scale).max(0.6));
        let _ = write!(
            svg,
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"><title>{title}</title></rect>"
        );
    }
}

impl MapView {
    pub(super) fn of(map: &TreeMap) -> MapView {
        let canvas = Canvas::of(map);
        let mut svg = format!(
            "<svg class=\"map\" role=\"img\" viewBox=\"-4 -4 {:.0} {:.0}\">",
            WIDTH + 8.0,
            canvas.height + 8.0
        );
        let is_read = |place: usize| map.queries.iter().any(|query| query.read.contains(&place));
        for pass in [false, true] {
            for (place, node) in map.nodes.iter().enumerate() {
                if node.level == 1 && is_read(place) == pass {
                    let class = if pass { "leaf read" } else { "leaf" };
                    canvas.rect(class, node.corners, &title(node), &mut svg);
                }
            }
        }
        for (number, query) in map.queries.iter().enumerate() {
            draw(&canvas, number + 1, query, &mut svg);
        }
        svg.push_str("</svg>");
        let leaves = map.leaves().count();
        MapView {
            index: map.index.clone(),
            leaves: show_count(leaves as u64),
            nodes: show_count(map.nodes.len() as u64),
            svg,
            rows: map.queries.iter().enumerate().map(|(i, query)| row(map, i + 1, query)).collect(),
        }
    }
}

fn title(node: &MapNode) -> String {
    format!("node {}: {} entries", node.id, node.entries)
}

fn draw(canvas: &Canvas, number: usize, query: &MapQuery, svg: &mut String) {
    let at = match query.shape {
        Shape::Window(corners, _) => {
            canvas.rect("asked", corners, &format!("query {number}"), svg);
            [corners[1][0], corners[1][1]]
        }
        Shape::Nearest(at, reach2) => {
            let (x, y, r) = (canvas.x(at[0]), canvas.y(at[1]), reach2.sqrt() * canvas.scale);
            let _ = write!(
                svg,
                "<circle class=\"asked\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{:.1}\"><title>query {number}</title></circle>\
                 <circle class=\"point\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2\"/>",
                r.max(0.6)
            );
            at
        }
    };
    let _ = write!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\">{number}</text>",
        canvas.x(at[0]) + 3.0,
        canvas.y(at[1]) - 3.0
    );
}

fn row(map: &TreeMap, number: usize, query: &MapQuery) -> [String; 4] {
    let leaves = query.read.iter().filter(|&&place| map.nodes[place].level == 1).count();
    let what = match query.shape {
        Shape::Window(_, relation) => format!("{number}: window, {}", relation.name()),
        Shape::Nearest(..) => format!("{number}: nearest"),
    };
    [
        what,
        show_count(query.found as u64),
        show_count(leaves as u64),
        show_count((query.read.len() - leaves) as u64),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandex::spatial::Relation;
    use scraper::{Html, Selector};

    #[test]
    fn leaves_that_a_query_reads_are_drawn_apart() {
        let node = |id: u32, level: u8, corners| MapNode { id, level, entries: 3, corners };
        let mut map = TreeMap {
            index: "r-tree".to_string(),
            nodes: vec![
                node(1, 2, [[0.0, 0.0], [10.0, 10.0]]),
                node(2, 1, [[0.0, 0.0], [4.0, 10.0]]),
                node(3, 1, [[6.0, 0.0], [10.0, 10.0]]),
            ],
            queries: Vec::new(),
        };
        let shape = Shape::Window([[1.0, 1.0], [2.0, 2.0]], Relation::Intersects);
        map.add(MapQuery { shape, found: 1, read: Vec::new() });
        map.add(MapQuery { shape: Shape::Nearest([9.0, 9.0], 4.0), found: 2, read: Vec::new() });
        let view = MapView::of(&map);
        let html = Html::parse_fragment(&view.svg);
        let count = |selector: &str| html.select(&Selector::parse(selector).unwrap()).count();
        assert_eq!((count("rect.leaf"), count("rect.read"), count(".asked")), (2, 2, 2));
        let texts: Vec<&str> = view.rows.iter().flatten().map(String::as_str).collect();
        assert_eq!(texts, ["1: window, intersects", "1", "1", "1", "2: nearest", "2", "1", "1"]);
    }
}
