//! A chip whose contents claim the next version of their format.

use nandex::blocks::spare::{Header, PageKind};
use nandex::codec::crc32;
use nandex::testing::{Access, Chip};
use nandex::{Nand, Ppn};

/// The next version of a name: its last character is the number, or gives way to 2.
fn next(name: &mut [u8]) {
    let last = name.last_mut().unwrap();
    *last = if last.is_ascii_digit() { *last + 1 } else { b'2' };
}

fn put_crc(page: &mut [u8], at: usize, crc: u32) {
    page[at..at + 4].copy_from_slice(&crc.to_le_bytes());
}

fn crc_at(page: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(page[at..at + 4].try_into().unwrap())
}

/// The check of a slot of a VMTree-OW.
fn crc_8(entry: &[u8]) -> u8 {
    entry.iter().fold(0u8, |crc, byte| {
        (0..8).fold(crc ^ byte ^ 0xff, |crc, _| (crc << 1) ^ if crc & 0x80 != 0 { 7 } else { 0 })
    })
}

/// First bytes of checkpoints, which follow the length, each with the place of the version in the checkpoint.
const CHECKPOINTS: [(&[u8], usize); 11] = [
    (b"NXF4", 4),
    (b"NXI2", 4),
    (b"FAST", 5),
    (b"BAST", 5),
    (b"NFTL", 5),
    (b"HFTL", 5),
    (b"DFTL", 5),
    (b"CFTL", 5),
    (b"LAZY", 5),
    (b"SAST", 5),
    (b"SUPR", 5),
];

/// The data area of a checkpoint's first page.
fn checkpoint(data: &mut [u8]) -> bool {
    if matches!(data[4], 3..=6) {
        data[4] = 7;
        return true;
    }
    let name = CHECKPOINTS.iter().find(|(name, at)| data[*at..].starts_with(name));
    name.is_some_and(|(name, at)| {
        next(&mut data[*at..at + name.len()]);
        true
    })
}

/// A page of a store, by the name in it and its checksum.
fn logical(data: &mut [u8]) -> bool {
    let starts_at = |at: usize| data[at..].starts_with(b"NX");
    if crc_at(data, 0) == crc32(&[&data[4..]]) && starts_at(8) && !data[8..].starts_with(b"NXEX") {
        next(&mut data[8..16]);
        let crc = crc32(&[&data[4..]]);
        put_crc(data, 0, crc);
        return true;
    }
    if crc_at(data, 0) == crc32(&[&data[4..]]) && data[4..].starts_with(b"NXTB") {
        next(&mut data[4..8]);
        let crc = crc32(&[&data[4..]]);
        put_crc(data, 0, crc);
        return true;
    }
    if starts_at(4) && crc_at(data, 0) == crc32(&[&data[4..44]]) {
        next(&mut data[4..12]);
        let crc = crc32(&[&data[4..44]]);
        put_crc(data, 0, crc);
        return true;
    }
    false
}

/// A page of an index that has its own checksums.
fn own(ppn: Ppn, data: &mut [u8], blocks: u32) {
    let place = ppn.0.to_le_bytes();
    match data[0..4] {
        // plow: the version begins the root of a commit page.
        _ if data[4] == 0x9e && data[5] == 2 && crc_at(data, 0) == crc32(&[&place, &data[4..]]) => {
            data[22] = 12;
            let crc = crc32(&[&place, &data[4..]]);
            put_crc(data, 0, crc);
        }
        [b'V', b'M', b'O', b'W'] if data[8] == 0 => {
            let born = usize::from(data[10]);
            let at = 16 + (data.len() - 16) / 6;
            data[at + 3] = 4;
            data[at + 4] = crc_8(&data[at..at + 4]);
            let crc = crc32(&[&place, &data[..9], &data[10..12], &data[at..at + 5 * born]]);
            put_crc(data, 12, crc);
        }
        [b'F', b'R', b'W', b'1'] => {
            data[3] = b'2';
            let crc = crc32(&[&place, &data[..28]]);
            put_crc(data, 28, crc);
        }
        [0xb6, ..] => {
            data[1] |= 8;
            let crc = crc32(&[&data[..20], &data[24..]]) ^ blocks;
            put_crc(data, 20, crc);
        }
        [0xc8, _, _, 2] => {
            data[3] = 3;
            let crc = crc32(&[&data[..40], &data[44..]]) ^ ppn.0 ^ (blocks << 8);
            put_crc(data, 40, crc);
        }
        _ => {}
    }
}

/// Lets the pages of a chip read as if a later build had written them.
pub(crate) fn make_newer(chip: &Chip) {
    let blocks = chip.geometry().blocks;
    chip.on_access(move |_, access| {
        let Access::Read(ppn, _, page, beside) = access else { return Ok(()) };
        let tag: &[u8; 16] = beside[..16].try_into().unwrap();
        match Header::open(ppn, page, tag) {
            Some(header) => {
                let is_changed = match header.kind {
                    PageKind::Checkpoint if header.number == 0 => checkpoint(page),
                    PageKind::Checkpoint | PageKind::Anchor => false,
                    _ => logical(page),
                };
                if is_changed {
                    beside[..16].copy_from_slice(&header.seal(ppn, page));
                }
            }
            None => own(ppn, page, blocks),
        }
        Ok(())
    });
}
