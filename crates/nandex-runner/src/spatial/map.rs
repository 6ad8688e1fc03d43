//! A map of a spatial index: the boxes of its leaves, some queries, and the leaves that each query reads.
//!
//! A search reads a node if its box may contain an answer. So the boxes determine which nodes a query reads:
//! for a window the nodes in its relation, for the nearest entries the nodes that are no farther than the
//! last answer. Tests compare this with the reads counted.

use super::registry::Space;
use nandex::IndexError;
use nandex::spatial::{Rect, Region, Relation, SpatialIndex};
use std::ops::ControlFlow;

/// Most queries of a kind that are drawn.
const QUERIES_DRAWN: usize = 6;

/// A node on the map. Only the first two dimensions are drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MapNode {
    /// The node's number; if a node is a page, the number of the page.
    pub id: u32,
    /// The node's level; 1 for a leaf.
    pub level: u8,
    /// Number of entries in the node.
    pub entries: usize,
    /// Lower and upper corner of the node's box.
    pub corners: [[f64; 2]; 2],
}

/// The shape of a query on the map.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    /// A window: its corners, and the relation of the entries to it.
    Window([[f64; 2]; 2], Relation),
    /// A nearest search: its point, and the square of the distance to the last entry found.
    Nearest([f64; 2], f64),
}

/// A query and the nodes that it reads.
#[derive(Clone, Debug, PartialEq)]
pub struct MapQuery {
    /// The shape of the query.
    pub shape: Shape,
    /// Number of entries found.
    pub found: usize,
    /// The nodes that the query read, as indices into [`TreeMap::nodes`].
    pub read: Vec<usize>,
}

/// A map of an index.
#[derive(Clone, Debug, PartialEq)]
pub struct TreeMap {
    /// The name of the index.
    pub index: String,
    /// All nodes, the root first.
    pub nodes: Vec<MapNode>,
    /// A few queries with the nodes they read.
    pub queries: Vec<MapQuery>,
}

fn corners_of<C: Space<D>, const D: usize>(rect: &Rect<C, D>) -> [[f64; 2]; 2] {
    [rect.low(), rect.high()].map(|corner| [corner[0].to_f64(), corner[1].to_f64()])
}

impl TreeMap {
    /// Makes the map of an index, without queries.
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

    /// The leaves.
    pub fn leaves(&self) -> impl Iterator<Item = &MapNode> {
        self.nodes.iter().filter(|node| node.level == 1)
    }

    /// Whether another window query, or else another nearest search, should be drawn.
    pub fn has_room(&self, for_window: bool) -> bool {
        let alike = self.queries.iter().filter(|q| matches!(q.shape, Shape::Window(..)) == for_window);
        alike.count() < QUERIES_DRAWN
    }

    /// Adds a query and determines the nodes it reads.
    pub fn add(&mut self, mut query: MapQuery) {
        let reads = |(place, node): (usize, &MapNode)| query.shape.reads(place == 0, node).then_some(place);
        query.read = self.nodes.iter().enumerate().filter_map(reads).collect();
        self.queries.push(query);
    }

    /// The box around all nodes.
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
    /// Whether a query reads the node; it always reads the root.
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
    /// A window query that found `found` entries.
    pub fn window<C: Space<D>, const D: usize>(
        window: &Rect<C, D>,
        relation: Relation,
        found: usize,
    ) -> MapQuery {
        MapQuery { shape: Shape::Window(corners_of(window), relation), found, read: Vec::new() }
    }

    /// A nearest search with the entries that it found.
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
