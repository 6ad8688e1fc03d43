//! Pages in the blocks of IPL and dIPL: images of nodes and log units.

use super::node::{self, Frame};
use super::sheet::{Area, Sheet};
use super::{Decoder, Page, Role, ftl};
use nandex::Ppn;
use nandex::codec::crc32;
use nandex::ordered::node::NodeShape;

/// The sizes of IPL, which its checkpoint tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Most entries of a node.
    pub order: usize,
    /// Size of a log unit, in bytes.
    pub unit: usize,
}

pub(super) fn decode(decoder: &Decoder, ppn: Ppn, mut sheet: Sheet<'_>) -> Page {
    if let Some(page) = ftl::record_page(ppn, &mut sheet) {
        return page;
    }
    let spare = sheet.spare;
    if spare.len() < 49 {
        return Page::unknown(sheet, "a page whose spare area is too small for a tag");
    }
    let letter = spare[1];
    let right = crc32(&[&spare[1..45]]) == sheet.peek(Area::Spare, 45, 4) as u32;
    let what = match letter {
        b'N' => "image of a node",
        b'n' => "image whose predecessor was not kept",
        b'R' => "log units",
        _ => "unknown",
    };
    sheet.note(Area::Spare, (1, 1), "kind", format!("{}: {what}", char::from(letter)));
    let level = sheet.spare_number(2, 1, "level") as u8;
    let count = sheet.spare_number(3, 2, "entries in use") as usize;
    let number = sheet.spare_number(5, 4, "number of the node") as u32;
    for (at, bytes, name) in [(9, 4, "generation"), (13, 4, "session")] {
        sheet.spare_number(at, bytes, name);
    }
    let sequence = sheet.spare_number(17, 5, "contains records up to");
    for (at, bytes, name) in
        [(22, 5, "committed up to"), (27, 2, "page in its block"), (29, 2, "pages that the merge wrote")]
    {
        sheet.spare_number(at, bytes, name);
    }
    let data_right = letter == b'R' || crc32(&[sheet.data]) == sheet.peek(Area::Spare, 41, 4) as u32;
    sheet.checksum(Area::Spare, 41, data_right);
    sheet.checksum(Area::Spare, 45, right);
    if !right || !data_right {
        return Page::torn(sheet, "Its tag or its image does not pass its checksum.");
    }
    if letter == b'R' {
        return units(decoder, sequence, sheet);
    }
    if !matches!(letter, b'N' | b'n') || level == 0 {
        return Page::unknown(sheet, "a page with a tag of an unknown kind");
    }
    let key = usize::from(decoder.record.key_bytes);
    let value = if level == 1 { usize::from(decoder.record.value_bytes) } else { 4 };
    let fits = sheet.data.len() / (key + value);
    let capacity = decoder.ipl.map_or(fits, |shape| shape.order.min(fits));
    let shape = NodeShape { capacity, key_bytes: key, value_bytes: value };
    let mut node = node::read(&mut sheet, Frame { level, at: 0, shape, count }, u32::MAX);
    node.number = Some(number);
    let (role, what) = match (number, level) {
        (0, level) => (Role::Root, format!("the image of the root, level {level}")),
        (_, 1) => (Role::Leaf, format!("the image of leaf {number}")),
        (_, level) => (Role::Inner, format!("the image of node {number}, level {level}")),
    };
    let mut page = Page::new(role, format!("{what}, {} entries", node.entries), sheet);
    page.note = "Newer changes of this node may wait in the log units of its block.".into();
    page.nodes = vec![node];
    page.version = sequence;
    page.kind = letter;
    page
}

fn units(decoder: &Decoder, sequence: u64, mut sheet: Sheet<'_>) -> Page {
    let bytes = decoder.ipl.map_or(sheet.data.len(), |shape| shape.unit).clamp(64, sheet.data.len().max(64));
    let (mut units, mut groups) = (0, 0);
    for at in (0..sheet.data.len()).step_by(bytes) {
        let used = sheet.peek(Area::Data, at + 14, 2) as usize;
        let covered = sheet.data.get(at + 4..at + used.max(4)).unwrap_or(&[]);
        if used < 36 || crc32(&[covered]) != sheet.peek(Area::Data, at, 4) as u32 {
            continue;
        }
        sheet.checksum(Area::Data, at, true);
        for (place, length, name) in [
            (4, 4, "generation"),
            (8, 4, "generation given back before"),
            (12, 2, "units before this one"),
            (14, 2, "bytes in use"),
            (16, 5, "first sequence number"),
            (21, 5, "committed up to"),
        ] {
            sheet.data_number(at + place, length, &format!("unit {units}: {name}"));
        }
        let mut group = at + 36;
        while group + 8 <= at + used {
            let length = sheet.peek(Area::Data, group + 6, 2) as usize;
            sheet.data_number(group, 4, &format!("unit {units}: records of node"));
            sheet.data_number(group + 4, 2, &format!("unit {units}: unit with older ones"));
            sheet.note(Area::Data, (group + 8, length), &format!("unit {units}: records"), String::new());
            groups += 1;
            group += 8 + length;
        }
        units += 1;
    }
    let mut page =
        Page::new(Role::Log, format!("{units} log units with changes of nodes, {groups} in all"), sheet);
    page.version = sequence;
    page.kind = b'R';
    page
}
