//! The rules of physics and every fault, one test each.

mod append;
mod nor;

use super::*;
use crate::nand::{Pairing, Timing};

const TIMING: Timing =
    Timing { read_ns: 60_000, program_ns: 800_200, erase_ns: 1_500_000, transfer_ps_per_byte: 25_000 };
const CAUSE: Cause = Cause::Host;

fn part() -> Part {
    Part::new("test", Geometry::new(64, 16, 8, 16), TIMING)
}

fn chip() -> SimChip {
    SimChip::new(&part()).unwrap()
}

fn read(chip: &mut SimChip, ppn: u32) -> Result<(Vec<u8>, Vec<u8>), NandError> {
    let (mut data, mut spare) = (vec![0; 64], vec![0; 16]);
    chip.read(Ppn(ppn), Cause::Check, &mut data, &mut spare)?;
    Ok((data, spare))
}

fn program(chip: &mut SimChip, ppn: u32, fill: u8) -> Result<(), NandError> {
    chip.program(Ppn(ppn), CAUSE, &[fill; 64], &[fill; 16])
}

fn full(fill: u8) -> Result<(Vec<u8>, Vec<u8>), NandError> {
    Ok((vec![fill; 64], vec![fill; 16]))
}

#[test]
fn a_page_keeps_what_was_programmed_and_an_erase_takes_it() {
    let mut chip = chip();
    assert_eq!(read(&mut chip, 3), full(0xff));
    chip.program(Ppn(3), CAUSE, &[7; 10], &[9; 2]).unwrap();
    let (data, spare) = read(&mut chip, 3).unwrap();
    assert_eq!((&data[..10], &data[10..]), (&[7; 10][..], &[0xff; 54][..]));
    assert_eq!((&spare[..2], &spare[2..]), (&[9; 2][..], &[0xff; 14][..]));
    chip.erase(Pbn(0), CAUSE).unwrap();
    assert_eq!(read(&mut chip, 3), full(0xff));
    program(&mut chip, 0, 1).unwrap();
    assert_eq!(read(&mut chip, 0), full(1));
}

#[test]
fn a_page_is_programmed_once_between_erases() {
    let mut chip = chip();
    program(&mut chip, 0, 1).unwrap();
    assert_eq!(program(&mut chip, 0, 1), Err(NandError::NotErased(Ppn(0))));
    chip.erase(Pbn(0), CAUSE).unwrap();
    program(&mut chip, 0, 2).unwrap();
}

#[test]
fn partial_programs_only_clear_bits_and_end_at_the_parts_number() {
    let mut part = part();
    part.geometry.programs_per_page_max = 3;
    let mut chip = SimChip::new(&part).unwrap();
    chip.program(Ppn(0), CAUSE, &[0xf0], &[]).unwrap();
    chip.program(Ppn(0), CAUSE, &[0x3c], &[1]).unwrap();
    chip.program(Ppn(0), CAUSE, &[], &[]).unwrap();
    let (data, spare) = read(&mut chip, 0).unwrap();
    assert_eq!((data[0], data[1], spare[0], spare[1]), (0x30, 0xff, 1, 0xff));
    assert_eq!(program(&mut chip, 0, 0), Err(NandError::NotErased(Ppn(0))));
}

#[test]
fn pages_are_programmed_in_ascending_order_unless_the_part_allows_otherwise() {
    let mut chip = chip();
    program(&mut chip, 5, 5).unwrap();
    assert_eq!(program(&mut chip, 4, 4), Err(NandError::OutOfOrder(Ppn(4))));
    program(&mut chip, 7, 7).unwrap();
    let mut free = part();
    free.geometry.random_order = true;
    let mut chip = SimChip::new(&free).unwrap();
    for page in [5, 2, 7, 0] {
        program(&mut chip, page, page as u8).unwrap();
    }
    for page in [0, 2, 5, 7] {
        assert_eq!(read(&mut chip, page), full(page as u8));
    }
    assert_eq!(read(&mut chip, 1), full(0xff));
}

#[test]
fn what_lies_beyond_the_chip_or_the_page_is_refused_and_costs_nothing() {
    let mut chip = chip();
    assert_eq!(program(&mut chip, 128, 0), Err(NandError::PageOutOfRange(Ppn(128))));
    assert_eq!(
        chip.read(Ppn(u32::MAX), CAUSE, &mut [], &mut []),
        Err(NandError::PageOutOfRange(Ppn(u32::MAX)))
    );
    assert_eq!(chip.program(Ppn(0), CAUSE, &[0; 65], &[]), Err(NandError::BufferTooLong(Ppn(0))));
    assert_eq!(chip.read(Ppn(0), CAUSE, &mut [], &mut [0; 17]), Err(NandError::BufferTooLong(Ppn(0))));
    assert_eq!(chip.erase(Pbn(16), CAUSE), Err(NandError::BlockOutOfRange(Pbn(16))));
    assert_eq!(chip.mark_bad(Pbn(16)), Err(NandError::BlockOutOfRange(Pbn(16))));
    assert_eq!(chip.is_bad(Pbn(16)), Err(NandError::BlockOutOfRange(Pbn(16))));
    assert_eq!((chip.time(), chip.energy_pj(), chip.operations()), (Nanos(0), 0, 0));
    assert_eq!(chip.counters(), Counters::default());
}

#[test]
fn a_bad_block_stays_bad() {
    let mut chip = chip();
    program(&mut chip, 8, 1).unwrap();
    chip.mark_bad(Pbn(1)).unwrap();
    assert_eq!(chip.is_bad(Pbn(1)), Ok(true));
    assert_eq!(program(&mut chip, 9, 1), Err(NandError::BadBlock(Pbn(1))));
    assert_eq!(read(&mut chip, 8), Err(NandError::BadBlock(Pbn(1))));
    assert_eq!(chip.erase(Pbn(1), CAUSE), Err(NandError::BadBlock(Pbn(1))));
    assert_eq!(chip.is_bad(Pbn(0)), Ok(false));
}

#[test]
fn factory_bad_blocks_follow_the_seed_and_spare_block_0() {
    let part = part().with_blocks(2000);
    let bad_of = |seed| {
        let mut chip = SimChip::new(&part).unwrap().with_factory_bad_blocks(20_000, seed);
        (0..2000).filter(|&b| chip.is_bad(Pbn(b)).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(bad_of(1), bad_of(1));
    assert_ne!(bad_of(1), bad_of(2));
    assert!((20..=65).contains(&bad_of(1).len()), "{}", bad_of(1).len());
    let mut ruined = chip().with_factory_bad_blocks(1_000_000, 0);
    assert_eq!((ruined.is_bad(Pbn(0)), ruined.is_bad(Pbn(1))), (Ok(false), Ok(true)));
}

#[test]
fn operations_are_counted_by_cause_and_timed_by_the_bytes_moved() {
    let mut chip = chip();
    chip.program(Ppn(0), Cause::GarbageCollection, &[0], &[]).unwrap();
    assert_eq!(chip.time(), Nanos(800_200 + 80 * 25));
    chip.read(Ppn(0), Cause::Host, &mut [0; 64], &mut [0; 16]).unwrap();
    chip.read(Ppn(0), Cause::Host, &mut [], &mut [0; 16]).unwrap();
    chip.erase(Pbn(0), Cause::Recovery).unwrap();
    chip.read(Ppn(0), Cause::Check, &mut [0; 64], &mut []).unwrap();
    assert_eq!(chip.time(), Nanos(802_200 + 62_000 + 60_400 + 1_500_000));
    let counters = chip.counters();
    assert_eq!(counters.page_reads[Cause::Host as usize], 2);
    assert_eq!(counters.page_programs[Cause::GarbageCollection as usize], 1);
    assert_eq!(counters.block_erases[Cause::Recovery as usize], 1);
    assert_eq!((counters.page_reads_total(), counters.page_programs_total()), (2, 1));
    assert_eq!((chip.wear()[0], chip.wear()[1]), (1, 0));
    // 3.3 V x 25 mA = 82.5 pJ per ns.
    assert_eq!(chip.energy_pj(), chip.time().0 * 825 / 10);
}

#[test]
fn a_clone_and_its_origin_go_their_own_ways() {
    let mut chip = chip();
    program(&mut chip, 0, 1).unwrap();
    let mut other = chip.clone();
    program(&mut chip, 1, 2).unwrap();
    other.erase(Pbn(0), CAUSE).unwrap();
    program(&mut other, 0, 3).unwrap();
    assert_eq!((read(&mut chip, 0), read(&mut chip, 1)), (full(1), full(2)));
    assert_eq!((read(&mut other, 0), read(&mut other, 1)), (full(3), full(0xff)));
    assert_eq!((chip.wear()[0], other.wear()[0]), (0, 1));
}

fn cut(at_operation: u64, when: CutWhen, torn: TornModel) -> PowerCut {
    PowerCut { at_operation, when, torn, seed: 11 }
}

/// A chip whose power was cut at its third operation and is on again.
fn cut_at_program(when: CutWhen, torn: TornModel) -> SimChip {
    let mut chip = chip();
    chip.plan_power_cut(cut(2, when, torn));
    program(&mut chip, 0, 0).unwrap();
    chip.erase(Pbn(1), CAUSE).unwrap();
    assert_eq!(program(&mut chip, 1, 0x0f), Err(NandError::PowerLost));
    assert_eq!(read(&mut chip, 0), Err(NandError::PowerLost));
    assert_eq!(chip.erase(Pbn(0), Cause::Check), Err(NandError::PowerLost));
    assert_eq!(chip.is_bad(Pbn(0)), Err(NandError::PowerLost));
    assert_eq!(chip.mark_bad(Pbn(0)), Err(NandError::PowerLost));
    assert_eq!(program(&mut chip, 2, 0), Err(NandError::PowerLost));
    chip.power_on();
    assert_eq!(read(&mut chip, 0), full(0));
    chip
}

#[test]
fn a_cut_before_an_operation_leaves_nothing_of_it() {
    let mut chip = cut_at_program(CutWhen::Before, TornModel::Prefix);
    assert_eq!((chip.operations(), chip.counters().page_programs_total()), (2, 1));
    assert_eq!(read(&mut chip, 1), full(0xff));
    program(&mut chip, 1, 5).unwrap();
}

#[test]
fn a_cut_after_an_operation_leaves_all_of_it() {
    let mut chip = cut_at_program(CutWhen::After, TornModel::Prefix);
    assert_eq!((chip.operations(), chip.counters().page_programs_total()), (3, 2));
    assert_eq!(read(&mut chip, 1), full(0x0f));
}

#[test]
fn a_torn_prefix_is_a_prefix_and_not_the_whole() {
    let (mut in_data, mut in_spare, mut between) = (0, 0, 0);
    for seed in 0..200 {
        let mut chip = chip();
        let op = PhysicalOp::Program { ppn: Ppn(0), data: vec![0; 64].into(), spare: vec![0; 16].into() };
        chip.apply_torn(&op, TornModel::Prefix, seed).unwrap();
        let (data, spare) = read(&mut chip, 0).unwrap();
        let page: Vec<u8> = data.into_iter().chain(spare).collect();
        let kept = page.iter().take_while(|&&b| b == 0).count();
        assert!(kept < 80 && page[kept..].iter().all(|&b| b == 0xff), "{page:?}");
        match kept {
            0..64 => in_data += 1,
            64 => between += 1,
            _ => in_spare += 1,
        }
        assert_eq!(program(&mut chip, 0, 0), Err(NandError::NotErased(Ppn(0))));
    }
    assert!(in_data > 20 && in_spare > 20 && between > 20, "{in_data} {between} {in_spare}");
}

#[test]
fn torn_bits_are_some_of_those_to_be_cleared() {
    let mut chip = cut_at_program(CutWhen::Inside, TornModel::RandomBits);
    let (data, spare) = read(&mut chip, 1).unwrap();
    let page: Vec<u8> = data.into_iter().chain(spare).collect();
    assert!(page.iter().all(|b| b & 0x0f == 0x0f));
    assert!(page.iter().any(|b| b >> 4 != 0) && page.iter().any(|b| b >> 4 != 0x0f));
    assert_eq!(program(&mut chip, 1, 0), Err(NandError::NotErased(Ppn(1))));
}

#[test]
fn a_torn_page_may_be_unreadable_until_its_block_is_erased() {
    let mut chip = cut_at_program(CutWhen::Inside, TornModel::Unreadable);
    assert_eq!(read(&mut chip, 1), Err(NandError::Uncorrectable(Ppn(1))));
    let reads = chip.counters().page_reads_total();
    assert!(chip.read(Ppn(1), CAUSE, &mut [0; 64], &mut []).is_err());
    assert_eq!(chip.counters().page_reads_total(), reads + 1);
    chip.erase(Pbn(0), CAUSE).unwrap();
    assert_eq!(read(&mut chip, 1), full(0xff));
}

#[test]
fn a_torn_page_may_look_erased_and_still_refuse() {
    let mut roomy = part();
    roomy.geometry.programs_per_page_max = 255;
    for part in [part(), roomy] {
        let mut chip = SimChip::new(&part).unwrap();
        chip.plan_power_cut(cut(0, CutWhen::Inside, TornModel::LooksErased));
        assert_eq!(program(&mut chip, 0, 0), Err(NandError::PowerLost));
        chip.power_on();
        assert_eq!(read(&mut chip, 0), full(0xff));
        assert_eq!(program(&mut chip, 0, 0), Err(NandError::NotErased(Ppn(0))));
        program(&mut chip, 1, 0).unwrap();
        chip.erase(Pbn(0), CAUSE).unwrap();
        program(&mut chip, 0, 0).unwrap();
    }
}

/// State of each of six programmed pages after a torn erase: old, erased, unreadable or blurred.
fn after_torn_erase(torn: TornModel, seed: u64) -> [char; 6] {
    let mut chip = chip();
    (0..6).for_each(|page| program(&mut chip, page, 0x0f).unwrap());
    chip.apply_torn(&PhysicalOp::Erase { pbn: Pbn(0) }, torn, seed).unwrap();
    assert_eq!(chip.wear()[0], 1);
    for page in 0..8 {
        assert_eq!(program(&mut chip, page, 0), Err(NandError::NotErased(Ppn(page))));
    }
    let seen = core::array::from_fn(|page| match read(&mut chip, page as u32) {
        Err(NandError::Uncorrectable(_)) => 'u',
        Err(other) => panic!("{other}"),
        page if page == full(0x0f) => 'o',
        page if page == full(0xff) => 'e',
        Ok((data, _)) => {
            assert!(data.iter().all(|b| b & 0x0f == 0x0f), "an erase only sets bits");
            'b'
        }
    });
    chip.erase(Pbn(0), CAUSE).unwrap();
    assert_eq!(read(&mut chip, 5), full(0xff));
    program(&mut chip, 0, 0).unwrap();
    seen
}

#[test]
fn a_half_erased_block_takes_no_program_until_it_is_erased_whole() {
    let seen = |torn| {
        let mut letters: Vec<char> = (0..40).flat_map(|seed| after_torn_erase(torn, seed)).collect();
        letters.sort_unstable();
        letters.dedup();
        letters
    };
    assert_eq!(seen(TornModel::Unreadable), ['e', 'o', 'u']);
    assert_eq!(seen(TornModel::RandomBits), ['b', 'o']);
    assert_eq!(seen(TornModel::LooksErased), ['e']);
    assert_eq!(seen(TornModel::Prefix), ['e', 'o']);
    for seed in 0..40 {
        let pages: alloc::string::String = after_torn_erase(TornModel::Prefix, seed).into_iter().collect();
        assert!(!pages.contains("oe"), "the erased pages come first: {pages}");
        assert_eq!(
            after_torn_erase(TornModel::Unreadable, seed),
            after_torn_erase(TornModel::Unreadable, seed)
        );
    }
}

#[test]
fn a_half_erased_block_that_was_never_programmed_refuses_too() {
    let mut chip = chip();
    chip.plan_power_cut(cut(0, CutWhen::Inside, TornModel::Unreadable));
    assert_eq!(chip.erase(Pbn(2), CAUSE), Err(NandError::PowerLost));
    chip.power_on();
    assert_eq!(read(&mut chip, 16), full(0xff));
    assert_eq!(program(&mut chip, 16, 0), Err(NandError::NotErased(Ppn(16))));
}

#[test]
fn a_bad_block_mark_is_an_operation_that_a_cut_strikes() {
    for (when, marked) in [(CutWhen::Before, false), (CutWhen::After, true)] {
        let mut chip = chip();
        chip.plan_power_cut(cut(0, when, TornModel::Prefix));
        assert_eq!(chip.mark_bad(Pbn(3)), Err(NandError::PowerLost));
        chip.power_on();
        assert_eq!(chip.is_bad(Pbn(3)), Ok(marked));
    }
    let torn = [0, 1].map(|seed| {
        let mut chip = chip();
        chip.apply_torn(&PhysicalOp::MarkBad { pbn: Pbn(3) }, TornModel::Prefix, seed).unwrap();
        chip.is_bad(Pbn(3)).unwrap()
    });
    assert_eq!(torn, [true, false]);
}

#[test]
fn a_failed_program_leaves_garbage_and_a_failed_erase_a_block_to_retire() {
    let faults = Faults { seed: 4, program_failures_ppm: 1_000_000, ..Faults::default() };
    let mut chip = chip().with_faults(faults);
    assert_eq!(program(&mut chip, 0, 0), Err(NandError::ProgramFailed(Ppn(0))));
    let garbage = read(&mut chip, 0).unwrap();
    assert!(Ok(garbage.clone()) != full(0) && Ok(garbage) != full(0xff));
    assert_eq!(program(&mut chip, 0, 0), Err(NandError::NotErased(Ppn(0))));
    chip.program(Ppn(1), Cause::Check, &[1], &[]).unwrap();
    chip.set_faults(Faults { erase_failures_ppm: 1_000_000, ..Faults::default() });
    assert_eq!(chip.erase(Pbn(0), CAUSE), Err(NandError::EraseFailed(Pbn(0))));
    assert_eq!(program(&mut chip, 2, 0), Err(NandError::NotErased(Ppn(2))));
    assert_eq!((chip.counters().page_programs_total(), chip.counters().block_erases_total()), (1, 1));
}

#[test]
fn failures_keep_their_rate_and_their_seed() {
    let failures = |seed| {
        let faults = Faults { seed, program_failures_ppm: 100_000, ..Faults::default() };
        let mut chip = SimChip::new(&part().with_blocks(1000)).unwrap().with_faults(faults);
        (0..8000).filter(|&ppn| program(&mut chip, ppn, 0).is_err()).collect::<Vec<_>>()
    };
    assert_eq!(failures(1), failures(1));
    assert_ne!(failures(1), failures(2));
    assert!((700..900).contains(&failures(1).len()), "{}", failures(1).len());
}

#[test]
fn worn_blocks_fail_ever_more_often() {
    let mut part = part();
    part.endurance_erases = 1000;
    let mut chip = SimChip::new(&part).unwrap().with_faults(Faults { wears_out: true, ..Faults::default() });
    let failures: Vec<u32> = (1..=2100u32).filter(|_| chip.erase(Pbn(0), CAUSE).is_err()).collect();
    let between = |from, to| failures.iter().filter(|&&wear| (from..to).contains(&wear)).count();
    assert_eq!(between(0, 1001), 0);
    assert!(between(1001, 1300) < between(1700, 2000));
    assert_eq!(between(2000, 2101), 101);
}

#[test]
fn silent_bit_errors_keep_their_rate_and_leave_the_stored_bytes() {
    let faults = Faults { seed: 9, bit_errors_per_gigabit: 1_000_000, ..Faults::default() };
    let wrong_bits = || {
        let mut chip = chip().with_faults(faults);
        program(&mut chip, 0, 0).unwrap();
        let mut wrong = Vec::new();
        for _ in 0..2000 {
            let (mut data, mut spare) = ([0; 64], [0; 16]);
            chip.read(Ppn(0), CAUSE, &mut data, &mut spare).unwrap();
            wrong.push(data.iter().chain(&spare).map(|b| b.count_ones()).sum::<u32>());
            assert_eq!(read(&mut chip, 0), full(0), "a checker sees what is stored");
        }
        wrong
    };
    assert_eq!(wrong_bits(), wrong_bits());
    // 2,000 reads of 640 bits at one in a thousand.
    let total: u32 = wrong_bits().iter().sum();
    assert!((1200..1360).contains(&total), "{total}");
}

#[test]
fn a_recording_rebuilds_the_chip_at_every_operation() {
    let faults =
        Faults { seed: 5, program_failures_ppm: 200_000, erase_failures_ppm: 200_000, ..Faults::default() };
    let mut chip = chip().with_faults(faults);
    chip.start_recording();
    let mut states = vec![chip.clone()];
    for step in 0..60u32 {
        chip.mark(u64::from(step));
        let block = step % 3;
        let outcome = match step / 3 % 10 {
            9 => chip.erase(Pbn(block), CAUSE),
            page => program(&mut chip, block * 8 + page % 8, step as u8),
        };
        if matches!(outcome, Ok(()) | Err(NandError::ProgramFailed(_) | NandError::EraseFailed(_))) {
            states.push(chip.clone());
        }
    }
    chip.mark_bad(Pbn(1)).unwrap();
    states.push(chip.clone());
    let recording = chip.take_recording();
    assert_eq!(recording.operations.len(), states.len() - 1);
    assert!(recording.operations.is_sorted_by_key(|recorded| recorded.mark));
    assert!(recording.operations.iter().any(|recorded| recorded.torn.is_some()));
    let mut rebuilt = self::chip();
    for (number, recorded) in recording.operations.iter().enumerate() {
        same_contents(&mut rebuilt.clone(), &mut states[number]);
        rebuilt.replay(recorded).unwrap();
        assert_eq!(rebuilt.operations(), number as u64 + 1);
    }
    same_contents(&mut rebuilt, &mut chip);
    assert_eq!(rebuilt.time(), Nanos(0));
}

fn same_contents(one: &mut SimChip, other: &mut SimChip) {
    assert_eq!(one.wear(), other.wear());
    assert_eq!(one.bad, other.bad);
    for ppn in 0..128 {
        assert_eq!(read(one, ppn), read(other, ppn), "ppn {ppn}");
        let mut tries = [&*one, &*other].map(SimChip::clone);
        let [a, b] = tries.each_mut().map(|chip| chip.program(Ppn(ppn), Cause::Check, &[], &[]));
        assert_eq!(a, b, "ppn {ppn}");
    }
}

/// Reads of n pages of a block on c channels take the time of ceil(n / c), programs likewise.
#[test]
fn a_batch_takes_as_long_as_its_busiest_channel() {
    let mut part = part();
    part.geometry = Geometry::new(512, 16, 16, 8);
    let (read, program) = (part.page_read_ns(), part.page_program_ns());
    for channels in [1, 2, 4, 8, 16] {
        part.geometry.channels = channels;
        let mut chip = SimChip::new(&part).unwrap();
        for n in 1..=16 {
            let mut timed = |work: &mut dyn FnMut(&mut SimChip, Ppn)| {
                let before = chip.time().0;
                chip.begin_batch();
                (0..n).for_each(|page| work(&mut chip, Ppn(page)));
                chip.end_batch();
                chip.time().0 - before
            };
            let rounds = u64::from(n.div_ceil(channels));
            let programs =
                timed(&mut |chip, ppn| chip.program(ppn, Cause::Host, &[1; 512], &[0; 16]).unwrap());
            let reads = timed(&mut |chip, ppn| {
                chip.read(ppn, Cause::Host, &mut [0; 512], &mut [0; 16]).unwrap();
            });
            assert_eq!((programs, reads), (rounds * program, rounds * read), "{n} on {channels}");
            chip.erase(Pbn(0), Cause::Host).unwrap();
        }
        let counters = chip.counters();
        assert_eq!((counters.page_reads_total(), counters.page_programs_total()), (136, 136));
        assert_eq!(SimChip::from_image(&chip.to_image()).unwrap().geometry(), part.geometry);
    }
}

#[test]
fn batches_nest_and_an_erase_concerns_every_channel() {
    let mut part = part();
    part.geometry = Geometry { channels: 4, ..Geometry::new(512, 16, 16, 8) };
    let mut chip = SimChip::new(&part).unwrap();
    chip.begin_batch();
    chip.begin_batch();
    chip.program(Ppn(0), Cause::Host, &[1; 512], &[]).unwrap();
    chip.end_batch();
    assert_eq!(chip.time().0, 0, "the outermost counts");
    chip.erase(Pbn(1), Cause::Host).unwrap();
    chip.program(Ppn(1), Cause::Check, &[1; 512], &[]).unwrap();
    chip.end_batch();
    assert_eq!(chip.time().0, part.page_program_ns() + part.timing.erase_ns);
    chip.read(Ppn(0), Cause::Host, &mut [], &mut []).unwrap();
    assert_eq!(chip.time().0, part.page_program_ns() + part.timing.erase_ns + part.timing.read_ns);
}

#[test]
fn a_torn_program_destroys_the_page_that_shares_its_cells() {
    let part = Part { pairing: Pairing::Three, ..part() };
    for (torn, seed) in [(0, 1), (1, 2), (2, 3), (3, 4), (0, 5), (2, 6)] {
        for page in 0..8 {
            let mut chip = SimChip::new(&part).unwrap();
            (0..page).for_each(|page| program(&mut chip, page, 1).unwrap());
            let torn = TornModel::ALL[torn];
            chip.plan_power_cut(PowerCut { at_operation: page.into(), when: CutWhen::Inside, torn, seed });
            assert_eq!(program(&mut chip, page, 2), Err(NandError::PowerLost));
            chip.power_on();
            let lower = Pairing::Three.lower_of(page, 8);
            for other in 0..page {
                assert_eq!(read(&mut chip, other) == full(1), Some(other) != lower, "{page}: {other}");
            }
        }
    }
}
