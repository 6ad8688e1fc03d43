//! Pages of VMTree-OW, which are programmed over and over on NOR.

use super::sheet::{Area, Sheet, number_text};
use super::{Node, Page, Role};
use nandex::Ppn;
use nandex::codec::crc32;
use nandex::ordered::RecordFormat;

const HEADER_BYTES: usize = 16;

/// The slots of a page: their number and position.
struct Slots {
    capacity: usize,
    marks: usize,
    at: usize,
    bytes: usize,
}

fn slots(page_bytes: usize, entry: usize, bare: bool) -> Slots {
    let bytes = entry + usize::from(!bare);
    let marks = |n: usize| if bare { 2 * n.div_ceil(8) } else { n };
    let mut capacity = page_bytes.saturating_sub(HEADER_BYTES) / bytes.max(1);
    while capacity > 0 && HEADER_BYTES + marks(capacity) + capacity * bytes > page_bytes {
        capacity -= 1;
    }
    Slots { capacity, marks: marks(capacity), at: HEADER_BYTES + marks(capacity), bytes }
}

pub(super) fn decode(record: RecordFormat, ppn: Ppn, mut sheet: Sheet<'_>) -> Page {
    let data = sheet.data;
    if data.get(..4) != Some(b"VMOW") {
        return Page::torn(sheet, "It does not begin with VMOW.");
    }
    sheet.text(0, 4, "mark");
    let sequence = sheet.data_number(4, 4, "sequence");
    let level = sheet.data_number(8, 1, "level, + 0x80 for a root") as u8;
    let retired = sheet.peek(Area::Data, 9, 1).count_ones() <= 6;
    sheet.note(Area::Data, (9, 1), "replaced", if retired { "yes".into() } else { "no".to_string() });
    let born = sheet.data_number(10, 2, "slots filled at birth") as usize;
    let (low, is_root) = (level & 0x7f, level & 0x80 != 0);
    if low == 0 || low >= 0x40 {
        let (role, what) = if low == 0 {
            (Role::Super, "the page of the settings")
        } else {
            (Role::Log, "a page of changes")
        };
        let mut page = Page::new(role, what, sheet);
        page.version = sequence;
        return page;
    }
    let value = if low == 1 { usize::from(record.value_bytes) } else { 4 };
    let key = usize::from(record.key_bytes);
    let slots = slots(data.len(), key + value, false);
    let end = slots.at + born.min(slots.capacity) * slots.bytes;
    let sum =
        crc32(&[&ppn.0.to_le_bytes(), &data[..9], &data[10..12], data.get(slots.at..end).unwrap_or(&[])]);
    let right = sum == sheet.peek(Area::Data, 12, 4) as u32;
    sheet.checksum(Area::Data, 12, right);
    sheet.note(Area::Data, (HEADER_BYTES, slots.marks), "marks of the slots", String::new());
    let (mut keys, mut links, mut values) = (Vec::new(), Vec::new(), Vec::new());
    let mark = |i: usize| data.get(HEADER_BYTES + i).copied().unwrap_or(0xff);
    let used = (0..slots.capacity).rev().find(|&i| (!mark(i) & 0x0f).count_ones() >= 3).map_or(0, |i| i + 1);
    for i in (0..used).filter(|&i| (!mark(i) & 0xf0).count_ones() < 3) {
        let at = slots.at + i * slots.bytes;
        keys.push(sheet.bytes(at, key, &format!("slot {i}: key")));
        if low == 1 {
            values.push(sheet.bytes(at + key, value, &format!("slot {i}: value")));
        } else {
            links.push(sheet.data_number(at + key, 4, &format!("slot {i}: child")) as u32);
        }
    }
    let first = keys.iter().min().map(|key| number_text(key)).unwrap_or_default();
    let role = match (is_root, low) {
        (true, _) => Role::Root,
        (_, 1) => Role::Leaf,
        _ => Role::Inner,
    };
    let state = if retired { ", replaced" } else { "" };
    let title = format!(
        "a node of level {low}{}, {} entries from {first}{state}",
        if is_root { ", a root" } else { "" },
        keys.len()
    );
    let mut page = Page::new(role, title, sheet);
    if !right {
        page.note = "The checksum of what was there at birth does not match, or the slots are bare.".into();
    }
    let entries = keys.len();
    let at = (slots.at, data.len() - slots.at);
    page.nodes =
        vec![Node { level: low, number: None, entries, capacity: slots.capacity, at, keys, links, values }];
    page.version = sequence;
    page.kind = u8::from(retired);
    page
}
