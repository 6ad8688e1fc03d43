//! A spatial index on a map: the boxes of its leaves, some queries, and the leaves that each of them read.
//!
//! The search functions read a node when its box may hold an answer, so which nodes a query reads follows
//! from the boxes: for a window those that stand in its relation, for the nearest those that are no farther
//! than the last answer. The tests hold this against the reads counted.

use super::registry::Space;
use nandex::IndexError;
use nandex::spatial::{Rect, Region, Relation, SpatialIndex};
use std::ops::ControlFlow;

/// Queries drawn of each kind.
const QUERIES_DRAWN: usize = 6;

/// A node on the map; of more than two dimensions the first two are drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MapNode {
    /// The node's number; where a node is a page, the page's.
    pub id: u32,
    /// 1 for a leaf.
    pub level: u8,
    /// Entries in it.
    pub entries: usize,
    /// Lower and upper corner.
    pub corners: [[f64; 2]; 2],
}

/// The shape of a query on the map.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    /// A window: its corners, and how entries must lie to it.
    Window([[f64; 2]; 2], Relation),
    /// A point and the square of the distance to the last entry found.
    Nearest([f64; 2], f64),
}

/// A query and what it read.
#[derive(Clone, Debug, PartialEq)]
pub struct MapQuery {
    /// Where it is.
    pub shape: Shape,
    /// Entries it found.
    pub found: usize,
    /// The nodes it read, by their places in [`TreeMap::nodes`].
    pub read: Vec<usize>,
}

/// An index on a map.
#[derive(Clone, Debug, PartialEq)]
pub struct TreeMap {
    /// The name of the index.
    pub index: String,
    /// Every node, the root first.
    pub nodes: Vec<MapNode>,
    /// A few queries.
    pub queries: Vec<MapQuery>,
}

fn corners_of<C: Space<D>, const D: usize>(rect: &Rect<C, D>) -> [[f64; 2]; 2] {
    [rect.low(), rect.high()].map(|corner| [corner[0].to_f64(), corner[1].to_f64()])
}

impl TreeMap {
    /// The nodes of an index.
    pub fn of<C: Space<D>, const D: usize>(
        name: &str,
        index: &mut dyn SpatialIndex<C, D>,
    ) -> Result<TreeMap, IndexError> {
        let mut nodes = Vec::new();
        index.regions(&mut |region: &Region<C, D>| {
            let Region { id, level, entries, rect } = *region;
            nodes.push(MapNode { id: id.0, level, entries, corners: corners_of(&rect) });
            ControlFlow::Continue(())
        })?;
        Ok(TreeMap { index: name.to_string(), nodes, queries: Vec::new() })
    }

    /// Leaves on the map.
    pub fn leaves(&self) -> impl Iterator<Item = &MapNode> {
        self.nodes.iter().filter(|node| node.level == 1)
    }

    /// Whether another window, or another search for the nearest, is to be drawn.
    pub fn has_room(&self, for_window: bool) -> bool {
        let alike = self.queries.iter().filter(|q| matches!(q.shape, Shape::Window(..)) == for_window);
        alike.count() < QUERIES_DRAWN
    }

    /// Adds a query, with the nodes it reads.
    pub fn add(&mut self, mut query: MapQuery) {
        let reads = |(place, node): (usize, &MapNode)| query.shape.reads(place == 0, node).then_some(place);
        query.read = self.nodes.iter().enumerate().filter_map(reads).collect();
        self.queries.push(query);
    }

    /// The box around the leaves.
    pub fn extent(&self) -> [[f64; 2]; 2] {
        let mut extent = [[f64::INFINITY; 2], [f64::NEG_INFINITY; 2]];
        for [low, high] in self.nodes.iter().map(|node| node.corners) {
            for axis in 0..2 {
                extent[0][axis] = extent[0][axis].min(low[axis]);
                extent[1][axis] = extent[1][axis].max(high[axis]);
            }
        }
        extent
    }
}

impl Shape {
    /// Whether a query reads a node; the root always.
    fn reads(&self, is_root: bool, node: &MapNode) -> bool {
        let [low, high] = node.corners;
        is_root
            || match self {
                Shape::Window([from, to], Relation::Covers) => {
                    (0..2).all(|axis| low[axis] <= from[axis] && to[axis] <= high[axis])
                }
                Shape::Window([from, to], _) => {
                    (0..2).all(|axis| low[axis] <= to[axis] && from[axis] <= high[axis])
                }
                Shape::Nearest(at, reach2) => {
                    let apart = |axis: usize| (low[axis] - at[axis]).max(at[axis] - high[axis]).max(0.0);
                    apart(0) * apart(0) + apart(1) * apart(1) <= *reach2
                }
            }
    }
}

impl MapQuery {
    /// A window that found so many entries.
    pub fn window<C: Space<D>, const D: usize>(
        window: &Rect<C, D>,
        relation: Relation,
        found: usize,
    ) -> MapQuery {
        MapQuery { shape: Shape::Window(corners_of(window), relation), found, read: Vec::new() }
    }

    /// A search for the nearest and what it found.
    pub fn nearest<C: Space<D>, const D: usize>(point: &[C; D], found: &[(Rect<C, D>, u64)]) -> MapQuery {
        let at = [point[0].to_f64(), point[1].to_f64()];
        let distance2 = |rect: &Rect<C, D>| {
            let [low, high] = corners_of(rect);
            let apart = |axis: usize| (low[axis] - at[axis]).max(at[axis] - high[axis]).max(0.0);
            apart(0) * apart(0) + apart(1) * apart(1)
        };
        let reach2 = found.iter().map(|(rect, _)| distance2(rect)).fold(0.0, f64::max);
        MapQuery { shape: Shape::Nearest(at, reach2), found: found.len(), read: Vec::new() }
    }
}
