//! Nodes and superblocks of spatial indexes with coordinates of four bytes in the plane, as the lab's are.

use super::sheet::{Area, Sheet};
use super::{Node, Page, Role};

/// Size of a rectangle in bytes: two corners with two coordinates each.
const RECT: usize = 16;

pub(super) fn superblock(sheet: &mut Sheet<'_>) -> &'static str {
    sheet.text(16, 8, "kind of tree");
    for (at, bytes, name) in [
        (24, 4, "bytes of a page"),
        (28, 4, "pages of the store"),
        (32, 2, "entries of a leaf at most"),
        (34, 2, "entries of any other node at most"),
        (36, 1, "coordinates: 1 i32, 2 i64, 3 f32, 4 f64"),
        (37, 1, "dimensions"),
        (38, 1, "bytes of a place on the Hilbert curve"),
        (39, 1, "entries of a node at least, percent"),
        (40, 1, "nodes of the largest narrow operation"),
        (41, 1, "1 = every child is one level below"),
        (42, 1, "1 clean, 0 changes under way"),
        (43, 1, "layer below"),
        (44, 1, "bytes of a link"),
    ] {
        sheet.data_number(at, bytes, name);
    }
    "the superblock of a spatial index"
}

fn rect_text(bytes: &[u8]) -> String {
    let number =
        |at: usize| bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, i32::from_le_bytes);
    format!("({}, {}) to ({}, {})", number(0), number(4), number(8), number(12))
}

/// Decodes a node of an R-tree with two dimensions and `i32` corners. Other coordinates are shown as bytes.
pub(super) fn node(own: u32, level: u8, mut sheet: Sheet<'_>) -> Page {
    super::logical::note_head(&mut sheet);
    sheet.data_number(8, 1, "level");
    sheet.note(Area::Data, (9, 1), "node of a spatial index", "0xc1".into());
    let count = sheet.data_number(10, 2, "entries in use") as usize;
    let data = (sheet.data_number(12, 2, "of these data entries") as usize).min(count);
    sheet.data_number(14, 2, "children two levels below");
    let room = sheet.data.len().saturating_sub(16);
    let data = data.min(room / (RECT + 8));
    let children = (count - data.min(count)).min(room.saturating_sub(data * (RECT + 8)) / (RECT + 4));
    let (mut keys, mut links, mut values) = (Vec::new(), Vec::new(), Vec::new());
    for i in 0..data {
        let at = 16 + i * (RECT + 8);
        let rect = sheet.data.get(at..at + RECT).unwrap_or(&[]).to_vec();
        sheet.note(Area::Data, (at, RECT), &format!("rectangle {i}"), rect_text(&rect));
        let id = sheet.data_number(at + RECT, 8, &format!("identifier {i}"));
        keys.push(rect);
        values.push(id.to_be_bytes().to_vec());
    }
    for i in 0..children {
        let at = 16 + data * (RECT + 8) + i * (RECT + 4);
        let rect = sheet.data.get(at..at + RECT).unwrap_or(&[]).to_vec();
        sheet.note(Area::Data, (at, RECT), &format!("box of child {i}"), rect_text(&rect));
        links.push(sheet.data_number(at + RECT, 4, &format!("child {i}")) as u32);
        keys.push(rect);
    }
    let is_half = data > 0 && children > 0;
    let what = match (own, is_half, level) {
        (1, true, _) => "the root, a half-leaf".to_string(),
        (1, _, 1) => "the root, a leaf".to_string(),
        (1, _, level) => format!("the root, level {level}"),
        (_, true, _) => format!("half-leaf {own}: {data} entries of its own and {children} leaves"),
        (_, _, 1) => format!("leaf {own}"),
        (_, _, level) => format!("node {own}, level {level}"),
    };
    let role = match (own, level) {
        (1, _) => Role::Root,
        (_, 1) => Role::Leaf,
        _ if is_half => Role::Leaf,
        _ => Role::Inner,
    };
    let mut page = Page::new(role, format!("{what}, {count} entries"), sheet);
    let entries = data + children;
    let capacity = if level == 1 { room / (RECT + 8) } else { room / (RECT + 4) };
    page.nodes =
        vec![Node { level, number: Some(own), entries, capacity, at: (16, room), keys, links, values }];
    page
}
