//! Bringing a copied path, whose nodes come from pages of several layouts, into one page.
//!
//! A node that is too large for its area in the wanted layout is copied *aside*. The rest depends on the
//! operation:
//!
//! * **Put**: the path is *converted*. From the leaf up, a node with too many entries is split into as many
//!   nodes as needed, evenly and with room for one more entry in each. The part on the path stays; each other
//!   part goes alone into a page of its own. Their entries join the parent, which may have to be split too. A
//!   root that is too large gets a new root above it, repeatedly if needed. Then the entry is added as in any
//!   mu-Tree.
//! * **Keep** (a removal, or a page that moves): nothing is split, so that a removal cannot fail on a full
//!   chip and a collection gains space. The path takes the layout nearest to the wanted one that has room for
//!   all its nodes.
//!
//! Such a layout always exists, by the rule of *widths* (`Path::width`). While a leaf below an inner node is
//! so large that it needs a layout with small inner nodes, the inner node stays that small, in whichever page
//! it is. The entries of inner nodes name the widths, so the rule costs no read.
//!
//! A conversion must be cheap (at most `CONVERSION_PAGES` more pages) and leave as much free space as an
//! insertion does. Otherwise the next nearest layout is tried; if none is possible, the path is kept. A path
//! is not converted either to a layout in which the tree has reached its greatest height: wide leaves that
//! nobody touches would hold it there.

use super::{LayoutChoice, PathPages};
use crate::check::Invariant;
use crate::fault::IndexFault;
use crate::nand::{Cause, Nand};
use crate::ordered::node::NodeShape;
use crate::ordered::path_log::ground::{ADDRESS_BYTES, Nodes, Shapes, Step, child_value};
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

/// Largest number of pages that a conversion adds to an update.
const CONVERSION_PAGES: u32 = 16;

type Tree<N, C> = Nodes<N, PathPages<C>>;

/// Parts into which a node was divided: the first key of each part and the value of its entry. One part is
/// the path's; its entry is completed when the path is written.
struct Parts {
    heads: Vec<(Vec<u8>, [u8; ADDRESS_BYTES])>,
    path_part: usize,
}

/// Node of any size in RAM.
struct Loose {
    shape: NodeShape,
    bytes: Vec<u8>,
    count: usize,
}

/// Prepares the path to `key` for an entry.
pub(super) fn for_put<N: Nand, C: LayoutChoice>(tree: &mut Tree<N, C>, key: &[u8]) -> Result<(), IndexFault> {
    reckon_widths(tree);
    if !has_aside(tree, 1) && !tree.path.root_would_overflow() {
        return Ok(());
    }
    for layout in tree.path.scheme.nearest() {
        if let Some(pages) = pages_to_convert(tree, layout)
            && has_room(tree, pages)
        {
            return convert(tree, layout, key, pages);
        }
    }
    keep(tree, 1)
}

/// Notes for each inner node of the path how wide the leaves beside the path are, at this level and below.
fn reckon_widths<N: Nand, C: LayoutChoice>(tree: &mut Tree<N, C>) {
    let mut widest = 0;
    for level in 2..=tree.path.height {
        let (shape, slot) = (tree.path.shape(level), tree.path.slot(level));
        let node = tree.path.node(level);
        let before = tree.path.width(level, &shape, node, slot);
        let after =
            (slot + 1..tree.path.count(level)).map(|i| tree.path.width_of_child(&shape, node, i)).max();
        widest = widest.max(before).max(after.unwrap_or(0));
        tree.path.step_mut(level).width_beside = widest;
    }
}

fn has_aside<N: Nand, C: LayoutChoice>(tree: &Tree<N, C>, lowest: u8) -> bool {
    (lowest..=tree.path.height).any(|level| tree.path.is_aside(level))
}

/// True if `pages` pages can be spent on a conversion.
fn has_room<N: Nand, C: LayoutChoice>(tree: &Tree<N, C>, pages: u32) -> bool {
    let most = match tree.log.config().write_pages {
        0 => CONVERSION_PAGES,
        // The write part holds the pages of an update beyond its size until the next update begins.
        write_pages => CONVERSION_PAGES.min(write_pages as u32 + u32::from(tree.path.height)),
    };
    let live = tree.log.live_pages() as u32;
    pages <= most
        && tree.log.free_pages() >= pages + tree.pages_to_insert()
        && live + pages <= tree.live_max(tree.path.height + 1)
}

/// Layout whose capacity bounds the path's node at `level`, if the path has this layout.
fn limit_of<N: Nand, C: LayoutChoice>(tree: &Tree<N, C>, layout: u8, level: u8) -> u8 {
    layout.max(tree.path.step(level.min(tree.path.height)).width_beside)
}

/// Number of parts of a node of `count` entries under such a limit.
fn parts_of<N: Nand, C: LayoutChoice>(
    tree: &Tree<N, C>,
    limit: u8,
    (level, height): (u8, u8),
    count: usize,
) -> usize {
    if tree.path.scheme.fits(limit, (level, height), count) {
        return 1;
    }
    let capacity = tree.path.scheme.shape(limit, level, level + 1).capacity;
    debug_assert!(count > 0, "R1: no entries to divide");
    count.div_ceil(capacity.saturating_sub(1).max(1))
}

/// Number of pages that converting the path to this layout takes, besides the path's own. `None` if the tree
/// would become too high, or could not take the entry afterwards.
fn pages_to_convert<N: Nand, C: LayoutChoice>(tree: &Tree<N, C>, layout: u8) -> Option<u32> {
    let top = limit_of(tree, layout, tree.path.height);
    let height_max = tree.path.scheme.height_max(top);
    let (mut pages, mut parts, mut is_full, mut level) = (0, 1, true, 0);
    let mut height = tree.path.height;
    while level < height {
        level += 1;
        let limit = limit_of(tree, layout, level);
        let count = if level <= tree.path.height { tree.path.count(level) + parts - 1 } else { parts };
        parts = parts_of(tree, limit, (level, height), count);
        pages += parts as u32 - 1;
        is_full &= match (parts, level == height) {
            (1, true) => count >= tree.path.scheme.root_entries_max(limit, level),
            (1, false) => count >= tree.path.scheme.shape(limit, level, height).capacity,
            _ => false,
        };
        if level == height && parts > 1 {
            height += 1;
            if height > height_max {
                return None;
            }
        }
    }
    let is_too_high = height > height_max.min(tree.path.scheme.numbered(layout).height_wanted_max());
    let is_stuck = height == height_max && is_full;
    (!is_too_high && !is_stuck).then_some(pages)
}

/// Brings the path to `key` into this layout, splitting nodes that do not fit.
fn convert<N: Nand, C: LayoutChoice>(
    tree: &mut Tree<N, C>,
    layout: u8,
    key: &[u8],
    pages: u32,
) -> Result<(), IndexFault> {
    if pages > 0 {
        tree.log.flush(Cause::CacheEviction)?;
    }
    tree.log.tape.half_done = true;
    put_aside(tree, 1, layout);
    let (mut level, mut below) = (0, None);
    while level < tree.path.height {
        level += 1;
        let (node, slot) = gather(tree, level, below.take(), key);
        let limit = tree.path.limit_at(level);
        if tree.path.scheme.fits(limit, (level, tree.path.height), node.count) {
            place(tree, level, &node, 0..node.count, slot);
            continue;
        }
        let parts = parts_of(tree, limit, (level, tree.path.height), node.count);
        if level == tree.path.height {
            let width_beside = tree.path.step(level).width_beside;
            tree.path.height += 1;
            *tree.path.step_mut(level + 1) = Step { page: u32::MAX, layout, width_beside, ..Step::default() };
        }
        below = Some(divide(tree, level, &node, (slot, parts))?);
    }
    tree.path.scheme.choice.note_conversion(pages);
    Ok(())
}

/// Collects the node of the path at `level` with the entries of the parts split off below, and finds the
/// path's entry in it.
fn gather<N: Nand, C: LayoutChoice>(
    tree: &Tree<N, C>,
    level: u8,
    below: Option<Parts>,
    key: &[u8],
) -> (Loose, usize) {
    let (source, count, slot) = (tree.path.shape(level), tree.path.count(level), tree.path.slot(level));
    let heads = below.as_ref().map_or(0, |parts| parts.heads.len());
    let shape = NodeShape { capacity: count + heads, ..source };
    let mut node = Loose { shape, bytes: vec![0xff; shape.bytes()], count };
    source.copy_entries((tree.path.node(level), 0), count, (&shape, &mut node.bytes, 0));
    if level == 1 {
        let at = shape.search(&node.bytes, count, key).unwrap_or_else(|i| i.saturating_sub(1));
        return (node, at);
    }
    let Some(below) = below else { return (node, slot) };
    for (part, (head, child)) in below.heads.iter().enumerate() {
        if part == 0 && count > 0 {
            // The entry that named the whole node keeps its key, which is a lower bound.
            shape.set_value(&mut node.bytes, slot, child);
        } else {
            shape.insert(&mut node.bytes, node.count, slot + part, (head, child));
            node.count += 1;
        }
    }
    debug_assert!(node.count <= shape.capacity, "R1: more parts than entries were made room for");
    debug_assert!(slot + below.path_part < node.count, "R3: the path lost its child");
    (node, slot + below.path_part)
}

/// Puts entries of a node into the path's page.
fn place<N: Nand, C: LayoutChoice>(
    tree: &mut Tree<N, C>,
    level: u8,
    node: &Loose,
    entries: Range<usize>,
    slot: usize,
) {
    let (from, count) = (entries.start, entries.len());
    debug_assert!(entries.end <= node.count, "R1: entries {entries:?} of {}", node.count);
    debug_assert!(slot >= from && slot < from + count.max(1), "R3: the path's entry {slot} is elsewhere");
    let layout = tree.path.layout;
    let step = tree.path.step_mut(level);
    (step.count, step.slot) = (count as u16, (slot - from) as u16);
    (step.layout, step.aside) = (layout, false);
    let into = tree.path.shape(level);
    node.shape.copy_entries((&node.bytes, from), count, (&into, tree.path.node_mut(level), 0));
}

/// Divides a node evenly: the part that holds `slot` joins the path's page, the others are written.
fn divide<N: Nand, C: LayoutChoice>(
    tree: &mut Tree<N, C>,
    level: u8,
    node: &Loose,
    (slot, parts): (usize, usize),
) -> Result<Parts, IndexFault> {
    debug_assert!(parts >= 2 && parts <= node.count, "R1: {parts} parts of {} entries", node.count);
    debug_assert!(slot < node.count, "R3: the path's entry {slot} of {}", node.count);
    let layout = tree.path.layout;
    let (least, larger) = (node.count / parts, node.count % parts);
    let mut divided = Parts { heads: Vec::new(), path_part: 0 };
    let mut from = 0;
    for part in 0..parts {
        let count = least + usize::from(part < larger);
        let head = node.shape.key(&node.bytes, from).to_vec();
        let child = if (from..from + count).contains(&slot) {
            divided.path_part = part;
            place(tree, level, node, from..from + count, slot);
            [0xff; ADDRESS_BYTES]
        } else {
            let (shape, area) = (
                tree.path.scheme.shape(layout, level, level + 1),
                tree.path.scheme.page_area(layout, level, level + 1),
            );
            tree.path.detached.fill(0xff);
            node.shape.copy_entries(
                (&node.bytes, from),
                count,
                (&shape, &mut tree.path.detached[area.clone()], 0),
            );
            let width = tree.path.width(level, &shape, &tree.path.detached[area], count);
            child_value::<PathPages<C>>(tree.write_detached(layout, level, count)?, width)
        };
        divided.heads.push((head, child));
        from += count;
    }
    debug_assert!(from == node.count && divided.heads.len() == parts, "R1: entries lost in a division");
    debug_assert!(divided.path_part < parts, "R3: the path lost its part");
    tree.counts.splits += parts as u64 - 1;
    Ok(divided)
}

/// Copies every node from `lowest` up aside, and gives the emptied path a layout.
fn put_aside<N: Nand, C: LayoutChoice>(tree: &mut Tree<N, C>, lowest: u8, layout: u8) {
    debug_assert!((1..=tree.path.height).contains(&lowest), "R2: level {lowest} of {}", tree.path.height);
    for level in lowest..=tree.path.height {
        if !tree.path.is_aside(level) {
            let area = tree.path.node_area(level);
            let aside = tree.path.scheme.aside_area(level, tree.path.height);
            tree.path.buffer.copy_within(area, aside.start);
            tree.path.step_mut(level).aside = true;
        }
    }
    tree.path.layout = layout;
    let page_bytes = tree.path.scheme.layout.page_bytes();
    tree.path.buffer[..page_bytes].fill(0xff);
}

/// Gives the path from `lowest` up the nearest layout that has room for its present nodes.
pub(super) fn keep<N: Nand, C: LayoutChoice>(tree: &mut Tree<N, C>, lowest: u8) -> Result<(), IndexFault> {
    if !has_aside(tree, lowest) {
        return Ok(());
    }
    let height = tree.path.height;
    let holds = |layout: &u8| {
        (lowest..=height).all(|level| tree.path.scheme.fits(*layout, (level, height), tree.path.count(level)))
    };
    let Some(layout) = tree.path.scheme.nearest().find(holds) else {
        return Err(IndexFault::broken(Invariant::R8, "a path that fits no layout", tree.root.0));
    };
    put_aside(tree, lowest, layout);
    for level in lowest..=height {
        let (source, count, slot) = (tree.path.shape(level), tree.path.count(level), tree.path.slot(level));
        let node = Loose { shape: source, bytes: tree.path.node(level).to_vec(), count };
        place(tree, level, &node, 0..count, slot);
    }
    Ok(())
}
