//! The chip on a part in memory: what is refused, torn words and erases, worn words.

use super::*;
use crate::ram::{RamCut, RamFault, RamFlash, TornWord};
use nandex::IndexError;
use nandex::ftl::page_map::{FtlConfig, PageMapFtl};
use nandex::ordered::bplus::{BPlusConfig, BPlusTree};
use nandex::ordered::vm::overwrite::{OverwriteConfig, OverwriteTree};
use nandex::ordered::{OrderedIndex, RawConfig, RecordFormat, mu::MuTree};

const SHAPE: Shape = Shape::new(448, 64);

fn chip() -> NorChip<RamFlash<4, 4096>> {
    NorChip::new(RamFlash::new(80 * 4096 + 100), SHAPE).unwrap()
}

#[test]
fn an_index_lives_on_it_and_is_found_again() {
    let chip = chip();
    assert_eq!((chip.geometry().pages_per_block, chip.geometry().blocks), (8, 80));
    let flash = chip.flash.clone();
    let config = RawConfig::new(RecordFormat::new(4, 4));
    let mut tree = MuTree::format(chip, &config).unwrap();
    for i in 0..900u32 {
        tree.put(&(i % 300).to_be_bytes(), &i.to_be_bytes()).unwrap();
    }
    drop(tree);
    let mut tree = MuTree::mount(NorChip::new(flash, SHAPE).unwrap(), &config).unwrap();
    let mut value = [0; 4];
    for i in 0..300u32 {
        assert!(tree.get(&i.to_be_bytes(), &mut value).unwrap() && value == (600 + i).to_be_bytes());
    }
    assert!(tree.check().unwrap().is_sound());
}

#[test]
fn an_ftl_lives_on_it() {
    let store = PageMapFtl::format(chip(), &FtlConfig::default()).unwrap();
    let mut tree = BPlusTree::format(store, &BPlusConfig::new(RecordFormat::new(4, 4))).unwrap();
    for i in 0..2000u32 {
        tree.put(&(i % 500).to_be_bytes(), &i.to_be_bytes()).unwrap();
    }
    assert_eq!(tree.check().unwrap().records, 500);
}

/// A fresh part is formatted without erases, but for a block that holds something anywhere.
#[test]
fn blank_blocks_are_not_erased_if_so_wished() {
    let config = RawConfig::new(RecordFormat::new(4, 4));
    let steps = |is_fresh: bool, skips: bool| {
        let mut chip = chip();
        if !is_fresh {
            let last = Ppn(chip.geometry().page_at(Pbn(6), 0).0 - 1);
            chip.program(last, Cause::Host, &[7], &[]).unwrap();
        }
        let (flash, before) = (chip.flash.clone(), chip.flash.steps());
        let chip = if skips { chip.skipping_blank() } else { chip };
        let mut tree = MuTree::format(chip, &config).unwrap();
        let steps = flash.steps() - before;
        for i in 0..900u32 {
            tree.put(&(i % 300).to_be_bytes(), &i.to_be_bytes()).unwrap();
        }
        let mut tree = MuTree::mount(NorChip::new(flash, SHAPE).unwrap(), &config).unwrap();
        assert_eq!(tree.check().unwrap().records, 300);
        steps
    };
    let (all, none) = (steps(true, false), steps(true, true));
    assert!((80..90).contains(&(all - none)), "{all} steps with erases, {none} without");
    assert_eq!((steps(false, false), steps(false, true)), (all, none + 1));
}

#[test]
fn marks_stay_and_what_is_wrong_is_named() {
    let mut chip = chip();
    let page = chip.geometry().page_at(Pbn(3), 1);
    chip.program(page, Cause::Host, &[1, 2], &[0xff, 3]).unwrap();
    assert_eq!(chip.program(page, Cause::Host, &[1], &[]), Err(sets_bits(page, 0)));
    let (mut data, mut spare) = ([0; 3], [0; 3]);
    chip.read(page, Cause::Host, &mut data, &mut spare).unwrap();
    assert_eq!((data, spare), ([1, 2, 0xff], [0xff, 3, 0xff]));
    chip.read_at(page, Cause::Host, 1, &mut data).unwrap();
    assert_eq!(data, [2, 0xff, 0xff]);
    assert!(!chip.is_bad(Pbn(3)).unwrap());
    chip.mark_bad(Pbn(3)).unwrap();
    assert!(chip.is_bad(Pbn(3)).unwrap());
    assert_eq!(chip.erase(Pbn(3), Cause::Host), Err(NandError::BadBlock(Pbn(3))));
    assert_eq!(chip.erase(Pbn(80), Cause::Host), Err(NandError::BlockOutOfRange(Pbn(80))));
    assert_eq!(chip.read(Ppn(640), Cause::Host, &mut [], &mut []), Err(NandError::PageOutOfRange(Ppn(640))));
    chip.flash.break_bus();
    assert_eq!(chip.program(Ppn(0), Cause::Host, &[1], &[]), Err(NandError::Device(3)));
    assert_eq!(chip.erase(Pbn(1), Cause::Host), Err(NandError::Device(3)));
    assert_eq!(chip.mark_bad(Pbn(1)), Err(NandError::Device(3)), "gone, and not worn");
    let index = MuTree::format(chip, &RawConfig::new(RecordFormat::new(4, 4)));
    assert_eq!(index.err(), Some(IndexError::from(nandex::StoreError::from(NandError::Device(3)))));
}

fn sets_bits(page: Ppn, byte: u32) -> NandError {
    NandError::SetsBits { page, byte }
}

/// Data of 0xFF but for bytes of this value.
fn at(bytes: core::ops::Range<usize>, value: u8) -> [u8; 448] {
    let mut data = [0xff; 448];
    data[bytes].fill(value);
    data
}

#[test]
fn a_programmed_page_takes_further_words_and_only_those_are_written() {
    let mut chip = NorChip::new(RamFlash::<8, 4096>::new(8 * 4096), SHAPE).unwrap();
    assert_eq!((chip.geometry().append_bytes, chip.geometry().overwrites()), (8, false));
    chip.program(Ppn(1), Cause::Host, &at(0..10, 1), &[0xff, 5]).unwrap();
    assert_eq!(chip.flash.steps(), 3);
    // A page behind it, and words on both sides of some that are left out.
    chip.program(Ppn(2), Cause::Host, &[9], &[]).unwrap();
    let mut data = at(16..24, 2);
    data[40] = 3;
    chip.program(Ppn(1), Cause::Host, &data, &[]).unwrap();
    assert_eq!(chip.flash.steps(), 6);
    chip.program(Ppn(1), Cause::Host, &at(24..40, 4), &[0xff; 8]).unwrap();
    for (range, byte) in [(11..12, 11), (12..30, 12), (41..42, 41)] {
        assert_eq!(chip.program(Ppn(1), Cause::Host, &at(range, 0), &[]), Err(sets_bits(Ppn(1), byte)));
    }
    assert_eq!(chip.program(Ppn(1), Cause::Host, &at(48..56, 0), &[0]), Err(sets_bits(Ppn(1), 448)));
    assert_eq!(chip.flash.steps(), 8, "what is refused writes nothing");
    let (mut data, mut spare) = ([0; 50], [0; 3]);
    chip.read(Ppn(1), Cause::Host, &mut data, &mut spare).unwrap();
    let mut expected = [0xff; 50];
    for (range, value) in [(0..10, 1), (16..24, 2), (24..40, 4), (40..41, 3)] {
        expected[range].fill(value);
    }
    assert_eq!((data, spare), (expected, [0xff, 5, 0xff]));
}

#[test]
fn a_read_that_ends_before_a_torn_word_succeeds() {
    for how in [TornWord::Error, TornWord::ErrorAtTimes] {
        let mut chip = torn(5, how);
        chip.program(Ppn(8), Cause::Host, &at(0..24, 1), &[7; 8]).unwrap();
        let cut = chip.program(Ppn(8), Cause::Host, &at(32..64, 2), &[]);
        assert_eq!(cut, Err(NandError::Device(3)));
        chip.flash.power_on();
        let (mut data, mut spare) = ([0; 448], [0; 64]);
        chip.read(Ppn(8), Cause::Host, &mut data[..40], &mut spare).unwrap();
        assert!(data[..24] == [1; 24] && data[24..32] == [0xff; 8] && data[32..40] == [2; 8]);
        assert_eq!(spare[..8], [7; 8]);
        assert!(chip.read_at(Ppn(8), Cause::Host, 48, &mut data[..100]).is_ok());
        let covered = chip.read_at(Ppn(8), Cause::Host, 47, &mut [0]).map(drop);
        let is_lost = how == TornWord::Error;
        assert_eq!(covered, if is_lost { Err(NandError::Uncorrectable(Ppn(8))) } else { Ok(()) });
        // Words behind the torn one are erased, and take a program.
        chip.program(Ppn(8), Cause::Host, &at(48..64, 3), &[]).unwrap();
        let again = chip.program(Ppn(8), Cause::Host, &at(40..48, 3), &[]).unwrap_err();
        assert_eq!(again, if is_lost { NandError::NotErased(Ppn(8)) } else { sets_bits(Ppn(8), 40) });
    }
}

#[test]
fn a_part_that_overwrites_writes_the_words_that_change() {
    let flash = RamFlash::<1, 4096>::new(8 * 4096).overwriting();
    let mut chip = NorChip::new(flash, SHAPE.with_overwrites(true)).unwrap();
    let geometry = chip.geometry();
    assert!(geometry.overwrites() && geometry.random_order && geometry.append_bytes == 1);
    chip.program(Ppn(2), Cause::Host, &[0x3f; 448], &[]).unwrap();
    let before = chip.flash.steps();
    let mut data = [0x3f; 448];
    (data[7], data[100], data[200]) = (0x0f, 0xff, 0x00);
    chip.program(Ppn(2), Cause::Host, &data, &[]).unwrap();
    assert_eq!(chip.flash.steps(), before + 2, "two bytes lose bits");
    (data[7], data[12]) = (0x0e, 0x3e);
    chip.program(Ppn(2), Cause::Host, &data, &[]).unwrap();
    assert_eq!(chip.flash.steps(), before + 8, "one write for two changes that lie close");
    data[300] = 0x7f;
    assert_eq!(chip.program(Ppn(2), Cause::Host, &data, &[0]), Err(sets_bits(Ppn(2), 300)));
    assert_eq!(chip.flash.steps(), before + 8);
    let mut read = [0; 448];
    chip.read(Ppn(2), Cause::Host, &mut read, &mut []).unwrap();
    (data[100], data[300]) = (0x3f, 0x3f);
    assert_eq!(read, data);
    chip.program(Ppn(0), Cause::Host, &[1], &[]).unwrap();
}

/// A chip of words of 8 bytes on which a cut tears this step.
fn torn(at_step: u64, torn: TornWord) -> NorChip<RamFlash<8, 4096>> {
    let chip = NorChip::new(RamFlash::new(8 * 4096), SHAPE).unwrap();
    chip.flash.plan(RamCut { at_step, torn, seed: 5 });
    chip
}

#[test]
fn a_torn_word_is_a_page_that_cannot_be_read() {
    for (how, is_readable) in
        [(TornWord::Error, false), (TornWord::Wrong, true), (TornWord::ErrorAtTimes, true)]
    {
        let mut chip = torn(3, how);
        let page = [7; 448];
        assert_eq!(chip.program(Ppn(8), Cause::Host, &page, &[]), Err(NandError::Device(3)));
        chip.flash.power_on();
        let (mut data, mut spare) = ([0; 448], [0; 1]);
        let read = chip.read(Ppn(8), Cause::Host, &mut data, &mut spare).map(drop);
        let expected = if is_readable { Ok(()) } else { Err(NandError::Uncorrectable(Ppn(8))) };
        assert_eq!(read, expected, "{how:?}");
        assert!(!is_readable || (data[..24] == page[..24] && data[32..] == [0xff; 416]));
        let refused = if is_readable { sets_bits(Ppn(8), 0) } else { NandError::NotErased(Ppn(8)) };
        assert_eq!(chip.program(Ppn(8), Cause::Host, &page, &[]), Err(refused));
        assert_eq!(chip.is_bad(Pbn(1)), Ok(false), "{how:?}");
        chip.erase(Pbn(1), Cause::Host).unwrap();
        chip.program(Ppn(8), Cause::Host, &page, &[]).unwrap();
        chip.read(Ppn(8), Cause::Host, &mut data, &mut spare).unwrap();
        assert_eq!(data, page);
    }
}

#[test]
fn a_block_whose_erase_was_cut_is_erased_again() {
    for how in [TornWord::Error, TornWord::Wrong, TornWord::ErrorAtTimes] {
        // A page of 448 bytes is 56 words.
        let mut chip = torn(56, how);
        chip.program(Ppn(8), Cause::Host, &[7; 448], &[]).unwrap();
        assert_eq!(chip.erase(Pbn(1), Cause::Host), Err(NandError::Device(3)));
        chip.flash.power_on();
        let unreadable = (8..16).map(|page| chip.read(Ppn(page), Cause::Host, &mut [0; 448], &mut []));
        let unreadable = unreadable.filter(|read| matches!(read, Err(NandError::Uncorrectable(_)))).count();
        assert_eq!(unreadable, if how == TornWord::Error { 8 } else { 0 }, "{how:?}");
        assert_eq!(chip.is_bad(Pbn(1)), Ok(false), "{how:?}");
        chip.erase(Pbn(1), Cause::Host).unwrap();
        chip.program(Ppn(8), Cause::Host, &[7; 448], &[]).unwrap();
    }
}

#[test]
fn a_page_that_looks_erased_takes_a_program() {
    // The first 40 bytes are 0xFF: a cut in the first word that is written leaves nothing before it.
    let mut page = [0xff; 448];
    page[41] = 1;
    let mut chip = torn(0, TornWord::Wrong);
    assert_eq!(chip.program(Ppn(0), Cause::Host, &page, &[]), Err(NandError::Device(3)));
    chip.flash.power_on();
    assert_eq!(chip.flash.steps(), 1, "one word is written");
    let mut blank = NorChip::new(RamFlash::<8, 4096>::new(8 * 4096), SHAPE).unwrap();
    blank.program(Ppn(0), Cause::Host, &[0xff; 448], &[0xff; 64]).unwrap();
    blank.program(Ppn(0), Cause::Host, &page, &[]).unwrap();
    assert_eq!(blank.flash.steps(), 1);
}

#[test]
fn a_worn_word_is_a_failed_program_and_a_driver_says_when_the_part_is_gone() {
    let mut chip = NorChip::new(RamFlash::<8, 4096>::new(8 * 4096), SHAPE).unwrap();
    chip.flash.wear_out(512 + 8);
    assert_eq!(chip.program(Ppn(1), Cause::Host, &[1; 20], &[]), Err(NandError::ProgramFailed(Ppn(1))));
    chip.mark_bad(Pbn(0)).unwrap();
    assert_eq!(chip.is_bad(Pbn(0)), Ok(true));
    let mut chip = torn(3, TornWord::Error).gone_when(|error| matches!(error, RamFault::Ecc));
    chip.program(Ppn(8), Cause::Host, &[7; 448], &[]).unwrap_err();
    chip.flash.power_on();
    let read = chip.read(Ppn(8), Cause::Host, &mut [0; 448], &mut []).map(drop);
    assert_eq!(read, Err(NandError::Device(3)), "this driver means the part");
}

#[test]
fn pages_that_do_not_fit_are_refused() {
    let refused = |page_bytes, spare_bytes| {
        NorChip::new(RamFlash::<4, 4096>::new(1 << 16), Shape::new(page_bytes, spare_bytes))
            .map(|chip| chip.geometry())
            .unwrap_err()
            .field
    };
    assert_eq!(refused(447, 64), "page_bytes");
    assert_eq!(refused(448, 0), "spare_bytes");
    assert_eq!(refused(32, 16), "page_bytes");
    assert_eq!(refused(u32::MAX - 63, 64), "page_bytes");
    let long = NorChip::new(RamFlash::<4, 4096>::new(1 << 16), Shape::new(4096, 64));
    let geometry = long.unwrap().geometry();
    assert_eq!((geometry.pages_per_block, geometry.blocks), (2, 5), "blocks of three erase units");
}

/// Keys of the trees that are overwritten.
const KEYS: u32 = 150;

type Serial = RamFlash<1, 4096>;

/// A VMTree-OW, formatted or mounted on a part that overwrites.
fn overwritten(flash: &Serial, is_new: bool) -> Result<OverwriteTree<NorChip<Serial>>, IndexError> {
    let chip = NorChip::new(flash.clone(), SHAPE.with_overwrites(true)).unwrap();
    let config = OverwriteConfig::new(RecordFormat::new(4, 4));
    if is_new { OverwriteTree::format(chip, &config) } else { OverwriteTree::mount(chip, &config) }
}

/// Puts values until the power fails; returns the number of operations that were acknowledged.
fn put_until_cut(tree: &mut impl OrderedIndex, operations: u32) -> u32 {
    let put = |number: &u32| tree.put(&(number * 7 % KEYS).to_be_bytes(), &number.to_be_bytes()).is_err();
    (0..operations).find(put).unwrap_or(operations)
}

/// The number of the last of these operations that put this key.
fn last_put(key: u32, operations: u32) -> Option<u32> {
    (0..operations).rev().find(|number| number * 7 % KEYS == key)
}

#[test]
fn a_tree_that_overwrites_is_found_whole_after_cuts_inside_of_overwrites() {
    let operations = 500;
    let flash = Serial::new(24 * 4096).overwriting();
    let mut tree = overwritten(&flash, true).unwrap();
    let from = flash.steps();
    assert_eq!(put_until_cut(&mut tree, operations), operations);
    let steps = flash.steps() - from;
    drop(tree);
    let (mut cut_short, mut mounts_cut) = (0, 0);
    for number in 0..120 {
        let flash = Serial::new(24 * 4096).overwriting();
        let mut tree = overwritten(&flash, true).unwrap();
        let cut = |at_step| RamCut { at_step, torn: TornWord::Wrong, seed: number };
        flash.plan(cut(from + steps * number / 120));
        let done = put_until_cut(&mut tree, operations);
        assert!(!flash.is_on(), "cut {number}");
        drop(tree);
        flash.power_on();
        if number % 3 == 0 {
            flash.plan(cut(flash.steps() + number % 7));
            mounts_cut += u32::from(overwritten(&flash, false).is_err());
            flash.power_on();
        }
        let mut tree = overwritten(&flash, false).unwrap();
        for key in 0..KEYS {
            let mut value = [0; 4];
            let found = tree.get(&key.to_be_bytes(), &mut value).unwrap();
            let found = found.then(|| u32::from_be_bytes(value));
            // The operation that was cut is there or not.
            let is_cut = key == done * 7 % KEYS;
            let expected = found == last_put(key, done) || is_cut && found == Some(done);
            assert!(expected, "cut {number}: key {key} after {done}: {found:?}");
            cut_short += u32::from(is_cut && found != Some(done));
        }
        assert!(tree.check().unwrap().is_sound());
        assert_eq!(put_until_cut(&mut tree, 50), 50);
    }
    assert!(cut_short > 20 && mounts_cut > 5, "{cut_short} {mounts_cut}");
}

#[test]
fn a_tree_that_overwrites_is_refused_where_words_are_written_once() {
    let chip = NorChip::new(Serial::new(24 * 4096), SHAPE).unwrap();
    let refused = OverwriteTree::format(chip, &OverwriteConfig::new(RecordFormat::new(4, 4)));
    assert!(matches!(refused.err(), Some(IndexError::Unsupported(_))));
}

#[test]
fn a_block_is_as_many_units_as_make_512_blocks_or_as_are_asked_for() {
    let shape = |units: usize, shape: Shape| {
        let chip = NorChip::new(RamFlash::<4, 4096>::new(units << 12), shape)?;
        Ok((chip.geometry().pages_per_block, chip.geometry().blocks))
    };
    for (units, expected) in [(8, (8, 8)), (512, (8, 512)), (513, (16, 256)), (4096, (64, 512))] {
        assert_eq!(shape(units, SHAPE), Ok(expected), "{units} units");
    }
    assert_eq!(shape(1024, SHAPE.with_units_per_block(1)), Ok((8, 1024)));
    assert_eq!(shape(70, SHAPE.with_units_per_block(16)), Ok((128, 4)), "six units are left over");
    let refused = |units, asked| shape(units, asked).map_err(|error: PartError| error.field);
    assert_eq!(refused(64, SHAPE.with_units_per_block(0)), Err("units_per_block"));
    assert_eq!(refused(64, Shape::new(4096, 64).with_units_per_block(2)), Err("units_per_block"));
    assert_eq!(refused(64, SHAPE.with_units_per_block(u32::MAX)), Err("blocks"));
    assert_eq!(refused(64, SHAPE.with_units_per_block(32)), Ok((256, 2)));
    assert_eq!(refused(64, SHAPE.with_units_per_block(64)), Err("blocks"));
}

#[test]
fn a_block_of_several_units_is_erased_whole_and_again_after_a_cut_between_them() {
    // A page of 448 bytes is 56 words; the block has two units.
    for cut_unit in 0..3 {
        let chip = RamFlash::<8, 4096>::new(8 << 12);
        let mut chip = NorChip::new(chip, SHAPE.with_units_per_block(2)).unwrap();
        let (first, last) = (Ppn(16), Ppn(31));
        for page in [first, last] {
            chip.program(page, Cause::Host, &[7; 448], &[]).unwrap();
        }
        let at_step = chip.flash.steps() + cut_unit;
        chip.flash.plan(RamCut { at_step, torn: TornWord::Error, seed: cut_unit });
        assert_eq!(chip.erase(Pbn(1), Cause::Host).is_err(), cut_unit < 2);
        chip.flash.power_on();
        let mut data = [0; 448];
        if cut_unit < 2 {
            assert!(chip.program(last, Cause::Host, &[1; 448], &[]).is_err());
            chip.erase(Pbn(1), Cause::Host).unwrap();
        }
        for page in [first, last] {
            chip.read(page, Cause::Host, &mut data, &mut []).unwrap();
            assert_eq!(data, [0xff; 448]);
            chip.program(page, Cause::Host, &[1; 448], &[]).unwrap();
        }
    }
}
