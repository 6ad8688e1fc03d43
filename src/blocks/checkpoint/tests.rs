//! The newest checkpoint is found after every cut and every failure.

use super::*;
use crate::nand::sim::{CutWhen, Faults, PowerCut, SimChip, TornModel};
use crate::nand::{NandError, Part, Timing};
use crate::rng::Rng;
use crate::testing::{Access, Chip};

const TIMING: Timing =
    Timing { read_ns: 60_000, program_ns: 800_000, erase_ns: 1_500_000, transfer_ps_per_byte: 25_000 };

fn chip(blocks: u32) -> SimChip {
    SimChip::new(&Part::new("test", Geometry::new(64, 16, 4, blocks), TIMING)).unwrap()
}

/// Payload number `n`: its length varies so that some take one page and some more than a block.
fn payload(n: u64) -> Vec<u8> {
    let mut rng = Rng::new(n);
    let mut bytes = vec![0; [20, 100, 300, 0][n as usize % 4]];
    rng.fill(&mut bytes);
    bytes.extend(n.to_le_bytes());
    bytes
}

fn format(chip: &mut SimChip) -> (CheckpointArea, BlockTable) {
    let mut blocks = BlockTable::new(chip.geometry());
    blocks.retire_marked(chip).unwrap();
    let area = CheckpointArea::format(chip, &mut blocks).unwrap();
    (area, blocks)
}

/// Mounts, and takes every other block for free.
fn mount(chip: &mut SimChip) -> Option<(CheckpointArea, BlockTable, Vec<u8>)> {
    let (area, payload) = CheckpointArea::mount(chip).unwrap()?;
    let mut blocks = BlockTable::new(chip.geometry());
    blocks.retire_marked(chip).unwrap();
    blocks.reserve_exactly(&area.occupied()).unwrap();
    Some((area, blocks, payload))
}

/// Writes checkpoints `from..` until an error; the number of the first one not acknowledged.
fn write_some(
    chip: &mut SimChip,
    area: &mut CheckpointArea,
    blocks: &mut BlockTable,
    numbers: core::ops::Range<u64>,
) -> u64 {
    for n in numbers.clone() {
        match area.write(chip, blocks, &payload(n), &mut [0; 64]).map_err(StoreError::from) {
            Ok(()) => {}
            Err(StoreError::Nand(NandError::PowerLost)) => return n,
            Err(error) => panic!("checkpoint {n}: {error:?}"),
        }
    }
    numbers.end
}

fn number(bytes: &[u8]) -> u64 {
    let n = u64::from_le_bytes(bytes[bytes.len() - 8..].try_into().unwrap());
    assert_eq!(bytes, payload(n));
    n
}

#[test]
fn more_lost_pages_than_one_are_no_cut() {
    let mut refused = 0;
    for count in 1..40 {
        let mut chip = chip(12);
        let (mut area, mut blocks) = format(&mut chip);
        write_some(&mut chip, &mut area, &mut blocks, 0..count);
        let run: Vec<Ppn> = (0..area.run.used).map(|at| area.run.page_at(area.geometry, at)).collect();
        for from in 1..run.len().saturating_sub(1) {
            let lost = run[from..].to_vec();
            let mut damaged = Chip::new(chip.clone());
            damaged.on_access(move |_, access| {
                if let Access::Read(ppn, _, data, _) = access
                    && lost.contains(&ppn)
                {
                    data.iter_mut().for_each(|byte| *byte ^= 1);
                }
                Ok(())
            });
            let found = CheckpointArea::mount(&mut damaged).map_err(StoreError::from);
            assert!(matches!(found, Err(StoreError::Corrupted { .. })), "{count} {from}: {found:?}");
            refused += 1;
        }
    }
    assert!(refused > 20, "{refused}");
}

#[test]
fn the_newest_checkpoint_is_found_again() {
    let mut chip = chip(12);
    let (mut area, mut blocks) = format(&mut chip);
    assert!(mount(&mut chip).is_none());
    for n in 0..200 {
        area.write(&mut chip, &mut blocks, &payload(n), &mut [0; 64]).unwrap();
        let (other, _, found) = mount(&mut chip).unwrap();
        assert_eq!((number(&found), other.occupied()), (n, area.occupied()));
        if n % 7 == 3 {
            (area, blocks, _) = mount(&mut chip).unwrap();
        }
    }
}

#[test]
fn checkpoints_wear_all_blocks_evenly() {
    let mut chip = chip(12);
    let (mut area, mut blocks) = format(&mut chip);
    write_some(&mut chip, &mut area, &mut blocks, 0..500);
    let worn = &chip.wear()[2..];
    assert!(worn.iter().max().unwrap() - worn.iter().min().unwrap() <= 1, "{worn:?}");
}

#[test]
fn a_cut_at_any_operation_leaves_the_old_or_the_new_one() {
    for when in [CutWhen::Before, CutWhen::Inside, CutWhen::After] {
        for torn in TornModel::ALL {
            for first in 0..70 {
                cut_twice(first, when, torn);
            }
        }
    }
}

fn cut_twice(first: u64, when: CutWhen, torn: TornModel) {
    for second in [0, 1, 2, 3, 5, 8, 13] {
        let mut chip = chip(12);
        let (mut area, mut blocks) = format(&mut chip);
        let mut next = write_some(&mut chip, &mut area, &mut blocks, 0..1);
        for (i, wait) in [first, second, 1000].into_iter().enumerate() {
            let at_operation = chip.operations() + wait;
            chip.plan_power_cut(PowerCut { at_operation, when, torn, seed: first * 31 + second });
            let until = if i == 2 { next + 9 } else { 30 };
            next = write_some(&mut chip, &mut area, &mut blocks, next..until);
            chip.power_on();
            let found;
            (area, blocks, found) = mount(&mut chip).unwrap();
            let found = number(&found);
            assert!(found + 1 == next || found == next, "{found} found, {next} not acknowledged");
            next = found + 1;
        }
    }
}

#[test]
fn failing_blocks_are_replaced() {
    for seed in 0..40 {
        let faults =
            Faults { seed, program_failures_ppm: 20_000, erase_failures_ppm: 20_000, ..Faults::default() };
        let mut chip = chip(1024).with_faults(faults);
        let (mut area, mut blocks) = format(&mut chip);
        let mut written = None;
        for n in 0..100 {
            match area.write(&mut chip, &mut blocks, &payload(n), &mut [0; 64]) {
                Ok(()) => written = Some(n),
                Err(error) if error == StoreError::Full => break,
                Err(error) => panic!("{error:?}"),
            }
            if n % 5 == 4 {
                let found;
                (area, blocks, found) = mount(&mut chip).unwrap();
                assert_eq!(number(&found), n);
            }
        }
        let found = mount(&mut chip).map(|(_, _, found)| number(&found));
        assert!(found >= written && written >= Some(20), "seed {seed}: {found:?} {written:?}");
    }
}

#[test]
fn a_flipped_bit_never_yields_other_bytes() {
    let mut pristine = chip(12);
    let (mut area, mut blocks) = format(&mut pristine);
    write_some(&mut pristine, &mut area, &mut blocks, 0..40);
    for seed in 0..300 {
        let faults = Faults { seed, bit_errors_per_gigabit: 100_000, ..Faults::default() };
        let mut chip = pristine.clone().with_faults(faults);
        match CheckpointArea::mount(&mut chip).map_err(StoreError::from) {
            Ok(Some((_, bytes))) => assert!(number(&bytes) < 40),
            Ok(None) | Err(StoreError::Corrupted { .. }) => {}
            Err(error) => panic!("{error:?}"),
        }
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let mut chip = chip(12);
    let (mut area, mut blocks) = format(&mut chip);
    area.write(&mut chip, &mut blocks, &payload(1), &mut [0; 64]).unwrap();
    assert_eq!(
        area.write(&mut chip, &mut blocks, &vec![0; 64 * 4 * 10], &mut [0; 64]),
        Err(StoreError::Full.into())
    );
    assert_eq!(number(&mount(&mut chip).unwrap().2), 1);
    assert_eq!(blocks.free_count(), 9, "what was taken in vain is given back");
    area.write(&mut chip, &mut blocks, &payload(2), &mut [0; 64]).unwrap();
    assert_eq!(number(&mount(&mut chip).unwrap().2), 2);
    let huge = vec![0; 64 * 4 * 80];
    assert!(matches!(
        area.write(&mut chip, &mut blocks, &huge, &mut [0; 64]).map_err(StoreError::from),
        Err(StoreError::Unsupported(_))
    ));
}
