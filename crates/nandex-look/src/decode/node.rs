//! A node as most trees here share it: keys in one array, values or children in another.

use super::Node;
use super::sheet::{Area, Sheet, number_text};
use nandex::ordered::node::NodeShape;

/// The position and the sizes of a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub(super) level: u8,
    /// Offset of the first byte.
    pub(super) at: usize,
    pub(super) shape: NodeShape,
    /// Number of entries in use, as the page says.
    pub(super) count: usize,
}

/// Whether an entry is kept: all entries of an inner node, but only the first and the last of a leaf unless
/// `detail` is set.
fn sheet_keeps(detail: bool, level: u8, i: usize, count: usize) -> bool {
    detail || level > 1 || i == 0 || i + 1 == count
}

/// Reads a node and notes its entries. A count above the capacity is limited to the entries that fit.
pub(super) fn read(sheet: &mut Sheet<'_>, frame: Frame, child_mask: u32) -> Node {
    let Frame { level, at, shape, count } = frame;
    let room = sheet.data.len().saturating_sub(at) / (shape.key_bytes + shape.value_bytes).max(1);
    let count = count.min(shape.capacity).min(room);
    let sheet_detail = sheet.detail;
    let bytes = shape.bytes().min(sheet.data.len().saturating_sub(at));
    let mut node = Node {
        level,
        number: None,
        entries: count,
        capacity: shape.capacity,
        at: (at, bytes),
        keys: Vec::with_capacity(count),
        links: Vec::new(),
        values: Vec::new(),
    };
    // A look at many pages keeps the ends of leaves only.
    let is_kept = |i: usize| sheet_keeps(sheet_detail, level, i, count);
    for i in (0..count).filter(|&i| is_kept(i)) {
        let from = at + i * shape.key_bytes;
        let key = sheet.data.get(from..from + shape.key_bytes).unwrap_or(&[]).to_vec();
        if sheet.detail {
            let what = if level == 1 { "key" } else { "bound" };
            let name = format!("level {level}, {what} {i}");
            sheet.note(Area::Data, (from, shape.key_bytes), &name, number_text(&key));
        }
        node.keys.push(key);
    }
    for i in (0..count).filter(|&i| is_kept(i)) {
        let from = at + shape.capacity * shape.key_bytes + i * shape.value_bytes;
        if level > 1 {
            let child = sheet.peek(Area::Data, from, 4) as u32;
            node.links.push(child & child_mask);
            if sheet.detail {
                let text = (child & child_mask).to_string();
                sheet.note(Area::Data, (from, 4), &format!("level {level}, child {i}"), text);
            }
        } else if shape.value_bytes > 0 {
            let value = sheet.data.get(from..from + shape.value_bytes).unwrap_or(&[]).to_vec();
            if sheet.detail {
                let name = format!("level 1, value {i}");
                sheet.note(Area::Data, (from, shape.value_bytes), &name, number_text(&value));
            }
            node.values.push(value);
        }
    }
    node
}
