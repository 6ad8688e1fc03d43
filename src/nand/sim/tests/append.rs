//! The rules of appends: further words of a programmed page, where it is still erased, and nothing else.

use super::super::*;
use crate::nand::catalogue::{mlc_with, nor_2m};
use crate::nand::{Supply, WordTiming};
use proptest::prelude::*;

const CAUSE: Cause = Cause::Host;
const PAGE: usize = 64;
const SPARE: usize = 16;
const WHOLE: usize = PAGE + SPARE;

/// A chip of words that are programmed once.
fn chip(append_bytes: u16) -> SimChip {
    let mut part = mlc_with(PAGE as u32, 4, 4);
    part.geometry.spare_bytes = SPARE as u32;
    part.geometry = part.geometry.with_append_bytes(append_bytes);
    SimChip::new(&part).unwrap()
}

/// A chip that overwrites, in ascending order.
fn nor() -> SimChip {
    let mut part = nor_2m().with_blocks(4);
    (part.geometry.page_bytes, part.geometry.spare_bytes) = (PAGE as u32, SPARE as u32);
    part.geometry.pages_per_block = 4;
    part.geometry.random_order = false;
    SimChip::new(&part).unwrap()
}

/// Data of 0xFF but for some bytes of this value.
fn at(range: core::ops::Range<usize>, value: u8) -> [u8; PAGE] {
    let mut data = [0xff; PAGE];
    data[range].fill(value);
    data
}

fn look(chip: &mut SimChip, ppn: u32) -> Vec<u8> {
    let (mut data, mut spare) = (vec![0; PAGE], vec![0; SPARE]);
    chip.read(Ppn(ppn), Cause::Check, &mut data, &mut spare).unwrap();
    [data, spare].concat()
}

fn sets_bits(page: u32, byte: u32) -> Result<(), NandError> {
    Err(NandError::SetsBits { page: Ppn(page), byte })
}

#[test]
fn words_follow_words_until_the_page_is_full() {
    for mut chip in [chip(8), chip(1), nor()] {
        let mut expected = [0xff; WHOLE];
        for word in 0..PAGE / 8 {
            let range = word * 8..word * 8 + 8;
            chip.program(Ppn(1), CAUSE, &at(range.clone(), word as u8), &[]).unwrap();
            expected[range].fill(word as u8);
            assert_eq!(look(&mut chip, 1), expected);
        }
        chip.program(Ppn(1), CAUSE, &[], &[7; SPARE]).unwrap();
        expected[PAGE..].fill(7);
        assert_eq!(look(&mut chip, 1), expected);
        assert_eq!(chip.counters().page_programs_total(), 9);
        chip.erase(Pbn(0), CAUSE).unwrap();
        chip.program(Ppn(1), CAUSE, &[3; PAGE], &[]).unwrap();
    }
}

#[test]
fn a_word_takes_one_program_and_the_refusal_names_page_and_byte() {
    let mut chip = chip(8);
    chip.program(Ppn(5), CAUSE, &at(0..10, 0xf0), &[0xff, 0xff, 3]).unwrap();
    let before = (look(&mut chip, 5), chip.time(), chip.operations(), chip.counters());
    // The second word has two bytes of another program, so its other bytes are taken, too.
    for (range, byte) in [(0..1, 0), (9..10, 9), (12..14, 12), (15..17, 15)] {
        assert_eq!(chip.program(Ppn(5), CAUSE, &at(range, 0), &[]), sets_bits(5, byte));
    }
    assert_eq!(chip.program(Ppn(5), CAUSE, &at(16..24, 0), &[0]), sets_bits(5, PAGE as u32));
    let op = PhysicalOp::Program { ppn: Ppn(5), data: at(9..10, 0).into(), spare: [].into() };
    assert_eq!(chip.apply(&op), sets_bits(5, 9));
    assert_eq!(before, (look(&mut chip, 5), chip.time(), chip.operations(), chip.counters()));
    chip.program(Ppn(5), CAUSE, &at(16..24, 0), &[0xff; 8]).unwrap();
    chip.program(Ppn(5), CAUSE, &[0xff; PAGE], &[]).unwrap();
    chip.program(Ppn(5), CAUSE, &[], &[&[0xff; 8][..], &[0; 8]].concat()).unwrap();
}

#[test]
fn a_chip_without_appends_refuses_them() {
    let mut chip = chip(0);
    chip.program(Ppn(5), CAUSE, &[1; 8], &[]).unwrap();
    let refused = chip.program(Ppn(5), CAUSE, &at(16..24, 0), &[]);
    assert_eq!(refused, Err(NandError::NotErased(Ppn(5))));
}

#[test]
fn partial_programs_come_before_appends() {
    let mut part = chip(8).part().clone();
    part.geometry = part.geometry.with_programs_per_page_max(2);
    let mut chip = SimChip::new(&part).unwrap();
    chip.program(Ppn(0), CAUSE, &[0xf0], &[]).unwrap();
    chip.program(Ppn(0), CAUSE, &[0x0f], &[]).unwrap();
    assert_eq!(chip.program(Ppn(0), CAUSE, &[0], &[]), sets_bits(0, 0));
    chip.program(Ppn(0), CAUSE, &at(8..9, 1), &[]).unwrap();
    assert_eq!(look(&mut chip, 0)[..9], [0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]);
}

#[test]
fn the_order_of_pages_does_not_hinder_an_append() {
    for mut chip in [chip(8), nor()] {
        chip.program(Ppn(0), CAUSE, &[1; 8], &[]).unwrap();
        chip.program(Ppn(2), CAUSE, &[2; 8], &[]).unwrap();
        for page in [2, 0] {
            chip.program(Ppn(page), CAUSE, &at(8..16, 3), &[]).unwrap();
        }
        assert_eq!(chip.program(Ppn(1), CAUSE, &[1; 8], &[]), Err(NandError::OutOfOrder(Ppn(1))));
    }
}

#[test]
fn more_appends_than_a_counter_of_programs_holds_seal_no_page() {
    let geometry = Geometry::new(512, 0, 4, 4).with_append_bytes(1);
    let mut chip = SimChip::new(&Part { geometry, ..chip(1).part().clone() }).unwrap();
    for byte in 0..512 {
        let mut data = [0xff; 512];
        data[byte] = 0;
        chip.program(Ppn(0), CAUSE, &data, &[]).unwrap();
        chip = SimChip::from_image(&chip.to_image()).unwrap();
    }
    let mut data = [1; 512];
    chip.read(Ppn(0), CAUSE, &mut data, &mut []).unwrap();
    assert_eq!(data, [0; 512]);
}

#[test]
fn a_program_takes_the_time_of_the_words_that_change() {
    // 30 us for a word, 2 us for each further one of 32 bytes, 40 ns a byte on the bus.
    let words = WordTiming::new(30_000, 2_000, 32, 33_000);
    for made in [chip(8), nor()] {
        let mut part = made.part().clone().with_words(words);
        part.timing.transfer_ps_per_byte = 40_000;
        part.supply = Supply::flat(1000, 1);
        let mut chip = SimChip::new(&part).unwrap();
        let word_bytes = part.geometry.append_bytes as usize;
        let mut takes = |data: &[u8], spare: &[u8]| {
            let (time, energy) = (chip.time(), chip.energy_pj());
            chip.program(Ppn(0), CAUSE, data, spare).unwrap();
            assert_eq!(chip.energy_pj() - energy, chip.time().0 - time.0, "1 V and 1 mA");
            chip.time().0 - time.0
        };
        assert_eq!(takes(&at(8..8 + word_bytes, 1), &[]), 30_000 + 40 * word_bytes as u64);
        assert_eq!(takes(&at(48..48 + 2 * word_bytes, 1), &[]), 32_000 + 80 * word_bytes as u64);
        // Words of two program pages, and of a third one: the spare area.
        let both = takes(&at(32 - word_bytes..32 + word_bytes, 1), &[0xff, 3]);
        assert_eq!(both, 90_000 + 120 * word_bytes as u64);
        assert_eq!(takes(&[0xff; PAGE], &[0xff; SPARE]), 0);
        assert_eq!(chip.counters().page_programs_total(), 4, "it is a program all the same");
        if part.geometry.overwrites() {
            let before = chip.time();
            chip.program(Ppn(0), CAUSE, &at(8..9, 1), &[]).unwrap();
            assert_eq!(chip.time(), before, "bits that are clear already");
            chip.program(Ppn(1), CAUSE, &[0; 32], &[]).unwrap();
            assert_eq!(chip.time().0 - before.0, 33_000 + 32 * 40, "the most of a program page");
        }
    }
    let plain = chip(8).part().clone();
    let mut chip = SimChip::new(&plain).unwrap();
    chip.program(Ppn(0), CAUSE, &[1], &[]).unwrap();
    assert_eq!(chip.time().0, plain.page_program_ns());
}

/// Pages after an append of the bytes 16 to 40 over 16 bytes that are there, torn by this model.
fn torn_appends(chip: &SimChip, torn: TornModel) -> Vec<SimChip> {
    let torn_by = |seed| {
        let mut chip = chip.clone();
        chip.program(Ppn(0), CAUSE, &[0x3f; 16], &[]).unwrap();
        chip.plan_power_cut(PowerCut { at_operation: 1, when: CutWhen::Inside, torn, seed });
        assert_eq!(chip.program(Ppn(0), CAUSE, &at(16..40, 0x0c), &[]), Err(NandError::PowerLost));
        chip.power_on();
        chip
    };
    (0..100).map(torn_by).collect()
}

#[test]
fn a_torn_append_leaves_the_words_before_it() {
    let (none, all) = ([0xff; 24], [0x0c; 24]);
    for (made, torn) in [chip(8), nor()].iter().flat_map(|chip| TornModel::ALL.map(|torn| (chip, torn))) {
        if torn == TornModel::Unreadable && !made.geometry().overwrites() {
            continue;
        }
        let mut in_part = 0;
        for mut chip in torn_appends(made, torn) {
            let page = look(&mut chip, 0);
            assert!(page[..16] == [0x3f; 16] && page[40..] == [0xff; WHOLE - 40], "{torn:?}: {page:02x?}");
            let words = &page[16..40];
            assert!(words.iter().all(|byte| byte & 0x0c == 0x0c), "{torn:?}: {words:02x?}");
            assert_ne!(words, all, "{torn:?} is not the whole");
            assert!(torn != TornModel::LooksErased || words == none);
            in_part += u32::from(words != none);
            let can_repeat = chip.geometry().overwrites() || words == none;
            let again = chip.program(Ppn(0), CAUSE, &at(16..40, 0x0c), &[]);
            assert_eq!(again.is_ok(), can_repeat, "{torn:?}: {words:02x?} {again:?}");
            chip.program(Ppn(0), CAUSE, &at(40..48, 1), &[]).unwrap();
        }
        assert!(torn == TornModel::LooksErased || in_part > 80, "{torn:?}: {in_part}");
    }
}

#[test]
fn a_torn_word_is_unreadable_where_a_read_covers_it() {
    let mut words = [0; 3];
    for mut chip in torn_appends(&chip(8), TornModel::Unreadable) {
        let unreadable = Err(NandError::Uncorrectable(Ppn(0)));
        let mut reads = |from: u32, bytes: usize, spare: usize| {
            let (mut data, mut beside) = ([0; PAGE], [0; SPARE]);
            match from {
                0 => chip.read(Ppn(0), CAUSE, &mut data[..bytes], &mut beside[..spare]),
                _ => chip.read_at(Ppn(0), CAUSE, from, &mut data[..bytes]),
            }
            .map(|_| data)
        };
        assert!(reads(0, 16, SPARE).unwrap()[..16] == [0x3f; 16] && reads(0, 0, SPARE).is_ok());
        assert_eq!((reads(0, PAGE, 0).map(drop), reads(0, 40, 1).map(drop)), (unreadable, unreadable));
        let whole = (16..40).step_by(8).take_while(|end| reads(0, *end as usize + 8, 0).is_ok()).count();
        let torn = 16 + 8 * whole as u32;
        assert_eq!(reads(0, torn as usize, 0).unwrap()[16..torn as usize], [0x0c; PAGE][16..torn as usize]);
        assert_eq!(reads(torn + 7, 1, 0).map(drop), unreadable);
        assert_eq!(reads(torn + 8, 8, 0).unwrap()[..8], [0xff; 8]);
        assert!(reads(1, torn as usize - 1, 0).is_ok() && reads(1, torn as usize, 0).is_err());
        words[whole] += 1;
        assert!(chip.stored_page(Ppn(0)).is_none());
        assert_eq!(chip.program(Ppn(0), CAUSE, &at(torn as usize..PAGE, 0), &[]), sets_bits(0, torn));
        chip.program(Ppn(0), CAUSE, &at(torn as usize + 8..PAGE, 0), &[]).unwrap();
        let mut loaded = SimChip::from_image(&chip.to_image()).unwrap();
        assert_eq!(loaded.read(Ppn(0), CAUSE, &mut [0; 40], &mut []).map(drop), unreadable);
        loaded.erase(Pbn(0), CAUSE).unwrap();
        assert_eq!(look(&mut loaded, 0), [0xff; WHOLE]);
    }
    assert!(words.iter().all(|&times| times > 10), "{words:?}");
}

#[test]
fn the_first_program_of_a_page_tears_in_a_word_too_or_seals_the_page() {
    for seed in 0..20 {
        let mut chip = chip(8);
        let op = PhysicalOp::Program { ppn: Ppn(0), data: [7; PAGE].into(), spare: [7; SPARE].into() };
        chip.apply_torn(&op, TornModel::Unreadable, seed).unwrap();
        assert!(chip.read(Ppn(0), CAUSE, &mut [0; PAGE], &mut [0; SPARE]).is_err());
        assert!(chip.read(Ppn(0), CAUSE, &mut [], &mut []).is_ok() && !chip.is_erased(Ppn(0)));
        let op = PhysicalOp::Program { ppn: Ppn(1), data: [7; PAGE].into(), spare: [].into() };
        chip.apply_torn(&op, TornModel::LooksErased, seed).unwrap();
        assert_eq!(look(&mut chip, 1), [0xff; WHOLE]);
        let refused = chip.program(Ppn(1), CAUSE, &at(32..40, 0), &[]);
        assert_eq!(refused, Err(NandError::NotErased(Ppn(1))));
    }
}

proptest! {
    #![proptest_config(crate::inputs::fixed(96))]

    /// The chip is an array of words, each of which is programmed once.
    #[test]
    fn the_chip_is_an_array_of_words(
        ops in prop::collection::vec((0u32..16, 0usize..WHOLE, 1usize..24, any::<u8>()), 1..120),
        word_bytes in prop::sample::select(vec![1usize, 2, 8, 16]),
    ) {
        let mut chip = chip(word_bytes as u16);
        let mut model = vec![vec![0xff; WHOLE]; 16];
        let mut next = [0; 4];
        for (ppn, from, bytes, value) in ops {
            let (place, block) = (ppn as usize, ppn as usize / 4);
            if value == 0 {
                chip.erase(Pbn(block as u32), CAUSE).unwrap();
                model[block * 4..block * 4 + 4].fill(vec![0xff; WHOLE]);
                next[block] = 0;
                continue;
            }
            let mut raw = [0xff; WHOLE];
            raw[from..WHOLE.min(from + bytes)].fill(value);
            let is_first = model[place].iter().all(|byte| *byte == 0xff);
            let is_taken = |at: &usize| {
                let word = at / word_bytes * word_bytes;
                raw[*at] != 0xff && model[place][word..word + word_bytes].iter().any(|byte| *byte != 0xff)
            };
            let expected = match (0..WHOLE).find(is_taken) {
                Some(byte) => sets_bits(ppn, byte as u32),
                None if is_first && place % 4 + 1 < next[block] => Err(NandError::OutOfOrder(Ppn(ppn))),
                None => Ok(()),
            };
            // A page that took bytes of 0xFF only counts as programmed, and the model would need to know.
            if value != 0xff {
                prop_assert_eq!(chip.program(Ppn(ppn), CAUSE, &raw[..PAGE], &raw[PAGE..]), expected);
                if expected.is_ok() {
                    model[place].iter_mut().zip(raw).for_each(|(old, new)| *old &= new);
                    next[block] = next[block].max(place % 4 + 1);
                }
            }
            prop_assert_eq!(&look(&mut chip, ppn), &model[place]);
        }
    }
}
