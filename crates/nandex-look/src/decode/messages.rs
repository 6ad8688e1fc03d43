//! Pages of the layers and trees above an FTL that are not plain nodes: units of nodes, logs, journals,
//! leaves of several pages, runs, buffers, manifests. Of each its head is told; bodies of trees that keep
//! messages are shown as bytes.

use super::sheet::{Area, Sheet, number_text};
use super::{Decoder, Node, Page, Role};
use nandex::codec::crc32;

fn rows(sheet: &mut Sheet<'_>, rows: &[(usize, usize, &str)]) {
    for &(at, bytes, name) in rows {
        sheet.data_number(at, bytes, name);
    }
}

/// Decodes a page with a mark in bytes 4 to 8: a node layer, a log page of an LSB-tree, a record of a TBM.
pub(super) fn marked(mut sheet: Sheet<'_>) -> Page {
    let mark = sheet.data.get(4..12).unwrap_or(&[]).to_vec();
    let crc = sheet.peek(Area::Data, 0, 4);
    sheet.note(Area::Data, (0, 4), "CRC-32", format!("{crc:08x}"));
    if mark.starts_with(b"NXNODES1") {
        sheet.text(4, 8, "mark");
        rows(
            &mut sheet,
            &[
                (12, 4, "bytes of a page"),
                (16, 4, "pages of the store"),
                (20, 1, "commit: 1 first fit .. 6 self-tuning"),
                (21, 1, "sectors of a list at most"),
                (22, 2, "bytes of the body of a unit"),
                (24, 4, "entries of a node"),
                (28, 4, "nodes at most"),
                (32, 4, "sectors at most"),
            ],
        );
        return Page::new(Role::Super, "the superblock of the node layer", sheet);
    }
    if mark.starts_with(b"NXLG") {
        sheet.text(4, 4, "mark");
        let leaf = sheet.data_number(8, 4, "page of the leaf");
        sheet.data_number(12, 8, "number");
        let count = sheet.data_number(20, 2, "entries in use");
        sheet.data_number(22, 1, "1 = ascending, none removed");
        let title = format!("a log node of leaf {leaf}, {count} entries");
        return Page::new(Role::Log, title, sheet);
    }
    if mark.starts_with(b"NXTB") {
        sheet.text(4, 4, "mark");
        let place = sheet.data_number(8, 4, "number in the record");
        if place == 0 {
            let names = [
                (12, 8, "void below this version"),
                (20, 4, "logical pages"),
                (24, 4, "pages of a block"),
                (28, 4, "blocks"),
            ];
            rows(&mut sheet, &names);
        }
        return Page::new(Role::Super, format!("page {place} of the TBM's record"), sheet);
    }
    Page::unknown(sheet, "contents with an unknown mark")
}

/// The end of the units in a sector; `None` if it is not a sector of units. The checksum covers the mark
/// `NXUN`, the page's number and all bytes up to that end.
fn units_end(number: u32, data: &[u8]) -> Option<usize> {
    let crc = u32::from_le_bytes(data.get(..4)?.try_into().ok()?);
    let units = usize::from(u16::from_le_bytes(data.get(8..10)?.try_into().ok()?) & 0x7fff);
    if units == 0 || crc == 0 {
        return None;
    }
    // Units are of one length, a multiple of 4 and at least 12 bytes.
    (12..=512)
        .step_by(4)
        .map(|unit| 12 + units * unit)
        .take_while(|&end| end <= data.len())
        .find(|&end| crc32(&[b"NXUN", &number.to_le_bytes(), &data[4..end]]) == crc)
}

pub(super) fn is_units(number: u32, data: &[u8]) -> bool {
    units_end(number, data).is_some()
}

/// Decodes a sector of units, which are changes of many nodes.
pub(super) fn units(number: u32, mut sheet: Sheet<'_>) -> Page {
    let end = units_end(number, sheet.data).unwrap_or(12);
    sheet.checksum(Area::Data, 0, true);
    sheet.data_number(4, 4, "commit");
    let count = sheet.data_number(8, 2, "units, + 0x8000 in disk mode") as usize & 0x7fff;
    sheet.data_number(10, 2, "sector of the commit, + 0x8000 on its last");
    let unit = (end - 12) / count.max(1);
    let mut nodes: Vec<u64> = Vec::new();
    for i in 0..count {
        let at = 12 + i * unit;
        let node = sheet.data_number(at, 4, &format!("unit {i}: node"));
        sheet.data_number(at + 4, 4, &format!("unit {i}: number"));
        sheet.data_number(at + 8, 1, &format!("unit {i}: level"));
        let op = sheet.peek(Area::Data, at + 9, 1);
        let name = ["?", "reset", "insert", "delete", "update"].get(op as usize).copied().unwrap_or("?");
        sheet.note(Area::Data, (at + 9, 1), &format!("unit {i}: operation"), name.to_string());
        sheet.note(Area::Data, (at + 10, unit.saturating_sub(10)), &format!("unit {i}: body"), String::new());
        nodes.push(node);
    }
    nodes.sort_unstable();
    nodes.dedup();
    Page::new(Role::Log, format!("a sector of {count} units of {} nodes", nodes.len()), sheet)
}

/// Decodes a page of the update journal or of the log of a node buffer.
pub(super) fn journal(mark: &str, mut sheet: Sheet<'_>) -> Page {
    let epoch = sheet.data_number(16, 8, "epoch");
    sheet.data_number(24, 4, "pages of the journal");
    let count = sheet.data_number(28, 2, "records in the page") as usize;
    let key = sheet.data_number(30, 1, "bytes of a key") as usize;
    let value = sheet.data_number(31, 1, "bytes of a value") as usize;
    let closed = sheet.data_number(32, 1, "1 closed");
    sheet.data_number(33, 1, "1 goes on with the next page");
    if mark == "NXJOURN1" {
        for i in 0..count.min(sheet.data.len()) {
            let at = 36 + i * (1 + key + value);
            let kind = if sheet.peek(Area::Data, at, 1) == 1 { "put" } else { "remove" };
            sheet.note(Area::Data, (at, 1), &format!("record {i}"), kind.to_string());
            sheet.bytes(at + 1, key, &format!("record {i}: key"));
            sheet.bytes(at + 1 + key, value, &format!("record {i}: value"));
        }
    }
    let what = if mark == "NXJOURN1" { "update journal" } else { "log of a node buffer" };
    let state = if closed == 1 { "closed, ".to_string() } else { String::new() };
    Page::new(Role::Log, format!("a page of the {what}: {state}epoch {epoch}, {count} records"), sheet)
}

/// Decodes the manifest of a tree that copies on write.
pub(super) fn manifest(sheet: &mut Sheet<'_>) -> &'static str {
    let names = [
        (16, 4, "bytes of a page"),
        (20, 4, "pages of the store"),
        (24, 4, "pages of a unit"),
        (28, 1, "bytes of a key"),
        (29, 1, "bytes of a value"),
        (30, 4, "parameter"),
        (46, 8, "number of the commit"),
        (54, 4, "bytes of the state"),
        (58, 4, "its first unit"),
    ];
    rows(sheet, &names);
    "the manifest: root and state of the tree"
}

/// Decodes a page with a page head and a mark in byte 8 or 9.
pub(super) fn headed(decoder: &Decoder, mut sheet: Sheet<'_>) -> Page {
    super::logical::note_head(&mut sheet);
    let (eight, nine) = (sheet.peek(Area::Data, 8, 1), sheet.peek(Area::Data, 9, 1));
    if sheet.data.get(8..12) == Some(b"NXEX") {
        sheet.text(8, 4, "mark");
        let names =
            [(12, 8, "checkpoint"), (20, 4, "batch"), (24, 2, "extent of the batch"), (26, 2, "nodes")];
        rows(&mut sheet, &names);
        let nodes = sheet.peek(Area::Data, 26, 2) as usize;
        for i in 0..nodes.min(sheet.data.len()) {
            sheet.data_number(32 + 8 * i, 4, &format!("node {i}"));
            sheet.note(Area::Data, (36 + 8 * i, 4), &format!("node {i}: first bytes"), String::new());
        }
        return Page::new(Role::Log, format!("the header of an extent of {nodes} nodes"), sheet);
    }
    match (eight, nine) {
        (_, 0x4d) => leaf_page(decoder, "MB-tree", sheet),
        (_, 0x50) => leaf_page(decoder, "PIO B-tree", sheet),
        (level @ 1..=64, 0xb5) => {
            sheet.data_number(8, 1, "level");
            sheet.note(Area::Data, (9, 1), "node of several pages", "0xb5".into());
            let (children, records) =
                (sheet.data_number(10, 2, "children"), sheet.data_number(12, 2, "records"));
            let role = if level == 1 { Role::Leaf } else { Role::Inner };
            let title = format!("a node of level {level}: {children} children, {records} records");
            Page::new(role, title, sheet)
        }
        (0xb6, place) => {
            sheet.data_number(9, 1, "place in the unit");
            let records = sheet.data_number(10, 2, "records");
            Page::new(
                Role::Inner,
                format!("page {place} of a node of several pages, {records} records"),
                sheet,
            )
        }
        (0xfd, _) => {
            let count = sheet.data_number(10, 2, "entries");
            sheet.data_number(12, 4, "unit before");
            sheet.data_number(16, 4, "unit after");
            Page::new(Role::Run, format!("a page of a run, {count} entries"), sheet)
        }
        (0xa7, _) => {
            let count = sheet.data_number(10, 2, "records");
            sheet.data_number(12, 4, "page written before it");
            Page::new(Role::Log, format!("a page of a buffer, {count} records"), sheet)
        }
        _ => Page::unknown(sheet, "a page with a page head, of an unknown kind"),
    }
}

/// Decodes a page of a leaf of several pages.
fn leaf_page(decoder: &Decoder, tree: &str, mut sheet: Sheet<'_>) -> Page {
    let place = sheet.data_number(8, 1, "place in the leaf");
    sheet.note(Area::Data, (9, 1), "page of a leaf", tree.to_string());
    let count = sheet.data_number(10, 2, "entries in use") as usize;
    let (key, value) = (usize::from(decoder.record.key_bytes), usize::from(decoder.record.value_bytes));
    let mut page_nodes = Vec::new();
    if tree == "PIO B-tree" {
        sheet.data_number(12, 2, "of these sorted");
        sheet.data_number(16, 4, "consolidations");
        sheet.note(Area::Data, (20, 4), "bytes of the segment before", String::new());
        let mut keys = Vec::new();
        for i in 0..count.min(sheet.data.len() / (key + value + 1)) {
            let at = 24 + i * (key + value + 1);
            keys.push(sheet.bytes(at, key, &format!("record {i}: key")));
            sheet.bytes(at + key, value, &format!("record {i}: value"));
            let put = if sheet.peek(Area::Data, at + key + value, 1) == 1 { "put" } else { "remove" };
            sheet.note(Area::Data, (at + key + value, 1), &format!("record {i}"), put.to_string());
        }
        let room = sheet.data.len().saturating_sub(24);
        page_nodes.push(Node {
            level: 1,
            number: None,
            entries: keys.len(),
            capacity: room / (key + value + 1),
            at: (24, room),
            keys,
            links: Vec::new(),
            values: Vec::new(),
        });
    } else if place == 0 {
        let names = [
            (12, 4, "changes of a batch, sixteenths"),
            (16, 4, "reads between batches"),
            (20, 1, "pages of the leaf"),
        ];
        rows(&mut sheet, &names);
    }
    let first = page_nodes.first().and_then(|node| node.keys.first()).map(|key| number_text(key));
    let from = first.map_or(String::new(), |first| format!(", from key {first}"));
    let title = format!("page {place} of a leaf of the {tree}, {count} entries{from}");
    let mut page = Page::new(Role::Leaf, title, sheet);
    page.nodes = page_nodes;
    page
}
