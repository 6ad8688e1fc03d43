//! Summaries as former builds wrote them: groups that did not fit were left out, and their pages covered all
//! the same.

use nandex::codec::{crc32, get_u16, put_u16, put_u32};
use nandex::nand::catalogue::mlc_64m;
use nandex::nand::sim::SimChip;
use nandex::ordered::RecordFormat;
use nandex::units::Ppn;
use nandex::{Cause, Geometry, Nand, OrderedIndex, Plow, PlowConfig, Shared};

const HEADER_BYTES: usize = 22;
/// The longest group: where fewer bytes were left, none was written any more.
const LONGEST: usize = 15;

fn key(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()
}

/// Reads a number of seven bits a byte.
fn number(bytes: &[u8], at: &mut usize) -> u64 {
    let (mut number, mut shift) = (0, 0);
    loop {
        let byte = bytes[*at];
        *at += 1;
        number |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            return number;
        }
    }
}

/// Makes of a summary that covers the first pages of its block one that says to cover all before it. The
/// groups added say of their pages no more than those before them did, which is true.
fn age(page: &mut [u8], ppn: Ppn, geometry: Geometry) -> bool {
    if page[4] != 0x9e || page[5] != 4 {
        return false;
    }
    let place = ppn.0 % geometry.pages_per_block;
    let (mut at, mut last) = (HEADER_BYTES, 0);
    let covered = number(page, &mut at);
    if covered == u64::from(place) {
        return false;
    }
    let mut count = get_u16(page, 8);
    for _ in 0..count {
        last = number(page, &mut at);
        at += 1 + usize::from(page[at]);
    }
    while at + LONGEST <= page.len() {
        (last, count) = (last + 1, count + 1);
        page[at..at + 2].copy_from_slice(&[last as u8, 0]);
        at += 2;
    }
    assert!(last + 1 < u64::from(place) && place < 128, "groups are left out, and numbers have a byte");
    page[HEADER_BYTES] = place as u8;
    put_u16(page, 8, count);
    let crc = crc32(&[&ppn.0.to_le_bytes(), &page[4..]]);
    put_u32(page, 0, crc);
    true
}

#[test]
fn a_summary_that_left_groups_out_is_not_trusted() {
    let mut part = mlc_64m();
    part.geometry = Geometry::new(512, 0, 100, 40);
    let config = PlowConfig { ram_bytes: Some(32 * 1024), ..PlowConfig::new(RecordFormat::new(8, 8)) };
    let handle = Shared::new(SimChip::new(&part).unwrap());
    let mut index = Plow::format(super::any(handle.clone()), &config).unwrap();
    for i in 0..9_000u64 {
        index.insert(&key(i), &i.to_be_bytes()).unwrap();
    }
    index.close().unwrap();
    let mut chip = handle.lock().clone();
    let (mut page, mut aged) = (vec![0; 512], 0);
    for ppn in (0..part.geometry.pages()).map(Ppn) {
        let is_read = chip.read(ppn, Cause::Host, &mut page, &mut []);
        if is_read.is_ok() && age(&mut page, ppn, part.geometry) {
            chip.damage_page(ppn, &page);
            aged += 1;
        }
    }
    assert!(aged >= 2, "{aged} summaries");
    let mut index = Plow::mount(super::any(chip), &config).unwrap();
    let mut value = [0; 8];
    let lost = (0..9_000).filter(|&i| !index.get(&key(i), &mut value).unwrap() || value != i.to_be_bytes());
    assert_eq!(lost.count(), 0);
    let report = index.check().unwrap();
    assert!(report.is_sound(), "{report:?}");
}
