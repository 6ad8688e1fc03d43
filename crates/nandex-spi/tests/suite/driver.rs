//! The driver against the model: the commands that it sends, how it reads the answers, and the faults that it
//! reports.

#![allow(clippy::unwrap_used)]

use nandex::nand::NandError;
use nandex::{Cause, Nand, Pbn, Ppn};
use nandex_spi::model::{Bus, Clock, Model, Trouble};
use nandex_spi::parts::{PARTS, W25N01GV};
use nandex_spi::{Fault, FourLines, OpenError, SerialBus, SpiNand, SpiPart, Wait};

const HOST: Cause = Cause::Host;

fn open(part: &SpiPart) -> (Model, SpiNand<Bus, Clock>) {
    let model = Model::new(part);
    let (bus, clock) = model.handles();
    let chip = SpiNand::open(bus, clock).unwrap_or_else(|error| panic!("{}: {error}", part.name));
    (model, chip)
}

fn bytes(seed: u32, count: u32) -> Vec<u8> {
    (0..count).map(|i| (i.wrapping_mul(31) ^ seed) as u8).collect()
}

#[test]
fn every_part_is_known_and_keeps_pages_on_each_plane_and_die() {
    for part in PARTS {
        let (_, chip) = open(part);
        keeps_pages(chip, part);
    }
}

#[test]
fn every_part_keeps_pages_over_four_lines() {
    for part in PARTS {
        let (bus, clock) = Model::new(part).handles();
        keeps_pages(SpiNand::open(FourLines(bus), clock).unwrap(), part);
    }
}

/// The time that a page takes to program and to read, in ns.
fn page_ns<B: SerialBus + Send>(model: &Model, mut chip: SpiNand<B, Clock>) -> (u64, u64) {
    let data = bytes(1, 2048);
    let start = model.time_ns();
    chip.program(Ppn(0), HOST, &data, &[]).unwrap();
    let programmed = model.time_ns();
    let mut again = vec![0; 2048];
    chip.read(Ppn(0), HOST, &mut again, &mut []).unwrap();
    assert_eq!(again, data);
    (programmed - start, model.time_ns() - programmed)
}

#[test]
fn four_lines_take_a_quarter_of_the_time_on_the_bus_and_only_where_the_part_can() {
    let times = |name: &str| {
        let part = PARTS.iter().find(|part| part.name == name).unwrap();
        let (one, four) = (Model::new(part), Model::new(part));
        let ((bus, clock), (wide, wide_clock)) = (one.handles(), four.handles());
        let one = page_ns(&one, SpiNand::open(bus, clock).unwrap());
        let four = page_ns(&four, SpiNand::open(FourLines(wide), wide_clock).unwrap());
        (one.0 - four.0, one.1 - four.1)
    };
    let saved = 2048 * 160 * 3 / 4;
    assert_eq!(times("W25N01GV"), (saved, saved));
    assert_eq!(times("TC58CVG0S3HRAIG"), (0, saved), "it loads on one line only");
}

fn keeps_pages<B: SerialBus + Send>(mut chip: SpiNand<B, Clock>, part: &SpiPart) {
    assert_eq!((chip.part().name, chip.geometry()), (part.name, part.geometry()));
    let g = chip.geometry();
    let dies = u32::from(part.dies);
    for block in [0, 1, g.blocks / dies - 1, g.blocks - 2, g.blocks - 1] {
        let ppn = g.page_at(Pbn(block), 0);
        let (data, mut spare) = (bytes(block, g.page_bytes), bytes(block + 9, g.spare_bytes));
        spare[0] = 0xff;
        chip.program(ppn, HOST, &data, &spare).unwrap();
        let (mut again, mut tail) = (vec![0; data.len()], vec![0; spare.len()]);
        chip.read(ppn, HOST, &mut again, &mut tail).unwrap();
        assert!(again == data && tail == spare, "{} block {block}", part.name);
        let (mut few, mut little) = ([0; 5], vec![0; spare.len().min(3)]);
        chip.read(ppn, HOST, &mut few, &mut little).unwrap();
        assert!(few == data[..5] && little == spare[..little.len()], "{}", part.name);
        chip.erase(Pbn(block), HOST).unwrap();
        chip.read(ppn, HOST, &mut again, &mut tail).unwrap();
        assert!(again.iter().chain(&tail).all(|&b| b == 0xff), "{} block {block}", part.name);
    }
}

#[test]
fn a_short_page_leaves_the_rest_erased() {
    let (_, mut chip) = open(&W25N01GV);
    chip.program(Ppn(0), HOST, &[1, 2, 3], &[0xff, 4, 5]).unwrap();
    let (mut data, mut spare) = ([0; 5], [0; 17]);
    chip.read(Ppn(0), HOST, &mut data, &mut spare).unwrap();
    assert_eq!(data, [1, 2, 3, 0xff, 0xff]);
    assert_eq!(spare[..4], [0xff, 4, 5, 0xff]);
    assert_eq!(chip.read(Ppn(0), HOST, &mut [], &mut [0; 18]), Err(NandError::BufferTooLong(Ppn(0))));
    assert_eq!(chip.read(Ppn(65_536), HOST, &mut [], &mut []), Err(NandError::PageOutOfRange(Ppn(65_536))));
    assert_eq!(chip.erase(Pbn(1024), HOST), Err(NandError::BlockOutOfRange(Pbn(1024))));
}

#[test]
fn corrected_bits_are_counted_a_page_near_the_limit_is_named_and_a_lost_one_is_an_error() {
    for part in PARTS {
        let (model, mut chip) = open(part);
        let strength = part.ecc.strength();
        for page in 0..3 {
            chip.program(Ppn(page), HOST, &bytes(page, 2048), &[]).unwrap();
        }
        let wrong_bits = [(0, 1), (1, strength), (2, strength + 1)].into();
        model.set_trouble(Trouble { wrong_bits, ..Trouble::default() });
        let mut data = vec![0; 2048];
        let warns = strength > 1;
        for page in [0, 1] {
            let outcome = chip.read(Ppn(page), HOST, &mut data, &mut []).unwrap();
            assert_eq!(data, bytes(page, 2048), "{}", part.name);
            // Some parts tell no more than "up to so many": then one bit may already be a warning.
            assert_eq!(outcome.is_weak, outcome.corrected >= part.ecc.weak_from().into(), "{}", part.name);
            assert!(outcome.corrected > 0 && (page == 0 || outcome.is_weak == warns), "{}", part.name);
        }
        assert_eq!(chip.counts().corrected_reads, 2, "{}", part.name);
        assert_eq!(chip.take_weak(), warns.then_some(Ppn(1)), "{}", part.name);
        assert_eq!(chip.take_weak(), None);
        let mut middle = [0; 9];
        chip.read_at(Ppn(0), HOST, 1000, &mut middle).unwrap();
        assert_eq!(middle, bytes(0, 2048)[1000..1009], "{}", part.name);
        assert_eq!(chip.read(Ppn(2), HOST, &mut data, &mut []), Err(NandError::Uncorrectable(Ppn(2))));
        assert_eq!(chip.counts().lost_reads, 1, "{}", part.name);
    }
}

#[test]
fn a_mark_of_the_factory_is_found_and_never_erased() {
    let (model, mut chip) = open(&W25N01GV);
    model.mark_in_factory(7);
    assert!(chip.is_bad(Pbn(7)).unwrap() && !chip.is_bad(Pbn(8)).unwrap());
    assert_eq!(chip.erase(Pbn(7), HOST), Err(NandError::BadBlock(Pbn(7))));
    assert!(chip.is_bad(Pbn(7)).unwrap());
}

#[test]
fn a_block_is_marked_bad_for_good_whatever_its_first_page_holds() {
    let (model, mut chip) = open(&W25N01GV);
    chip.program(Ppn(64), HOST, &bytes(1, 2048), &[0xff; 17]).unwrap();
    for block in [1, 2] {
        chip.mark_bad(Pbn(block)).unwrap();
        assert!(chip.is_bad(Pbn(block)).unwrap());
    }
    model.power_on();
    let (bus, clock) = model.handles();
    drop(chip);
    let mut chip = SpiNand::open(bus, clock).unwrap();
    assert!([1, 2].map(|block| chip.is_bad(Pbn(block)).unwrap()).iter().all(|bad| *bad));
    // The ECC is on again: what is written next is corrected.
    chip.program(Ppn(192), HOST, &[7; 9], &[]).unwrap();
    model.set_trouble(Trouble { wrong_bits: [(192, 1)].into(), ..Trouble::default() });
    let mut data = [0; 9];
    chip.read(Ppn(192), HOST, &mut data, &mut []).unwrap();
    assert_eq!((data, chip.counts().corrected_reads), ([7; 9], 1));
}

#[test]
fn failing_programs_and_erases_are_reported() {
    let (model, mut chip) = open(&W25N01GV);
    let (failing_programs, failing_erases) = ([3].into(), [2].into());
    model.set_trouble(Trouble { failing_programs, failing_erases, ..Trouble::default() });
    assert_eq!(chip.program(Ppn(3), HOST, &[1], &[]), Err(NandError::ProgramFailed(Ppn(3))));
    assert_eq!(chip.erase(Pbn(2), HOST), Err(NandError::EraseFailed(Pbn(2))));
    assert_eq!((chip.counts().failed_programs, chip.counts().failed_erases), (1, 1));
    assert_eq!(chip.last_fault(), None);
}

#[test]
fn a_part_that_is_gone_is_a_fault_with_a_name() {
    let (model, mut chip) = open(&W25N01GV);
    model.cut_at(0);
    // The program that the cut strikes is not acknowledged.
    let (program, read) = (Fault::Timeout(Wait::Program), Fault::Timeout(Wait::Read));
    assert_eq!(chip.program(Ppn(0), HOST, &[1], &[]), Err(NandError::Device(program.code())));
    assert_eq!(chip.last_fault(), Some(program));
    assert_eq!(chip.read(Ppn(0), HOST, &mut [0], &mut []), Err(NandError::Device(read.code())));
    assert_eq!(chip.last_fault(), Some(read));
    let (bus, clock) = model.handles();
    assert_eq!(SpiNand::open(bus, clock).err(), Some(OpenError::Fault(Fault::Timeout(Wait::Reset))));
}

#[test]
fn a_protected_part_says_so() {
    let (model, mut chip) = open(&W25N01GV);
    model.hold_write_protect(true);
    let disabled = Fault::WriteDisabled;
    assert_eq!(chip.program(Ppn(0), HOST, &[1], &[]), Err(NandError::Device(disabled.code())));
    assert_eq!(chip.last_fault(), Some(disabled));
    model.hold_write_protect(false);
    chip.program(Ppn(0), HOST, &[1], &[]).unwrap();
}

#[test]
fn a_part_that_nobody_knows_describes_itself_or_is_refused() {
    let model = Model::new(&W25N01GV);
    model.set_id([0x12, 0x34, 0x56]);
    let (bus, clock) = model.handles();
    assert_eq!(SpiNand::open(bus, clock).err(), Some(OpenError::Unknown { id: [0x12, 0x34, 0x56] }));
    model.set_parameter_page(parameter_page());
    let (bus, clock) = model.handles();
    let mut chip = SpiNand::open(bus, clock).unwrap();
    let g = chip.geometry();
    assert_eq!((chip.part().name, g.page_bytes, g.pages_per_block, g.blocks), ("ONFI", 2048, 64, 1024));
    chip.program(Ppn(0), HOST, &[1, 2, 3], &[]).unwrap();
    let mut data = [0; 3];
    chip.read(Ppn(0), HOST, &mut data, &mut []).unwrap();
    assert_eq!(data, [1, 2, 3]);
}

/// The page of a part of this shape.
fn parameter_page() -> [u8; 256] {
    let mut page = [0; 256];
    page[..4].copy_from_slice(b"ONFI");
    page[80..84].copy_from_slice(&2048u32.to_le_bytes());
    page[84..86].copy_from_slice(&64u16.to_le_bytes());
    page[92..96].copy_from_slice(&64u32.to_le_bytes());
    page[96..100].copy_from_slice(&1024u32.to_le_bytes());
    (page[100], page[112]) = (1, 1);
    let mut crc = 0x4f4eu16;
    for byte in &page[..254] {
        crc ^= u16::from(*byte) << 8;
        for _ in 0..8 {
            crc = if crc & 0x8000 != 0 { crc << 1 ^ 0x8005 } else { crc << 1 };
        }
    }
    page[254..].copy_from_slice(&crc.to_le_bytes());
    page
}

/// A part that lost its power for a moment protects its blocks. That must not count as worn blocks.
#[test]
fn a_part_that_was_reset_is_gone_and_no_block_of_it_is_bad() {
    for part in PARTS {
        let (model, mut chip) = open(part);
        chip.program(Ppn(0), HOST, &[1, 2, 3], &[]).unwrap();
        model.power_on();
        model.pass(1_000_000);
        let reset = Err(NandError::Device(Fault::Reset.code()));
        assert_eq!(chip.program(Ppn(1), HOST, &[1], &[]), reset, "{}", part.name);
        assert_eq!(chip.erase(Pbn(2), HOST), reset, "{}", part.name);
        assert_eq!(chip.last_fault(), Some(Fault::Reset));
        assert_eq!(chip.is_bad(Pbn(0)), Ok(false));
        let (bus, clock) = model.handles();
        let mut chip = SpiNand::open(bus, clock).unwrap();
        chip.erase(Pbn(2), HOST).unwrap();
        let mut data = [0; 3];
        chip.read(Ppn(0), HOST, &mut data, &mut []).unwrap();
        assert_eq!(data, [1, 2, 3]);
    }
}

#[test]
fn a_flipped_bit_of_a_mark_makes_no_block_bad() {
    let (model, mut chip) = open(&W25N01GV);
    model.mark_with(5, 0xfe);
    model.mark_with(6, 0xfc);
    assert_eq!([5, 6].map(|block| chip.is_bad(Pbn(block)).unwrap()), [false, true]);
}
