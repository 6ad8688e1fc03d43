//! Pages of furrow: a header, then changes of one size, each with its own checksum.

use super::sheet::{Area, Sheet, number_text};
use super::{Node, Page, Role};
use nandex::codec::crc32;
use nandex::{Geometry, Ppn};

const HEADER_BYTES: usize = 32;
const CRC_AT: usize = 28;
const CHANGE_BYTES: usize = 4;
/// Bits of a change's first byte that do not tell its kind: removal, group, program.
const FLAGS: u8 = 0x0f;

pub(super) fn decode(geometry: &Geometry, ppn: Ppn, mut sheet: Sheet<'_>) -> Page {
    let data = sheet.data;
    if data.len() < HEADER_BYTES || !data.starts_with(b"FRW") {
        return Page::torn(sheet, "It does not begin with FRW1.");
    }
    sheet.text(0, 4, "mark and version");
    let flags = sheet.data_number(4, 1, "flags: 1 the copies are whole, 2 a mark, 4 of a close");
    let key = sheet.data_number(5, 1, "key bytes") as usize;
    let value = sheet.data_number(6, 1, "value bytes") as usize;
    sheet.data_number(7, 1, "salt of the block, + 16 times that of the block before");
    sheet.data_number(8, 4, "blocks of the chip");
    sheet.data_number(12, 2, "pages of a block");
    sheet.data_number(14, 2, "pages that count of the block before");
    sheet.data_number(16, 2, "changes that count in the page before");
    let number = sheet.data_number(18, 4, "number of the block");
    sheet.data_number(22, 4, "oldest block that counts");
    sheet.data_number(26, 2, "blocks between, of which no page counts");
    let right = crc32(&[&ppn.0.to_le_bytes(), &data[..CRC_AT]]) == sheet.peek(Area::Data, CRC_AT, 4) as u32
        && key > 0;
    sheet.checksum(Area::Data, CRC_AT, right);
    if !right {
        return Page::torn(sheet, "Its checksum does not match.");
    }
    let word = usize::from(geometry.append_bytes).max(1);
    let first = HEADER_BYTES.next_multiple_of(word);
    let bytes = (CHANGE_BYTES + key + value).next_multiple_of(word);
    let capacity = data.len().saturating_sub(first) / bytes;
    let (mut keys, mut values) = (Vec::new(), Vec::new());
    for slot in 0..capacity {
        let at = first + slot * bytes;
        let change = &data[at..at + CHANGE_BYTES + key + value];
        let place = [ppn.0.to_le_bytes(), (number as u32).to_le_bytes(), (slot as u32).to_le_bytes()];
        let crc = crc32(&[place.as_flattened(), &change[..1], &change[CHANGE_BYTES..]]).to_le_bytes();
        if change[0] & !FLAGS != 0xa0 || change[1..CHANGE_BYTES] != crc[..3] {
            break;
        }
        let (name, removed) = (&change[CHANGE_BYTES..][..key], change[0] & 1 > 0);
        if sheet.detail {
            let what = if removed { "removal of" } else { "put of" };
            let text = format!("{what} {}, flags {}", number_text(name), change[0] & FLAGS);
            sheet.note(Area::Data, (at, bytes), &format!("change {slot}"), text);
        }
        keys.push(name.to_vec());
        values.push(change[CHANGE_BYTES + key..].to_vec());
    }
    let title = match flags & 6 {
        0 => format!("{} changes of block {number}", keys.len()),
        2 => format!("a mark without changes, of block {number}"),
        _ => format!("the mark of a close, of block {number}"),
    };
    let entries = keys.len();
    let at = (first, data.len() - first);
    let mut page = Page::new(if flags & 6 == 0 { Role::Log } else { Role::Checkpoint }, title, sheet);
    if flags & 6 == 0 {
        page.nodes =
            vec![Node { level: 1, number: None, entries, capacity, at, keys, links: Vec::new(), values }];
    }
    page.version = number;
    page.kind = flags as u8;
    page
}
