//! The chip over a model of a device: how it translates the answers of the system for the engine.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::geometry::range;
use crate::model::Model;
use nandex::Shared;
use nandex::ordered::{OrderedIndex, RecordFormat};
use nandex_stacks::options::Settings;
use nandex_stacks::registry;

const CAUSE: Cause = Cause::Host;

fn chip() -> Mtd<Model> {
    Mtd::with_io(Model::new("2048+64x16", "2+38", 32), "mtd7").unwrap()
}

#[test]
fn the_geometry_is_the_free_bytes_and_the_mark() {
    let geometry = chip().geometry();
    assert_eq!((geometry.page_bytes, geometry.spare_bytes), (2048, 39));
    let small = Mtd::with_io(Model::new("2048+64x16", "2+38", 1), "mtd7").err().unwrap().to_string();
    assert!(small.contains("mtd7: blocks = 1"), "{small}");
    let marked = Mtd::with_io(Model::new("2048+64x16", "0+38", 8), "mtd7").err().unwrap().to_string();
    assert!(marked.contains("the bad-block mark"), "{marked}");
}

#[test]
fn a_page_and_its_spare_area_are_one_request_and_come_back() {
    let mut chip = chip();
    let geometry = chip.geometry();
    let data = vec![0x5a; geometry.page_bytes as usize];
    let mut spare: Vec<u8> = (0..geometry.spare_bytes as u8).collect();
    spare[0] = 0xff;
    chip.program(Ppn(3), CAUSE, &data, &spare).unwrap();
    let (mut data_again, mut spare_again) = (vec![0; data.len()], vec![0; spare.len()]);
    chip.read(Ppn(3), CAUSE, &mut data_again, &mut spare_again).unwrap();
    assert_eq!((data_again, spare_again), (data, spare));
    assert_eq!(chip.io().asked, [1, 1, 0]);
    // The device's mark and its ECC bytes are as they were.
    let stored = &chip.io().pages[3][2048..];
    assert!(stored[..2].iter().chain(&stored[40..]).all(|byte| *byte == 0xff));
    chip.erase(Pbn(0), CAUSE).unwrap();
    let mut byte = [0];
    chip.read(Ppn(3), CAUSE, &mut byte, &mut []).unwrap();
    assert_eq!(byte, [0xff]);
}

#[test]
fn corrected_bits_are_counted_and_uncorrectable_pages_told() {
    let mut chip = chip();
    let events = chip.events();
    for page in 0..3 {
        chip.program(Ppn(page), CAUSE, &[7; 2048], &[]).unwrap();
    }
    chip.io().flips = [(1, 3), (2, 5)].into();
    let mut data = [0; 2048];
    let outcomes = [0, 1].map(|page| chip.read(Ppn(page), CAUSE, &mut data, &mut []));
    assert_eq!(outcomes, [Ok(ReadOutcome::CLEAN), Ok(ReadOutcome { corrected: 3, is_weak: true })]);
    assert_eq!(data, [7; 2048]);
    assert_eq!(chip.read(Ppn(2), CAUSE, &mut data, &mut []), Err(NandError::Uncorrectable(Ppn(2))));
    let counts = events.counts();
    let seen = (counts.reads, counts.corrected_reads, counts.corrected_bits, counts.uncorrectable_reads);
    assert_eq!(seen, (3, 1, 3, 1));
    let fault = counts.last_fault.unwrap();
    assert_eq!(fault.errno, Some(Errno::BADMSG.raw_os_error()));
    assert!(fault.to_string().starts_with("mtd7: cannot read block 0 page 2: "), "{fault}");
}

#[test]
fn a_bad_block_is_left_alone_though_the_device_would_take_it() {
    let mut chip = chip();
    chip.io().bad.insert(5);
    chip.mark_bad(Pbn(2)).unwrap();
    chip.mark_bad(Pbn(2)).unwrap();
    assert_eq!(chip.bad_blocks().unwrap(), [Pbn(2), Pbn(5)]);
    let asked = chip.io().asked;
    for block in [2, 5].map(Pbn) {
        let refused = Err(NandError::BadBlock(block));
        let page = chip.geometry().page_at(block, 0);
        assert_eq!(chip.program(page, CAUSE, &[1], &[]), refused);
        assert_eq!(chip.read(page, CAUSE, &mut [0], &mut []).map(drop), refused);
        assert_eq!(chip.erase(block, CAUSE), refused);
    }
    assert_eq!((chip.io().asked, chip.events().counts().marked_bad), (asked, 1));
    assert_eq!(chip.is_bad(Pbn(32)), Err(NandError::BlockOutOfRange(Pbn(32))));
    assert_eq!(chip.program(Ppn(512), CAUSE, &[], &[]), Err(NandError::PageOutOfRange(Ppn(512))));
    assert_eq!(chip.program(Ppn(0), CAUSE, &[0; 2049], &[]), Err(NandError::BufferTooLong(Ppn(0))));
}

#[test]
fn what_fails_is_told_and_what_would_spoil_a_page_is_refused() {
    let mut chip = chip();
    chip.io().weak_pages.insert(1);
    chip.io().weak_blocks.insert(1);
    chip.program(Ppn(0), CAUSE, &[1], &[]).unwrap();
    assert_eq!(chip.program(Ppn(1), CAUSE, &[1], &[]), Err(NandError::ProgramFailed(Ppn(1))));
    // It may hold anything now.
    chip.io().weak_pages.clear();
    assert_eq!(chip.program(Ppn(1), CAUSE, &[1], &[]), Err(NandError::NotErased(Ppn(1))));
    assert_eq!(chip.program(Ppn(0), CAUSE, &[1], &[]), Err(NandError::OutOfOrder(Ppn(0))));
    assert_eq!(chip.erase(Pbn(1), CAUSE), Err(NandError::EraseFailed(Pbn(1))));
    assert!(chip.events().counts().last_fault.unwrap().to_string().contains("cannot erase block 1: "));
    chip.erase(Pbn(0), CAUSE).unwrap();
    chip.program(Ppn(0), CAUSE, &[1], &[]).unwrap();
    let counts = chip.events().counts();
    assert_eq!((counts.failed_programs, counts.failed_erases, counts.programs), (1, 1, 2));
}

#[test]
fn a_device_that_is_gone_is_no_torn_page() {
    let mut chip = chip();
    chip.program(Ppn(0), CAUSE, &[1], &[]).unwrap();
    chip.io().left = Some(0);
    let gone = Err(NandError::Device(Errno::NODEV.raw_os_error()));
    assert_eq!(chip.read(Ppn(0), CAUSE, &mut [0], &mut []).map(drop), gone);
    assert_eq!(chip.program(Ppn(1), CAUSE, &[1], &[]), gone);
    assert_eq!(chip.erase(Pbn(0), CAUSE), gone);
    assert_eq!(chip.mark_bad(Pbn(0)), gone);
    assert_eq!(chip.is_bad(Pbn(9)).map(drop), gone);
    let fault = chip.events().counts().last_fault.unwrap();
    assert!(fault.to_string().contains("block 9") && fault.errno == Some(Errno::NODEV.raw_os_error()));
}

fn records(n: u64) -> impl Iterator<Item = ([u8; 8], [u8; 8])> {
    (0..n).map(|i| ((i * 7919 % 10_007).to_be_bytes(), i.to_be_bytes()))
}

fn assert_holds(index: &mut dyn OrderedIndex, n: u64) {
    let mut value = [0; 8];
    for (key, expected) in records(n) {
        assert!(index.get(&key, &mut value).unwrap() && value == expected, "{key:?}");
    }
    assert!(index.check().unwrap().is_sound());
}

/// Trees over a device with bad, weak and flipping pages, mounted without having been closed.
#[test]
fn indexes_live_on_an_ageing_device_and_within_their_blocks() {
    for name in ["mu", "plow", "bplus"] {
        let settings = Settings::new(RecordFormat::new(8, 8));
        let entry = registry::index(name).unwrap();
        let mut model = Model::new("2048+64x16", "2+38", 96);
        model.bad = [5, 20, 21].into();
        model.weak_blocks = [30].into();
        model.weak_pages = [200, 611].into();
        model.flips = (0..96 * 16).step_by(3).map(|page| (page, 4)).collect();
        let chip = Shared::new(Mtd::with_io(model, "mtd7").unwrap());
        let part = || Box::new(range(chip.clone(), "mtd7", (4, 60)).unwrap());
        let mut index = (entry.format)(part(), &settings).unwrap();
        for (key, value) in records(3000) {
            index.insert(&key, &value).unwrap();
        }
        assert_holds(&mut *index, 3000);
        drop(index);
        let mut index = (entry.mount)(part(), &settings).unwrap();
        assert_holds(&mut *index, 3000);
        let device = chip.lock();
        let pages = &device.io.pages;
        let untouched = pages[..4 * 16].iter().chain(&pages[64 * 16..]);
        assert!(untouched.flatten().all(|byte| *byte == 0xff), "{name} left its blocks");
        assert!(device.events().counts().corrected_reads > 0, "{name}");
    }
}

#[test]
fn a_part_that_a_board_wrote_is_read_by_the_bytes_that_the_board_used() {
    // The W25N01GV: Linux calls six of sixteen free, nandex-spi uses the four that the ECC covers.
    let spi: SpareLayout = "4+4,20+4,36+4,52+4".parse().unwrap();
    let device = Model::new("2048+64x16", "2+6,18+6,34+6,50+6", 32);
    let shared = Shared::new(Mtd::with_spare(device, "mtd7", &spi).unwrap());
    assert_eq!(shared.lock().geometry().spare_bytes, 17);
    let mu = registry::index("mu").unwrap();
    let settings = Settings::new(RecordFormat::new(8, 8));
    let mut index = (mu.format)(Box::new(shared.clone()), &settings).unwrap();
    for key in 0..300_u64 {
        index.insert(&key.to_be_bytes(), &(key * 3).to_be_bytes()).unwrap();
    }
    drop(index);
    let device = shared.lock().io().pages.clone();
    for page in &device {
        assert!((0..64).filter(|byte| !spi.holds(*byte)).all(|byte| page[2048 + byte as usize] == 0xff));
    }
    let again = |spare: Option<&SpareLayout>| {
        let mut model = Model::new("2048+64x16", "2+6,18+6,34+6,50+6", 32);
        model.pages = device.clone();
        let chip = match spare {
            Some(spare) => Mtd::with_spare(model, "mtd7", spare),
            None => Mtd::with_io(model, "mtd7"),
        };
        (mu.mount)(Box::new(chip.unwrap()), &settings)
    };
    // By all that Linux calls free the pages are no pages; the chip is not taken for a blank one.
    assert!(!again(None).err().unwrap().is_blank());
    let mut index = again(Some(&spi)).unwrap();
    for key in 0..300_u64 {
        let mut value = [0; 8];
        assert!(index.get(&key.to_be_bytes(), &mut value).unwrap());
        assert_eq!(u64::from_be_bytes(value), key * 3);
    }
    let refused = Mtd::with_spare(Model::new("2048+64x16", "2+38", 32), "mtd7", &"60+4".parse().unwrap());
    let refused = refused.err().unwrap().to_string();
    assert!(refused.contains("mtd7") && refused.contains("byte 60"), "{refused}");
}
