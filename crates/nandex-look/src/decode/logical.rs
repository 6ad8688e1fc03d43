//! The contents of a logical page: a node of a B+-tree, or a page of a layer or tree above an FTL.
//!
//! A logical page does not name its index. So kinds are recognised by their marks and checksums, the
//! strictest first.

use super::node::{self, Frame};
use super::sheet::{Area, Sheet};
use super::{Decoder, Page, Role, messages, spatial};
use nandex::codec::crc32;
use nandex::ordered::node::NodeShape;
use serde::Serialize;

/// The shape of a B+-tree, from its superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct StoreShape {
    /// Most entries of a leaf.
    pub leaf: usize,
    /// Most children of an inner node.
    pub inner: usize,
    /// Sizes of a key and of a value, in bytes.
    pub record: (u8, u8),
    /// Whether the tree was closed.
    pub clean: bool,
    /// Size of a value in a leaf of several pages, in bytes, if the records name such leaves (MB-tree, PIO
    /// B-tree).
    pub above: Option<u8>,
}

impl StoreShape {
    /// Reads the superblock at an offset of a page: page head, mark, sizes.
    pub(crate) fn read(page: &[u8], at: usize) -> Option<StoreShape> {
        let bytes = page.get(at..at + 40)?;
        (bytes[8..16] == *b"NXBPLUS1" && bytes[32] > 0).then_some(())?;
        let number = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        Some(StoreShape {
            leaf: number(24) as usize,
            inner: number(28) as usize,
            record: (bytes[32], bytes[33]),
            clean: bytes[34] == 1,
            above: matches!(&bytes[37..39], b"MB" | b"PI").then_some(bytes[39]),
        })
    }

    /// Reads the superblock of a tree, or the one of a cluster layer, which has a copy of its bytes.
    pub(crate) fn of_page(page: &[u8]) -> Option<StoreShape> {
        StoreShape::read(page, 0).or_else(|| {
            let is_cluster = page.get(8..16)? == b"NXCLUST1";
            is_cluster.then(|| StoreShape::read(page, 64)).flatten()
        })
    }
}

/// The number in the page head; `None` if the checksum is wrong.
fn head(data: &[u8]) -> Option<u32> {
    let crc = u32::from_le_bytes(data.get(..4)?.try_into().ok()?);
    let number = u32::from_le_bytes(data.get(4..8)?.try_into().ok()?);
    (crc == crc32(&[data.get(4..)?])).then_some(number)
}

pub(super) fn note_head(sheet: &mut Sheet<'_>) {
    sheet.checksum(Area::Data, 0, true);
    sheet.data_number(4, 4, "own number");
}

pub(super) fn decode(decoder: &Decoder, number: u32, sheet: Sheet<'_>) -> Page {
    let data = sheet.data;
    if data.iter().all(|&byte| byte == 0) {
        return Page::new(Role::Data, "zeros", sheet);
    }
    if let Some(b"NXLG" | b"NXTB" | b"NXNO") = data.get(4..8) {
        return messages::marked(sheet);
    }
    if messages::is_units(number, data) {
        return messages::units(number, sheet);
    }
    match (head(data), data.get(8), data.get(9)) {
        (Some(_), _, _) if data.get(8..16).is_some_and(|mark| mark.starts_with(b"NX")) => superblock(sheet),
        (Some(own), Some(level @ 1..=64), Some(0xb1)) => tree_node(decoder, own, *level, sheet),
        (Some(own), Some(level @ 1..=64), Some(0xc1)) => spatial::node(own, *level, sheet),
        (Some(_), ..) => messages::headed(decoder, sheet),
        _ => Page {
            note: "Nothing in it tells what it is: the page head's checksum does not match.".into(),
            ..Page::unknown(sheet, "contents of an unknown kind")
        },
    }
}

fn tree_node(decoder: &Decoder, own: u32, level: u8, mut sheet: Sheet<'_>) -> Page {
    note_head(&mut sheet);
    sheet.data_number(8, 1, "level");
    sheet.note(Area::Data, (9, 1), "node of a B+-tree", "0xb1".into());
    let count = sheet.data_number(10, 2, "entries in use") as usize;
    let record = decoder.store.map_or((decoder.record.key_bytes, decoder.record.value_bytes), |s| s.record);
    let (key, value) = (usize::from(record.0), if level == 1 { usize::from(record.1) } else { 4 });
    let fits = sheet.data.len().saturating_sub(12) / (key + value);
    let capacity = decoder.store.map_or(fits, |s| if level == 1 { s.leaf } else { s.inner }).min(fits);
    let shape = NodeShape { capacity, key_bytes: key, value_bytes: value };
    let mut node = node::read(&mut sheet, Frame { level, at: 12, shape, count }, u32::MAX);
    node.number = Some(own);
    let (role, what) = match (own, level) {
        (1, 1) => (Role::Root, "the root, a leaf".to_string()),
        (1, level) => (Role::Root, format!("the root, level {level}")),
        (_, 1) => (Role::Leaf, format!("leaf {own}")),
        (_, level) => (Role::Inner, format!("node {own}, level {level}")),
    };
    let mut page = Page::new(role, format!("{what}, {} of {capacity} entries", node.entries), sheet);
    page.nodes = vec![node];
    page
}

fn superblock(mut sheet: Sheet<'_>) -> Page {
    note_head(&mut sheet);
    let mark = sheet.text(8, 8, "mark");
    let what = match mark.as_str() {
        "NXBPLUS1" => {
            for (at, bytes, name) in [
                (16, 4, "bytes of a page"),
                (20, 4, "pages of the store"),
                (24, 4, "entries of a leaf at most"),
                (28, 4, "children of an internal node at most"),
                (32, 1, "bytes of a key"),
                (33, 1, "bytes of a value"),
                (34, 1, "1 clean, 0 changes under way"),
                (35, 1, "rule for a full leaf"),
                (36, 1, "rule for an underfull node"),
            ] {
                sheet.data_number(at, bytes, name);
            }
            "the superblock of the B+-tree"
        }
        "NXSPACE1" => spatial::superblock(&mut sheet),
        "NXCLUST1" => {
            for (at, bytes, name) in [
                (16, 4, "bytes of a page"),
                (20, 4, "pages of the store"),
                (24, 1, "policy: 1 append, 2 least recent, 3 cascade"),
                (25, 1, "percent for nodes"),
                (28, 4, "pages of a segment"),
                (32, 4, "nodes"),
                (36, 8, "times written"),
                (44, 8, "checkpoint"),
                (52, 4, "next batch, or page of the root"),
                (56, 4, "first segment that is not free"),
                (60, 4, "entries of the table"),
            ] {
                sheet.data_number(at, bytes, name);
            }
            sheet.note(Area::Data, (64, 40), "first bytes of the tree's superblock", String::new());
            "a superblock of the cluster layer"
        }
        "NXJOURN1" | "NXNODLOG" => return messages::journal(&mark, sheet),
        "NXBEPS01" | "NXFDTR01" | "NXLATR01" => messages::manifest(&mut sheet),
        _ => return Page::unknown(sheet, "a superblock of an unknown kind"),
    };
    Page::new(Role::Super, what, sheet)
}
