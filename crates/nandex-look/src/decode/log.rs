//! Pages of the log under trees on raw NAND: the tag in the spare area, the nodes in the data area.

use super::node::{self, Frame};
use super::sheet::{Area, Sheet};
use super::{Decoder, Node, Page, Role, ftl};
use nandex::Ppn;
use nandex::log::tag::{self, LAYOUTS_MAX, Place, Seal, Tag};
use nandex::ordered::mu::layout::{Layout, LeafShare};
use nandex::ordered::node::NodeShape;
use serde::Serialize;

/// The tree that a log belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LogKind {
    /// The mu-Tree.
    Mu,
    /// The mu*-Tree.
    MuStar,
    /// The wandering B+-tree.
    Wandering,
    /// The VMTree.
    Vm,
}

impl LogKind {
    /// All trees with a log.
    pub const ALL: [LogKind; 4] = [LogKind::Mu, LogKind::MuStar, LogKind::Wandering, LogKind::Vm];

    /// The name with which the tree's pages are sealed.
    pub const fn owner(self) -> &'static str {
        match self {
            LogKind::Mu => "mu-tree 1",
            LogKind::MuStar => "mu*-tree 1",
            LogKind::Wandering => "wandering 1",
            LogKind::Vm => "vmtree 1",
        }
    }

    /// The tree's name in the registry.
    pub const fn index(self) -> &'static str {
        match self {
            LogKind::Mu => "mu",
            LogKind::MuStar => "mu-star",
            LogKind::Wandering => "wandering",
            LogKind::Vm => "vmtree",
        }
    }
}

/// Offset of the node in a page of a VMTree, in bytes.
const VM_NODE_AT: usize = 10;

pub(super) fn decode(decoder: &Decoder, kind: LogKind, ppn: Ppn, mut sheet: Sheet<'_>) -> Page {
    let geometry = &decoder.geometry;
    if sheet.spare.len() < tag::spare_bytes_needed(geometry.pages_per_block) {
        return Page::unknown(sheet, "a page whose spare area is too small for a log");
    }
    if let Some(page) = ftl::record_page(ppn, &mut sheet) {
        return page;
    }
    let record = decoder.record;
    let mut owner = kind.owner().as_bytes().to_vec();
    owner.extend([record.key_bytes, record.value_bytes]);
    let seal = Seal { owner: &owner, page: geometry.page_in_block(ppn) };
    // Of a larger spare area only the bytes that the log needs are its.
    let spare = &sheet.spare[..tag::spare_bytes_needed(geometry.pages_per_block)];
    let decoded = tag::decode(spare, sheet.data, seal);
    note_tag(&mut sheet, spare, decoded.is_some());
    let Some((tag, place)) = decoded else {
        return Page::torn(
            sheet,
            "Neither a page of this tree's log nor one of a checkpoint passes its checksum.",
        );
    };
    let nodes = nodes(decoder, kind, &tag, &mut sheet);
    let vm_root = kind == LogKind::Vm && sheet.peek(Area::Data, 4, 1) & 2 != 0;
    let leads = kind == LogKind::Vm && sheet.peek(Area::Data, 4, 1) & 1 != 0;
    let place_named = leads.then(|| sheet.peek(Area::Data, 0, 4) as u32);
    let is_root = if kind == LogKind::Vm { vm_root } else { tag.root };
    let (role, title) = role(kind, &tag, &nodes, is_root);
    let mut page = Page::new(role, title, sheet);
    page.note = remark(&place, tag);
    page.nodes = nodes;
    page.version = place.sequence;
    page.logical = Some(place.home);
    page.kind = place.remaining;
    page.place = place_named;
    page
}

fn remark(place: &Place, tag: Tag) -> String {
    match place.remaining {
        0 => String::new(),
        n => format!(
            "{n} more pages of the same flush follow; without them this one is as if never written.{}",
            if tag.journal { " Its parent is told later." } else { "" }
        ),
    }
}

fn role(kind: LogKind, tag: &Tag, nodes: &[Node], is_root: bool) -> (Role, String) {
    let levels: Vec<u8> = nodes.iter().map(|node| node.level).collect();
    let (low, high) = (levels.first().copied().unwrap_or(0), levels.last().copied().unwrap_or(0));
    let what = match (low, high) {
        (0, _) => "a page without nodes".to_string(),
        (1, 1) => "a leaf".to_string(),
        (low, high) if low == high => format!("the node of level {low}"),
        (low, high) => format!("a path: levels {low} to {high}"),
    };
    let title = match (is_root, low == high) {
        (true, true) => format!("the root, {what}"),
        (true, false) => format!("{what}, the root among them"),
        _ => what,
    };
    let role = match (is_root, tag.journal && kind != LogKind::Vm, low) {
        (true, ..) => Role::Root,
        (_, true, _) => Role::Journal,
        (_, _, 1) => Role::Leaf,
        (_, _, 0) => Role::Log,
        _ => Role::Inner,
    };
    (role, title)
}

fn note_tag(sheet: &mut Sheet<'_>, spare: &[u8], right: bool) {
    let byte = sheet.peek(Area::Spare, 1, 1) as u8;
    let gaps = match byte & 0xf0 {
        0xa0 => "passes over any number of addresses",
        0xb0 => "passes over no address",
        0xc0.. => "passes over three addresses at most",
        _ => "no page of a log",
    };
    let layout = byte >> 2 & (LAYOUTS_MAX - 1);
    let mut text = format!("{byte:#04x}: {gaps}");
    if byte & 1 != 0 {
        text += ", holds the root";
    }
    if byte & 2 != 0 {
        text += ", journal";
    }
    if layout > 0 {
        text += &format!(", layout {layout}");
    }
    sheet.note(Area::Spare, (0, 1), "bad-block mark", format!("{:#04x}", sheet.peek(Area::Spare, 0, 1)));
    sheet.note(Area::Spare, (1, 1), "kind and flags", text);
    for (at, bytes, name) in [
        (2, 1, "lowest level"),
        (3, 1, "height"),
        (4, 1, "pages of the flush to come"),
        (5, 4, "block in the order of opening"),
        (9, 5, "page in the order of writing"),
        (14, 3, "home block"),
    ] {
        sheet.spare_number(at, bytes, name);
    }
    sheet.checksum(Area::Spare, 17, right);
    for level in 0..tag::LEVELS_MAX {
        sheet.spare_number(21 + 2 * level, 2, &format!("entries at level {}", level + 1));
    }
    let rest = spare.len().saturating_sub(37);
    if spare.get(37..).is_some_and(|bits| bits.iter().any(|&byte| byte != 0xff)) {
        sheet.note(Area::Spare, (37, rest), "valid pages of the block", "a bit each".into());
    }
}

/// The nodes of a page, the lowest first.
fn nodes(decoder: &Decoder, kind: LogKind, tag: &Tag, sheet: &mut Sheet<'_>) -> Vec<Node> {
    let record = decoder.record;
    let key = usize::from(record.key_bytes);
    let value = |level: u8| if level == 1 { usize::from(record.value_bytes) } else { 4 };
    let counted = |level: u8| usize::from(tag.counts[usize::from(level) - 1]);
    let lowest = tag.lowest_level;
    if lowest == 0 || usize::from(lowest) > tag::LEVELS_MAX {
        return Vec::new();
    }
    let mut found = Vec::new();
    match kind {
        LogKind::Wandering | LogKind::Vm => {
            let at = if kind == LogKind::Vm { VM_NODE_AT } else { 0 };
            if kind == LogKind::Vm {
                note_vm(sheet);
            }
            let shape = NodeShape::fitting(sheet.data.len().saturating_sub(at), key, value(lowest));
            let frame = Frame { level: lowest, at, shape, count: counted(lowest) };
            found.push(node::read(sheet, frame, u32::MAX));
        }
        LogKind::Mu | LogKind::MuStar => {
            let share = LeafShare::ALL[usize::from(tag.layout)];
            let layout = Layout::of(sheet.data.len(), record).with_share(share);
            let mask = if kind == LogKind::MuStar { u32::MAX >> 2 } else { u32::MAX };
            let is_root = |level: u8| tag.root && level == tag.height;
            let top = if tag.root { tag.height.min(tag::LEVELS_MAX as u8) } else { tag::LEVELS_MAX as u8 };
            for level in (lowest..=top).filter(|&level| counted(level) > 0 || is_root(level)) {
                let height = if tag.root { tag.height } else { level + 1 };
                let shape = layout.shape(level, height.max(level));
                let frame = Frame {
                    level,
                    at: layout.area(level, height.max(level)).start,
                    shape,
                    count: counted(level),
                };
                found.push(node::read(sheet, frame, mask));
            }
        }
    }
    found
}

fn note_vm(sheet: &mut Sheet<'_>) {
    sheet.data_number(0, 4, "place that the parent names");
    let flags = sheet.peek(Area::Data, 4, 1);
    let mut said = Vec::new();
    for (bit, what) in [(1, "the place above leads here"), (2, "root"), (4, "last page of its operation")] {
        if flags & bit != 0 {
            said.push(what);
        }
    }
    sheet.note(Area::Data, (4, 1), "flags", if said.is_empty() { "none".into() } else { said.join(", ") });
    sheet.data_number(5, 1, "height of the tree");
    let digest = sheet.peek(Area::Data, 6, 4);
    sheet.note(Area::Data, (6, 4), "digest of the table of moves", format!("{digest:08x}"));
}
