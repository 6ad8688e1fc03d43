//! The FOR-tree: an R-tree whose full nodes go on in overflow nodes and are split only when they are read
//! often.
//!
//! P. Jin, X. Xie, N. Wang and L. Yue, "Optimizing R-tree for flash memory", Expert Systems with Applications
//! 42(10) 2015, of which the abstract was at hand; the rule of merging back, its integer arithmetic and what
//! happens on a removal are as in the open-source FESTIval. Its buffer of updates is not part of this tree: a
//! buffering layer below does that.
//!
//! # State
//!
//! Every node is a page. A node may go on in *overflow nodes*, pages of its level that no parent knows; each
//! page links to the next. The *overflow node table* in RAM tells for such a node its overflow nodes and the
//! accesses since it got the first ([`OverflowNodes`]). No node has more than [`ForRules::overflow_max`] of
//! them, nor the tree more than [`ForRules::table_max`]: that bounds the table.
//!
//! # Operations
//!
//! *search*: a node is read with its overflow nodes, and counts an access if it has any; so do insertions and
//! removals on their way down.
//!
//! *insert*: descend as Guttman does. The entry goes into the node, else into its first overflow node with
//! room, else into a new overflow node; boxes are adjusted upwards. But if the node has k > 0 overflow nodes
//! and
//!
//! ```text
//! accesses * read cost >= floor((5 k - 1) / 2) * write cost
//! ```
//!
//! it is *merged back*: all its entries are shared out evenly over k + 1 nodes, which take the same pages,
//! and the new ones are inserted in the parent by the same rules; a root gets a root above it. A node that
//! may have no more overflow nodes is merged back at once, into as many nodes as it takes (ours); without
//! overflow nodes that is a split in two.
//!
//! *sharing out* ([`Sharing`]): in the order in which the entries stand, as FESTIval does, or sorted by their
//! centres along the longest side of their box (ours).
//!
//! *remove*: take the entry out. An overflow node that gets empty is unlinked. A node whose own page gets too
//! empty, or that lost one of several overflow nodes, is merged back (into fewer nodes if there is too little
//! for k + 1); one without overflow nodes is dissolved when it gets too empty, and its entries inserted again
//! at their level.
//!
//! *narrow* (ours): nothing is merged back because of its accesses; a node that may have no more overflow
//! nodes splits its last page alone; a node that gets too empty is merged with a neighbour or takes entries
//! from it.
//!
//! # Invariants, besides those of the pages (S1 to S8)
//!
//! - F1 The links of a node lead through the overflow nodes that its row tells, in order, and end there.
//! - F2 An overflow node has the level of its node.
//! - F3 Rows are of nodes that the tree reaches; no page is an overflow node of two, and their number is the
//!   one counted.
//!
//! # Recovery
//!
//! Mount reads every node, follows the links, and has the table again but for the counters of accesses, which
//! start anew. The durability classes are those of the node store below.

mod nodes;
mod update;

pub use nodes::{OverflowNodes, Row};

use nandex::check::{IndexError, words};
use nandex::codec::{get_u32, put_u32};
use nandex::nand::Differs;
use nandex::spatial::SpatialIndex;
use nandex::spatial::coordinate::Coordinate;
use nandex::spatial::curve::{CurveKey, Grid};
use nandex::spatial::geometry::Rect;
use nandex::spatial::node::{Entry, NodeFormat, OPTION_BYTES};
use nandex::spatial::nodes::Nodes;
use nandex::spatial::paged::PagedNodes;
use nandex::spatial::tree::{Operation, Path, Rules, SpatialConfig, Tree};
use nandex::store::PageStore;

/// The way a merge-back divides entries among nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// In the order in which the entries are stored.
    Stored,
    /// Sorted by their centres along the longest side of their box.
    Sorted,
}

/// The rules of the FOR-tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForRules {
    /// Cost of a page read, in the unit of `write_cost`; not 0.
    pub read_cost: u32,
    /// Cost of a page write, in the unit of `read_cost`.
    pub write_cost: u32,
    /// Largest number of overflow nodes that a node may have.
    pub overflow_max: u8,
    /// Largest number of overflow nodes that the tree may have.
    pub table_max: u32,
    /// The way a merge-back divides entries among nodes.
    pub sharing: Sharing,
}

/// A FOR-tree whose nodes are pages.
pub type ForTree<S, C, const D: usize> = Tree<C, D, OverflowNodes<PagedNodes<S, C, D>, C, D>, ForRules>;

/// The default settings: a write costs eight reads, up to four overflow nodes per node and 4096 in the
/// tree, entries sorted; nodes fill a page, are at least 40 % full, and every operation is durable.
pub const fn config() -> SpatialConfig<ForRules> {
    SpatialConfig::new(ForRules {
        read_cost: 1,
        write_cost: 8,
        overflow_max: 4,
        table_max: 4096,
        sharing: Sharing::Sorted,
    })
}

/// Makes an empty tree whose nodes are pages, and drops everything that the store held.
pub fn format<S: PageStore, C: Coordinate, const D: usize>(
    store: S,
    config: &SpatialConfig<ForRules>,
) -> Result<ForTree<S, C, D>, IndexError> {
    let rules = config.rules;
    if rules.read_cost == 0 {
        return Err(IndexError::Unsupported(words("reads that cost nothing: 1 at least is possible").into()));
    }
    let format = config.node_format::<C, D>(store.page_bytes(), store.page_count())?;
    Tree::over(OverflowNodes::over(PagedNodes::format(store, format, config.durability)?)?)
}

/// Mounts the tree of a store. Refuses a tree of other rules, and a store with less durability.
pub fn mount<S: PageStore, C: Coordinate, const D: usize>(
    store: S,
    config: &SpatialConfig<ForRules>,
) -> Result<ForTree<S, C, D>, IndexError> {
    let nodes = PagedNodes::mount_found(store)?;
    if nodes.format().kind != <ForRules as Rules<C, D>>::KIND {
        return Err(IndexError::other(
            Differs::Kind,
            words("the store holds a spatial index of another kind"),
        ));
    }
    let tree = Tree::over(OverflowNodes::over(nodes)?)?;
    if *tree.rules() != config.rules {
        return Err(IndexError::other(Differs::Settings, "the tree has other rules"));
    }
    if SpatialIndex::<C, D>::durability(&tree) < config.durability {
        let what = "the tree gives less durability on this store than is wanted";
        return Err(IndexError::Unsupported(what.into()));
    }
    Ok(tree)
}

/// The facts about a node that the layer passes to the rules, in the tag of the node it returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// Number of the node's overflow nodes.
    pub overflow: u8,
    /// Whether the node was accessed often enough to be merged back.
    pub is_due: bool,
    /// Whether the node takes no entry: its pages are full and no overflow node may be added.
    pub is_sealed: bool,
    /// Whether the node's own page is too empty for a node, although it has overflow nodes.
    pub is_thin: bool,
}

impl Tag {
    fn bits(self) -> u16 {
        let flags = [self.is_due, self.is_sealed, self.is_thin];
        let flags = flags.iter().rev().fold(0, |bits, &flag| bits << 1 | u16::from(flag));
        u16::from(self.overflow) << 8 | flags
    }

    /// Decodes the tag of a node.
    pub fn of(bits: u16) -> Tag {
        let flag = |at: u16| bits >> at & 1 == 1;
        Tag { overflow: (bits >> 8) as u8, is_due: flag(0), is_sealed: flag(1), is_thin: flag(2) }
    }
}

/// The FOR-tree's own counters, by their place in [`nandex::spatial::tree::TreeCounts::own`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Figure {
    MergeBacks,
    MergedPages,
}

impl ForRules {
    /// Whether a node with this number of overflow nodes and of accesses is to be merged back.
    pub fn is_due(&self, overflow: u64, accesses: u64) -> bool {
        overflow > 0 && u128::from(accesses) * u128::from(self.read_cost) >= self.threshold(overflow)
    }

    /// Cost that the accesses of a node must reach before its overflow nodes are merged back.
    fn threshold(&self, overflow: u64) -> u128 {
        u128::from((5 * overflow).saturating_sub(1) / 2) * u128::from(self.write_cost)
    }

    fn of_bytes(options: &[u8; OPTION_BYTES]) -> Option<ForRules> {
        let sharing = match options[13] {
            0 => Sharing::Stored,
            1 => Sharing::Sorted,
            _ => return None,
        };
        let rules = ForRules {
            read_cost: get_u32(options, 0),
            write_cost: get_u32(options, 4),
            overflow_max: options[12],
            table_max: get_u32(options, 8),
            sharing,
        };
        (rules.read_cost > 0).then_some(rules)
    }
}

impl<C: Coordinate, const D: usize> Rules<C, D> for ForRules {
    const KIND: [u8; 8] = *b"FOR-tree";

    const METRICS: &'static [&'static str] = &["merge_backs", "merged_pages"];

    fn adapt(&self, format: &mut NodeFormat) {
        format.link_bytes = 4;
        let mut full = *format;
        full.fill_pages();
        format.leaf_capacity = format.leaf_capacity.min(full.leaf_capacity);
        format.internal_capacity = format.internal_capacity.min(full.internal_capacity);
        // The pages of a root that is replaced, spread over the levels.
        format.group_per_level = 5.max(self.overflow_max / 2 + 1);
    }

    fn put_options(&self, options: &mut [u8; OPTION_BYTES]) {
        put_u32(options, 0, self.read_cost);
        put_u32(options, 4, self.write_cost);
        put_u32(options, 8, self.table_max);
        options[12] = self.overflow_max;
        options[13] = self.sharing as u8;
    }

    fn of_options(options: &[u8; OPTION_BYTES]) -> Option<ForRules> {
        ForRules::of_bytes(options)
    }

    fn insert<N: Nodes<C, D>>(
        &self,
        op: &mut Operation<'_, N>,
        entry: Entry<C, D>,
    ) -> Result<(), IndexError> {
        update::insert(self, op, entry, 1)
    }

    fn remove<N: Nodes<C, D>>(&self, op: &mut Operation<'_, N>, path: Path) -> Result<(), IndexError> {
        update::remove(self, op, &path)
    }

    fn curve_key(&self, rect: &Rect<C, D>) -> CurveKey {
        Grid { domain: None }.key(rect)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_merged_back_after_the_accesses_of_the_publication() {
        let rules = config().rules;
        for (overflow, accesses) in [(1, 16), (2, 32), (3, 56), (4, 72)] {
            assert!(!rules.is_due(overflow, accesses - 1));
            assert!(rules.is_due(overflow, accesses));
        }
        assert!(!rules.is_due(0, u64::MAX));
        // 200 us and 25 us are 8 to 1; 35.9 us and 226 us are not whole: 2 * 226 / 35.9 = 12.6.
        let chip = ForRules { read_cost: 359, write_cost: 2260, ..rules };
        assert!(!chip.is_due(1, 12) && chip.is_due(1, 13));
    }

    #[test]
    fn a_tag_tells_what_it_was_made_of() {
        for bits in 0..8 {
            let tag = Tag::of(7 << 8 | bits);
            assert_eq!((tag.bits(), tag.overflow), (7 << 8 | bits, 7));
        }
    }
}
