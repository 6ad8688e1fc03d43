//! Pages in the buffer blocks of a Transit Buffer Manager (WPCB-tree).

use super::sheet::{Area, Sheet};
use super::{Decoder, Page, Role, logical};
use nandex::Ppn;
use nandex::codec::crc32;

/// The flag of the last page of a group.
const IS_LAST: u64 = 2;
const IS_TRIM: u64 = 4;
const IS_BELOW: u64 = 8;

/// Whether the bytes are an intact page of a buffer block, at this position of the buffer blocks.
pub(super) fn is_whole(ppn: Ppn, data: &[u8], spare: &[u8]) -> bool {
    spare.len() >= 27
        && spare[1] & 0xf0 == 0xb0
        && crc32(&[&ppn.0.to_le_bytes(), data, &spare[1..23]])
            == u32::from_le_bytes([spare[23], spare[24], spare[25], spare[26]])
}

/// Decodes a page; `ppn` counts from the first page of the buffer blocks.
pub(super) fn decode(decoder: &Decoder, ppn: Ppn, mut sheet: Sheet<'_>) -> Page {
    let right = is_whole(ppn, sheet.data, sheet.spare);
    let flags = sheet.peek(Area::Spare, 1, 1);
    let mut said = Vec::new();
    for (bit, what) in [
        (1, "first of its group"),
        (IS_LAST, "last of its group"),
        (IS_TRIM, "trimmed"),
        (IS_BELOW, "the newest contents are in the store below"),
    ] {
        if flags & bit != 0 {
            said.push(what);
        }
    }
    sheet.note(Area::Spare, (0, 1), "bad-block mark", format!("{:#04x}", sheet.peek(Area::Spare, 0, 1)));
    sheet.note(Area::Spare, (1, 1), "flags", format!("{flags:#04x}: {}", said.join(", ")));
    let number = sheet.spare_number(2, 4, "logical page") as u32;
    let version = sheet.spare_number(6, 5, "version");
    sheet.spare_number(11, 4, "erases of the block");
    sheet.spare_number(15, 3, "buffer block converted before");
    sheet.spare_number(18, 1, "its erases then, modulo 256");
    sheet.spare_number(19, 4, "page programmed before");
    sheet.checksum(Area::Spare, 23, right);
    if !right {
        return Page::torn(sheet, "It does not pass the checksum of a page in a buffer block.");
    }
    let mut page = if flags & (IS_TRIM | IS_BELOW) != 0 {
        Page::new(Role::Trim, said.last().copied().unwrap_or("trimmed"), sheet)
    } else {
        logical::decode(decoder, number, sheet)
    };
    page.title = format!("logical page {number} in a buffer block: {}", page.title);
    page.logical = Some(number);
    page.version = version;
    page.kind = b'B';
    page
}
