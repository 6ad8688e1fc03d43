//! Bulk load: packs a tree from all its entries at once. Each page is written once.
//!
//! The entries are put in an order in which neighbours lie close together, and cut into nodes of the wanted
//! fill. The boxes of these nodes are the entries of the level above, and so on up to the root. The root is
//! written last, over the empty one: until then a power cut leaves an empty tree. The entries are held in RAM
//! while they are sorted.
//!
//! - *Sort-Tile-Recursive* (Leutenegger, Lopez and Edgington 1997): of r entries in P = ceil(r / b) pages,
//!   sort by the centres along the first axis and cut into slabs of b ceil(P^((d-1)/d)) entries. Do the same
//!   in each slab with the other axes. Every level is tiled anew.
//! - *Hilbert* (Kamel and Faloutsos 1993): sort by the place of the centre on the Hilbert curve. Higher
//!   levels keep the order.
//!
//! The last node of a level may have too few entries. It then gets entries of the node before it, or is
//! merged with it.

use super::{Rules, Tree};
use crate::check::{IndexError, Limit, words};
use crate::index::Fill;
use crate::nand::Cause;
use crate::sort;
use crate::spatial::Entries;
use crate::spatial::coordinate::Coordinate;
use crate::spatial::curve::CurveKey;
use crate::spatial::node::{Entry, Node, NodeFormat, ROOT};
use crate::spatial::nodes::Nodes;
use alloc::vec::Vec;

/// Order in which a bulk load packs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "unstable"), non_exhaustive)]
pub enum Packing {
    /// Sort-Tile-Recursive.
    SortTileRecursive,
    /// Order along the Hilbert curve.
    Hilbert,
}

impl Packing {
    /// Name in settings and results.
    pub const fn name(self) -> &'static str {
        match self {
            Packing::SortTileRecursive => "str",
            Packing::Hilbert => "hilbert",
        }
    }
}

/// Iterator over the numbers of entries of the nodes of a level.
#[derive(Clone, Copy, Debug)]
struct Shares {
    left: usize,
    full: usize,
    least: usize,
}

impl Shares {
    fn new(format: &NodeFormat, fill: Fill, level: u8, entries: usize) -> Shares {
        let least = format.fill_min(level);
        Shares { left: entries, full: fill.of(format.capacity(level)).max(least), least }
    }
}

impl Iterator for Shares {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let Shares { left, full, least } = *self;
        let rest = left.saturating_sub(full);
        let share = if rest == 0 {
            left
        } else if rest >= least {
            full
        } else if left >= 2 * least {
            left - least
        } else {
            left
        };
        self.left -= share;
        (share > 0).then_some(share)
    }
}

/// Returns the number of nodes of each level of a bulk loaded tree, leaves first and the root last.
pub fn packed_nodes(format: &NodeFormat, fill: Fill, entries: u64) -> Vec<u64> {
    let (mut levels, mut count, mut level) = (Vec::new(), entries, 1);
    loop {
        let nodes = Shares::new(format, fill, level, count as usize).count() as u64;
        levels.push(nodes.max(1));
        if nodes <= 1 {
            return levels;
        }
        (count, level) = (nodes, level + 1);
    }
}

impl<C: Coordinate, const D: usize, N: Nodes<C, D>, R: Rules<C, D>> Tree<C, D, N, R> {
    pub(super) fn bulk_load(
        &mut self,
        entries: Entries<'_, C, D>,
        packing: Packing,
        fill: Fill,
    ) -> Result<u64, IndexError> {
        if !self.rules.allows(packing) {
            return Err(IndexError::Unsupported(
                words("this tree is packed along the Hilbert curve only").into(),
            ));
        }
        let root = self.nodes.read(ROOT, Cause::Host)?;
        if root.level > 1 || !root.entries.is_empty() {
            return Err(IndexError::Unsupported(words("a bulk load needs an empty tree").into()));
        }
        let mut level_entries: Vec<Entry<C, D>> = Vec::new();
        for (rect, id) in entries {
            let key = match packing {
                Packing::Hilbert => self.rules.curve_key(&rect),
                Packing::SortTileRecursive => CurveKey::default(),
            };
            level_entries.push(Entry { key, ..Entry::data(rect, id) });
        }
        let count = level_entries.len() as u64;
        match self.pack(level_entries, packing, fill) {
            Ok(height) => {
                self.height = height;
                Ok(count)
            }
            Err(error) => {
                // After an interruption nothing can be freed. The next mount finds the pages free.
                self.nodes.end_load(None).ok();
                Err(error)
            }
        }
    }

    fn pack(
        &mut self,
        mut entries: Vec<Entry<C, D>>,
        packing: Packing,
        fill: Fill,
    ) -> Result<u8, IndexError> {
        let format = *self.nodes.format();
        let mut level = 1;
        loop {
            let shares = Shares::new(&format, fill, level, entries.len());
            match packing {
                Packing::SortTileRecursive => tile(&mut entries, 0, shares.full),
                Packing::Hilbert if level == 1 => {
                    sort::unstable_by(&mut entries, |a, b| a.key.cmp(&b.key).then_with(|| order(a, b)));
                }
                Packing::Hilbert => {}
            }
            if shares.count() <= 1 {
                self.nodes.end_load(Some(&self.packed(level, entries)))?;
                return Ok(level);
            }
            if usize::from(level) >= format.height_max() {
                return Err(IndexError::Full(Limit::Height));
            }
            let (mut above, mut from) = (Vec::new(), 0);
            for share in shares {
                let node = self.packed(level, entries[from..from + share].to_vec());
                let id = self.nodes.load(&node)?;
                let key = self.rules.node_key(&node);
                above.extend(node.rect().map(|rect| Entry { key, ..Entry::child(rect, id) }));
                from += share;
            }
            (entries, level) = (above, level + 1);
        }
    }

    /// Returns a node as the tree stores it: data entries have no key.
    fn packed(&self, level: u8, mut entries: Vec<Entry<C, D>>) -> Node<C, D> {
        if level == 1 {
            entries.iter_mut().for_each(|entry| entry.key = CurveKey::default());
        }
        Node::with(level, entries)
    }
}

/// Makes the order of equal entries reproducible.
fn order<C: Coordinate, const D: usize>(a: &Entry<C, D>, b: &Entry<C, D>) -> core::cmp::Ordering {
    a.rect.order(&b.rect).then_with(|| a.pointer.cmp(&b.pointer))
}

/// Sorts entries into tiles along the axes from `axis` on.
fn tile<C: Coordinate, const D: usize>(entries: &mut [Entry<C, D>], axis: usize, capacity: usize) {
    let centre = |entry: &Entry<C, D>| entry.rect.low()[axis].midpoint(entry.rect.high()[axis]);
    sort::unstable_by(entries, |a, b| centre(a).order(&centre(b)).then_with(|| order(a, b)));
    let axes_left = D - axis;
    if axes_left == 1 || entries.is_empty() {
        return;
    }
    let pages = entries.len().div_ceil(capacity);
    let slab = capacity * slab_pages(pages as u64, axes_left as u32) as usize;
    entries.chunks_mut(slab).for_each(|slab| tile(slab, axis + 1, capacity));
}

/// Returns the pages of a slab of P pages in d dimensions: the least s with s^d >= P^(d-1).
fn slab_pages(pages: u64, dimensions: u32) -> u64 {
    let wanted = u128::from(pages).pow(dimensions - 1);
    let (mut low, mut high) = (1, pages.max(1));
    while low < high {
        let middle = u64::midpoint(low, high);
        if u128::from(middle).checked_pow(dimensions).is_none_or(|power| power >= wanted) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slabs_are_roots_rounded_up() {
        assert_eq!([1, 2, 4, 5, 9, 10, 100].map(|p| slab_pages(p, 2)), [1, 2, 2, 3, 3, 4, 10]);
        assert_eq!([1, 2, 8, 9, 27, 1000].map(|p| slab_pages(p, 3)), [1, 2, 4, 5, 9, 100]);
    }

    #[test]
    fn no_share_is_below_the_least_or_above_the_capacity() {
        let mut format = NodeFormat::new::<i32, 2>(*b"test    ", (4096, 1000), 0);
        for capacity in [4u16, 5, 7, 10, 64] {
            (format.leaf_capacity, format.internal_capacity) = (capacity, capacity);
            for percent in [50, 70, 100] {
                let fill = Fill::percent(percent).unwrap();
                let least = format.fill_min(1);
                for entries in 0..300 {
                    let shares: Vec<usize> = Shares::new(&format, fill, 1, entries).collect();
                    assert_eq!(shares.iter().sum::<usize>(), entries);
                    assert!(shares.iter().all(|&n| n <= usize::from(capacity)));
                    assert!(shares.len() <= 1 || shares.iter().all(|&n| n >= least), "{shares:?}");
                    let pages = entries.div_ceil(fill.of(usize::from(capacity)).max(least));
                    assert!(shares.len() == pages || shares.len() + 1 == pages && percent < 80);
                }
            }
        }
    }
}
