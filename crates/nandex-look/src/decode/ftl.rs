//! Pages of an FTL: the kind, number and version in the spare area, and what the logical page holds.

use super::record;
use super::sheet::{Area, Sheet};
use super::{Decoder, Page, Role, logical, tbm};
use nandex::Ppn;
use nandex::blocks::spare::{Header, PageKind, SPARE_BYTES};

/// The header of the page; `None` unless the page is whole and belongs to an FTL, a checkpoint or an
/// anchor.
fn header(ppn: Ppn, sheet: &Sheet<'_>) -> Option<Header> {
    let spare: &[u8; SPARE_BYTES] = sheet.spare.get(..SPARE_BYTES)?.try_into().ok()?;
    Header::open(ppn, sheet.data, spare)
}

fn note_header(sheet: &mut Sheet<'_>, kind: &str, number: &str, right: bool) {
    sheet.note(Area::Spare, (0, 1), "bad-block mark", format!("{:#04x}", sheet.peek(Area::Spare, 0, 1)));
    let letter = char::from(sheet.peek(Area::Spare, 1, 1) as u8);
    sheet.note(Area::Spare, (1, 1), "kind", format!("{letter}: {kind}"));
    sheet.spare_number(2, 4, number);
    sheet.spare_number(6, 5, "version");
    sheet.spare_number(11, 1, "extra: low byte of the block's erases");
    sheet.checksum(Area::Spare, 12, right);
}

/// Decodes a page of a checkpoint or an anchor, on any chip.
pub(super) fn record_page(ppn: Ppn, sheet: &mut Sheet<'_>) -> Option<Page> {
    let header = header(ppn, sheet)?;
    let (role, what) = match header.kind {
        PageKind::Checkpoint => (Role::Checkpoint, "a checkpoint"),
        PageKind::Anchor => (Role::Anchor, "a reference to the checkpoints"),
        _ => return None,
    };
    note_header(sheet, what, "place in its record", true);
    if header.number == 0 {
        sheet.data_number(0, 4, "length of the record");
        record::note(sheet, header.kind);
    }
    let title = format!("page {} of {what}", header.number);
    let taken = std::mem::replace(sheet, Sheet::new(&[], &[], false));
    let mut page = Page::new(role, title, taken);
    page.logical = Some(header.number);
    page.version = header.version;
    page.kind = header.kind as u8;
    Some(page)
}

pub(super) fn decode(decoder: &Decoder, ppn: Ppn, mut sheet: Sheet<'_>) -> Page {
    if let Some(first) = decoder.buffer_from
        && decoder.geometry.block_of(ppn).0 >= first
    {
        return tbm::decode(decoder, Ppn(ppn.0 - first * decoder.geometry.pages_per_block), sheet);
    }
    if let Some(page) = record_page(ppn, &mut sheet) {
        return page;
    }
    let Some(header) = header(ppn, &sheet) else {
        note_header(&mut sheet, "as it stands", "number", false);
        return Page::torn(sheet, "It does not pass its checksum, which covers its place.");
    };
    let (what, number) = match header.kind {
        PageKind::Host => ("written by the host, the last of its group", "logical page"),
        PageKind::More => ("written by the host, more of its group follow", "logical page"),
        PageKind::Copy => ("a moved copy", "logical page"),
        PageKind::Data => ("in its place in a data block", "logical page"),
        PageKind::Log => ("in a log block, in order of writing", "logical page"),
        PageKind::Sequential => ("in a log block that is filled in place", "logical page"),
        PageKind::Map => ("a page of the mapping table", "which one"),
        PageKind::Trim => ("a list of trimmed pages", "number in the log of trims"),
        PageKind::Checkpoint | PageKind::Anchor => ("a record", "place in its record"),
    };
    note_header(&mut sheet, what, number, true);
    let mut page = match header.kind {
        PageKind::Map => {
            note_words(&mut sheet, 0, "physical page of entry");
            Page::new(Role::Map, format!("page {} of the mapping table", header.number), sheet)
        }
        PageKind::Trim => {
            let entries = sheet.data_number(0, 4, "entries");
            note_words(&mut sheet, 1, "trimmed page");
            Page::new(Role::Trim, format!("{entries} trimmed pages"), sheet)
        }
        _ => logical::decode(decoder, header.number, sheet),
    };
    if !matches!(header.kind, PageKind::Map | PageKind::Trim) {
        page.title = format!("logical page {}, {what}: {}", header.number, page.title);
        page.logical = Some(header.number);
    }
    page.version = header.version;
    page.kind = header.kind as u8;
    page
}

/// Notes numbers of four bytes each, without those that are not set.
fn note_words(sheet: &mut Sheet<'_>, from: usize, name: &str) {
    if !sheet.detail {
        return;
    }
    for i in from..sheet.data.len() / 4 {
        if sheet.peek(Area::Data, 4 * i, 4) != u64::from(u32::MAX) {
            sheet.data_number(4 * i, 4, &format!("{name} {}", i - from));
        }
    }
}
