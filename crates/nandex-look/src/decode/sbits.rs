//! Pages of SBITS: a header, then records in the order of their keys.

use super::sheet::{Area, Sheet, number_text};
use super::{Node, Page, Role};
use nandex::codec::crc32;

const HEADER_BYTES: usize = 24;

pub(super) fn decode(mut sheet: Sheet<'_>) -> Page {
    let data = sheet.data;
    let magic = sheet.data_number(0, 1, "0xB6");
    if magic != 0xb6 || data.len() < HEADER_BYTES {
        return Page::torn(sheet, "It does not begin with 0xB6, as a page of SBITS does.");
    }
    let flags = sheet.data_number(1, 1, "flags: 1 partly filled, 2 closed, 4 the checksum knows the chip");
    let key = sheet.data_number(2, 1, "key bytes") as usize;
    let value = sheet.data_number(3, 1, "value bytes") as usize;
    let is_partial = flags & 1 != 0;
    let named = if is_partial { "records in use" } else { "programs since the newest partly filled page" };
    let count = sheet.data_number(4, 2, named) as usize;
    let number = sheet.data_number(6, 5, "number among the full pages");
    sheet.data_number(11, 4, "oldest block that is kept");
    let program = sheet.data_number(15, 5, "number of the program");
    // Where flag 4 is set, the number of blocks of the chip is in it, which the sheet does not know.
    let chip = crc32(&[&data[..20], &data[HEADER_BYTES..]]) ^ sheet.peek(Area::Data, 20, 4) as u32;
    let right = if flags & 4 == 0 { chip == 0 } else { (1..1 << 24).contains(&chip) };
    sheet.checksum(Area::Data, 20, right);
    if !right || key == 0 {
        return Page::torn(sheet, "Its checksum does not match.");
    }
    let room = (data.len() - HEADER_BYTES) / (key + value);
    let count = if is_partial { count.min(room) } else { room };
    let (mut keys, mut values) = (Vec::with_capacity(count), Vec::with_capacity(count));
    for i in 0..count {
        let at = HEADER_BYTES + i * (key + value);
        keys.push(data[at..at + key].to_vec());
        values.push(data[at + key..at + key + value].to_vec());
        if sheet.detail {
            sheet.note(Area::Data, (at, key), &format!("key {i}"), number_text(&data[at..at + key]));
            let text = number_text(&data[at + key..at + key + value]);
            sheet.note(Area::Data, (at + key, value), &format!("value {i}"), text);
        }
    }
    let title = if is_partial {
        format!("{count} records, partly filled, to become page {number}")
    } else {
        format!("full page {number}")
    };
    let at = (HEADER_BYTES, data.len() - HEADER_BYTES);
    let mut page = Page::new(if is_partial { Role::Log } else { Role::Run }, title, sheet);
    let number = Some(number as u32);
    page.nodes =
        vec![Node { level: 1, number, entries: count, capacity: room, at, keys, links: Vec::new(), values }];
    page.version = program;
    page.kind = u8::from(is_partial);
    page
}
