//! The tree on a chip, walked from its root by the rules of `docs/format.md`.

use crate::decode::{Decoder, Family, LogKind, Node, Page, PlowRoot, Role, number_text};
use crate::life::Current;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// A node of the tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TreeNode {
    /// The page that holds the node.
    pub page: u32,
    /// The address or number by which the parent refers to the node.
    pub name: u32,
    /// The level of the node; a leaf is 1. Levels of plow are counted from the lowest.
    pub level: u8,
    /// Number of entries in use.
    pub entries: usize,
    /// Number of records among the entries.
    pub own_records: usize,
    /// Most entries that fit.
    pub capacity: usize,
    /// Whether the node holds both records and children.
    pub mixed: bool,
    /// The smallest and the largest key or bound.
    pub keys: [String; 2],
    /// The index of the parent in the list of nodes.
    pub parent: Option<usize>,
    /// Number of children that were not found.
    pub missing: usize,
}

/// A tree as a list of nodes: the root first, and every node after its parent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tree {
    /// The nodes of the tree.
    pub nodes: Vec<TreeNode>,
    /// A remark on the tree; usually empty.
    pub note: String,
    /// Whether all children were found. A node that is not in the tree then does not count.
    pub is_complete: bool,
}

impl Tree {
    /// Whether a node of the tree is in this page.
    pub fn holds(&self, ppn: u32) -> bool {
        self.nodes.iter().any(|node| node.page == ppn)
    }

    /// Number of levels of the tree.
    pub fn height(&self) -> u32 {
        self.nodes.iter().map(|node| u32::from(node.level)).max().unwrap_or(0)
    }
}

/// A function that finds the node to which a parent refers: its page and its index among the page's nodes.
type Find<'a> = &'a dyn Fn(u32, u8) -> Option<(u32, usize)>;

/// Most nodes of a tree, because links on a damaged chip may form a cycle.
const NODES_MAX: usize = 1 << 20;

fn entry(page: u32, name: u32, node: &Node, parent: Option<usize>) -> TreeNode {
    let own = node.entries - node.links.len().min(node.entries);
    TreeNode {
        page,
        name,
        level: node.level,
        entries: node.entries,
        own_records: if node.level == 1 { node.entries } else { own },
        capacity: node.capacity,
        mixed: node.level > 1 && own > 0,
        keys: ends(&node.keys),
        parent,
        missing: 0,
    }
}

/// The smallest and the largest key, or the corners of the box around rectangles of four `i32`.
fn ends(keys: &[Vec<u8>]) -> [String; 2] {
    if keys.first().is_none_or(|key| key.len() != 16) {
        let text = |key: Option<&Vec<u8>>| key.map_or(String::new(), |key| number_text(key));
        return [text(keys.first()), text(keys.last())];
    }
    let number =
        |key: &Vec<u8>, at: usize| i32::from_le_bytes([key[at], key[at + 1], key[at + 2], key[at + 3]]);
    let each = |at: usize| keys.iter().filter(|key| key.len() == 16).map(move |key| number(key, at));
    let least = |at: usize| each(at).min().unwrap_or(0);
    let most = |at: usize| each(at).max().unwrap_or(0);
    [format!("{},{}", least(0), least(4)), format!("{},{}", most(8), most(12))]
}

fn walk(pages: &[Page], root: Option<(u32, usize)>, find: Find<'_>) -> Tree {
    let mut tree = Tree { is_complete: true, ..Tree::default() };
    let Some((page, place)) = root else {
        return Tree { note: "No root was found.".into(), is_complete: false, ..Tree::default() };
    };
    let Some(node) = pages[page as usize].nodes.get(place) else {
        return Tree { note: "The root holds nothing yet.".into(), is_complete: false, ..Tree::default() };
    };
    let name = node.number.unwrap_or(page);
    let mut seen = BTreeSet::from([(page, place)]);
    let mut waiting = std::collections::VecDeque::from([(page, place, name, None)]);
    while let Some((page, place, name, parent)) = waiting.pop_front() {
        let node = &pages[page as usize].nodes[place];
        let at = tree.nodes.len();
        tree.nodes.push(entry(page, name, node, parent));
        for &link in &node.links {
            match find(link, node.level) {
                Some(child) if tree.nodes.len() + waiting.len() < NODES_MAX && seen.insert(child) => {
                    waiting.push_back((child.0, child.1, link, Some(at)));
                }
                _ => {
                    tree.nodes[at].missing += 1;
                    tree.is_complete = false;
                }
            }
        }
    }
    tree
}

pub(crate) fn build(decoder: &Decoder, pages: &[Page], current: &Current, plow: Option<&PlowRoot>) -> Tree {
    match decoder.family {
        Family::Log(kind) => log_tree(decoder, kind, pages),
        Family::Ftl | Family::Tbm => store_tree(pages, current),
        Family::Plow => plow_levels(pages, plow),
        Family::Sbits => row(pages),
        Family::Furrow => changes(decoder, pages),
        Family::Ipl => images(pages),
        Family::Overwrite => overwritten(pages),
    }
}

/// The tree of a log, from the newest root with a complete flush.
fn log_tree(decoder: &Decoder, kind: LogKind, pages: &[Page]) -> Tree {
    let per_block = decoder.geometry.pages_per_block;
    let is_log = |page: &Page| {
        page.whole && matches!(page.role, Role::Root | Role::Inner | Role::Leaf | Role::Journal | Role::Log)
    };
    let sequences: BTreeSet<u64> = pages.iter().filter(|p| is_log(p)).map(|p| p.version).collect();
    let flushed =
        |page: &Page| (1..=u64::from(page.kind)).all(|more| sequences.contains(&(page.version + more)));
    // Addresses name homes; the block that answers for one is the one written to last under its name.
    let mut homes: BTreeMap<u32, (u64, u32)> = BTreeMap::new();
    for (ppn, page) in pages.iter().enumerate().filter(|(_, page)| is_log(page)) {
        let (home, block) = (page.logical.unwrap_or(0), ppn as u32 / per_block);
        let newest = homes.entry(home).or_insert((page.version, block));
        if page.version >= newest.0 {
            *newest = (page.version, block);
        }
    }
    let place_of = |address: u32| {
        let block = homes.get(&(address / per_block))?.1;
        Some((block * per_block + address % per_block) as usize).filter(|&at| at < pages.len())
    };
    // Of a VMTree the newest page that says "the place above leads here" stands for the place.
    let mut moved: BTreeMap<u32, (u64, u32)> = BTreeMap::new();
    for (ppn, page) in pages.iter().enumerate().filter(|(_, page)| is_log(page)) {
        if let Some(place) = page.place {
            let newest = moved.entry(place).or_insert((page.version, ppn as u32));
            if page.version >= newest.0 {
                *newest = (page.version, ppn as u32);
            }
        }
    }
    let find = |address: u32, level: u8| {
        let mut at = place_of(address);
        if kind == LogKind::Vm
            && let Some((version, ppn)) = moved.get(&address)
            && at.is_none_or(|at| !is_log(&pages[at]) || pages[at].version < *version)
        {
            at = Some(*ppn as usize);
        }
        let page = &pages[at?];
        let place = page.nodes.iter().position(|node| node.level + 1 == level)?;
        Some((at? as u32, place)).filter(|_| is_log(page))
    };
    let roots =
        (0..pages.len()).filter(|&i| pages[i].role == Role::Root && pages[i].whole && flushed(&pages[i]));
    let root = roots.max_by_key(|&i| pages[i].version);
    walk(pages, root.map(|i| (i as u32, pages[i].nodes.len().saturating_sub(1))), &find)
}

/// The tree on logical pages, whose root is node 1.
fn store_tree(pages: &[Page], current: &Current) -> Tree {
    let mut numbers: BTreeMap<u32, (bool, u64, u32)> = BTreeMap::new();
    for &ppn in current.values() {
        let page = &pages[ppn as usize];
        if let Some(number) = page.nodes.first().and_then(|node| node.number) {
            let rank = (page.kind == b'B', page.version, ppn);
            let newest = numbers.entry(number).or_insert(rank);
            *newest = rank.max(*newest);
        }
    }
    let find = |number: u32, _: u8| numbers.get(&number).map(|found| (found.2, 0));
    let mut tree = walk(pages, find(1, 0), &find);
    if tree.nodes.is_empty() {
        let note = "The pages of this index are no nodes of a B+-tree as they stand: it keeps changes, runs or \
                    messages. They are shown one by one.";
        tree.note = note.into();
    } else if tree.nodes.iter().any(|node| node.missing > 0) {
        tree.note = "Some children are kept in another form than a page of their own (leaves of several pages, logs)."
            .into();
    }
    tree
}

/// The levels of plow, with the memtable of the newest commit page on top.
fn plow_levels(pages: &[Page], root: Option<&PlowRoot>) -> Tree {
    let Some(root) = root else {
        return Tree { note: "No commit page was found.".into(), ..Tree::default() };
    };
    let mut tree = Tree { is_complete: true, ..Tree::default() };
    let newest = (0..pages.len()).filter(|&i| pages[i].role == Role::Commit && pages[i].kind == 2);
    let top = root.levels.len() as u8 + 1;
    if let Some(at) = newest.max_by_key(|&i| pages[i].version) {
        let empty = Node {
            level: top,
            number: None,
            entries: 0,
            capacity: 0,
            at: (0, 0),
            keys: Vec::new(),
            links: Vec::new(),
            values: Vec::new(),
        };
        let node = pages[at].nodes.first().cloned().unwrap_or(empty);
        tree.nodes.push(entry(at as u32, at as u32, &Node { level: top, ..node }, None));
    }
    for (i, level) in root.levels.iter().enumerate() {
        // Pages that are swept already come first in the order of keys.
        for (first, count) in level.new.iter().chain(&level.old) {
            for ppn in *first..first + count {
                match pages.get(ppn as usize).and_then(|page| page.nodes.first()) {
                    Some(node) => {
                        let level = top - 1 - i as u8;
                        tree.nodes.push(entry(ppn, ppn, &Node { level, ..node.clone() }, Some(0)));
                    }
                    None => tree.is_complete = false,
                }
            }
        }
    }
    tree.note =
        "Levels, not nodes: the memtable above, then each level's pages in the order of their keys.".into();
    tree
}

/// The pages of SBITS, one after the other.
fn row(pages: &[Page]) -> Tree {
    let newest = (0..pages.len()).filter(|&i| pages[i].role == Role::Log).max_by_key(|&i| pages[i].version);
    let mut full: BTreeMap<u32, usize> = BTreeMap::new();
    for (i, page) in pages.iter().enumerate().filter(|(_, page)| page.role == Role::Run) {
        if let Some(number) = page.nodes.first().and_then(|node| node.number) {
            full.insert(number, i);
        }
    }
    let next = newest.and_then(|i| pages[i].nodes.first()?.number);
    let partial = newest.filter(|_| next.is_none_or(|next| !full.contains_key(&next)));
    let mut tree = Tree { is_complete: true, ..Tree::default() };
    for i in full.into_values().chain(partial) {
        let node = &pages[i].nodes[0];
        tree.nodes.push(entry(i as u32, node.number.unwrap_or(0), node, None));
    }
    tree.note = "No tree: full pages in the order of their keys; a spline in RAM finds the page.".into();
    tree
}

/// The pages of furrow, in the order in which they were written.
fn changes(decoder: &Decoder, pages: &[Page]) -> Tree {
    let per_block = decoder.geometry.pages_per_block as usize;
    let mut written: Vec<usize> = (0..pages.len()).filter(|&i| !pages[i].nodes.is_empty()).collect();
    written.sort_by_key(|&i| (pages[i].version, i % per_block));
    let mut tree = Tree { is_complete: true, ..Tree::default() };
    for i in written {
        tree.nodes.push(entry(i as u32, i as u32, &pages[i].nodes[0], None));
    }
    tree.note = "No tree: changes in the order in which they were made; a directory in RAM finds the newest of each key.".into();
    tree
}

/// The newest images of the nodes of IPL, from node 0 on.
fn images(pages: &[Page]) -> Tree {
    let mut newest: BTreeMap<u32, (u64, u32)> = BTreeMap::new();
    for (ppn, page) in pages.iter().enumerate().filter(|(_, page)| page.whole) {
        if let Some(number) = page.nodes.first().and_then(|node| node.number) {
            let best = newest.entry(number).or_insert((page.version, ppn as u32));
            if page.version >= best.0 {
                *best = (page.version, ppn as u32);
            }
        }
    }
    let find = |number: u32, _: u8| newest.get(&number).map(|found| (found.1, 0));
    let mut tree = walk(pages, find(0, 0), &find);
    tree.note =
        "Images only: changes that wait in log units are not worked in, so entries may be old.".into();
    tree
}

/// The tree of VMTree-OW. Children are pages; of several roots, the newest that was not replaced counts.
fn overwritten(pages: &[Page]) -> Tree {
    let roots = (0..pages.len()).filter(|&i| pages[i].role == Role::Root && pages[i].kind == 0);
    let root = roots.max_by_key(|&i| pages[i].version).map(|i| (i as u32, 0));
    let find = |ppn: u32, level: u8| {
        let page = pages.get(ppn as usize)?;
        page.nodes.first().filter(|node| node.level + 1 == level).map(|_| (ppn, 0))
    };
    walk(pages, root, &find)
}
