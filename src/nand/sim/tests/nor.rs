//! The rules of NOR: pages are overwritten any number of times, by programs that clear bits only; torn ones
//! clear some of them.

use super::super::*;
use crate::nand::catalogue::nor_2m;
use proptest::prelude::*;

const CAUSE: Cause = Cause::Host;
const PAGE: usize = 64;
const SPARE: usize = 16;

fn part() -> Part {
    let mut part = nor_2m().with_blocks(4);
    (part.geometry.page_bytes, part.geometry.spare_bytes) = (PAGE as u32, SPARE as u32);
    part.geometry.pages_per_block = 4;
    part
}

fn chip() -> SimChip {
    SimChip::new(&part()).unwrap()
}

/// A page with its spare area.
fn look(chip: &mut SimChip, ppn: u32) -> Vec<u8> {
    let (mut data, mut spare) = (vec![0; PAGE], vec![0; SPARE]);
    chip.read(Ppn(ppn), Cause::Check, &mut data, &mut spare).unwrap();
    [data, spare].concat()
}

#[test]
fn the_part_of_the_catalogue_overwrites_in_any_order() {
    let geometry = nor_2m().geometry;
    assert!(geometry.overwrites() && geometry.random_order);
    assert_eq!(geometry.programs_per_page_max, Geometry::ANY_PROGRAMS);
    assert!(geometry.validate().is_ok() && nor_2m().validate().is_ok());
    let limited = |programs_per_page_max| Geometry { programs_per_page_max, ..geometry };
    assert!(!limited(255).overwrites() && limited(255).validate().is_ok());
    for programs in [0, 256, u32::MAX - 1] {
        let error = limited(programs).validate().unwrap_err();
        assert_eq!((error.field, error.value), ("programs_per_page_max", u64::from(programs)));
    }
}

#[test]
fn a_page_takes_more_programs_than_any_counter_of_partial_programs_holds() {
    let mut chip = chip();
    let mut expected = vec![0xff; PAGE + SPARE];
    for program in 0..1000 {
        let (byte, bit) = (program / 8 % PAGE, program % 8);
        expected[byte] &= !(1 << bit);
        chip.program(Ppn(1), CAUSE, &expected[..PAGE], &[]).unwrap();
        assert_eq!(look(&mut chip, 1), expected);
    }
    assert_eq!(chip.counters().page_programs_total(), 1000);
    // A page below it, and an image of so well used a chip.
    chip.program(Ppn(0), CAUSE, &[0; PAGE], &[]).unwrap();
    let mut loaded = SimChip::from_image(&chip.to_image()).unwrap();
    assert!(loaded.geometry().overwrites());
    assert_eq!(look(&mut loaded, 1), expected);
    loaded.program(Ppn(1), CAUSE, &[], &[0; SPARE]).unwrap();
    assert!(!loaded.is_erased(Ppn(1)) && loaded.is_erased(Ppn(2)));
    loaded.erase(Pbn(0), CAUSE).unwrap();
    assert_eq!(look(&mut loaded, 1), [0xff; PAGE + SPARE]);
    loaded.program(Ppn(1), CAUSE, &[0x5a; PAGE], &[]).unwrap();
}

#[test]
fn a_program_that_would_set_bits_is_refused_with_page_and_byte_and_costs_nothing() {
    let mut chip = chip();
    chip.program(Ppn(5), CAUSE, &[0xf0; PAGE], &[0x0f; 3]).unwrap();
    let before = (look(&mut chip, 5), chip.time(), chip.energy_pj(), chip.operations(), chip.counters());
    let mut data = [0xf0; PAGE];
    data[9] = 0xf1;
    data[20] = 0x01;
    let refused =
        |chip: &mut SimChip, data: &[u8], spare: &[u8]| chip.program(Ppn(5), CAUSE, data, spare).unwrap_err();
    let error = refused(&mut chip, &data, &[]);
    assert_eq!(error, NandError::SetsBits { page: Ppn(5), byte: 9 });
    let text = alloc::format!("{error}");
    assert!(text.contains("ppn 5") && text.contains("byte 9"), "{text}");
    let in_spare = refused(&mut chip, &[0xf0; PAGE], &[0x0f, 0x1f]);
    assert_eq!(in_spare, NandError::SetsBits { page: Ppn(5), byte: 65 });
    // A replay is held to the same rule.
    let op = PhysicalOp::Program { ppn: Ppn(5), data: data.into(), spare: [].into() };
    assert_eq!(chip.apply(&op), Err(NandError::SetsBits { page: Ppn(5), byte: 9 }));
    let after = (look(&mut chip, 5), chip.time(), chip.energy_pj(), chip.operations(), chip.counters());
    assert_eq!(before, after);
    // Bytes of 0xFF are left as they are, and so is what is not given.
    data[9] = 0xff;
    data[20] = 0x00;
    chip.program(Ppn(5), CAUSE, &data[..21], &[]).unwrap();
    let page = look(&mut chip, 5);
    assert_eq!((page[8], page[9], page[20], page[21], page[64]), (0xf0, 0xf0, 0x00, 0xf0, 0x0f));
    // On a part that does not overwrite, a partial program goes on top of the bits that are there.
    let mut nand = part();
    nand.geometry.programs_per_page_max = 255;
    let mut nand = SimChip::new(&nand).unwrap();
    nand.program(Ppn(5), CAUSE, &[0xf0], &[]).unwrap();
    nand.program(Ppn(5), CAUSE, &[0x0f], &[]).unwrap();
    assert_eq!(look(&mut nand, 5)[0], 0);
}

/// Remains of overwriting `old` by `new` when the power is cut meanwhile, for many seeds.
fn torn_overwrites(torn: TornModel) -> (Vec<u8>, Vec<u8>, Vec<Vec<u8>>) {
    let mut chip = chip();
    chip.program(Ppn(0), CAUSE, &[0x3f; PAGE], &[0xfe; SPARE]).unwrap();
    let old = look(&mut chip, 0);
    let (data, spare) = ([0x0c; PAGE], [0x7e; SPARE]);
    let left = (0..200).map(|seed| {
        let mut chip = chip.clone();
        chip.plan_power_cut(PowerCut { at_operation: 1, when: CutWhen::Inside, torn, seed });
        assert_eq!(chip.program(Ppn(0), CAUSE, &data, &spare), Err(NandError::PowerLost));
        chip.power_on();
        let left = look(&mut chip, 0);
        // It is repeated, and then it is done.
        chip.program(Ppn(0), CAUSE, &data, &spare).unwrap();
        assert_eq!(look(&mut chip, 0), [&data[..], &spare].concat());
        left
    });
    let left = left.collect();
    (old, [&data[..], &spare].concat(), left)
}

#[test]
fn a_torn_overwrite_clears_some_of_the_bits_to_clear_and_no_other() {
    for torn in TornModel::ALL {
        let (old, new, left) = torn_overwrites(torn);
        let (mut untouched, mut partly) = (0, 0);
        for left in left {
            for ((old, new), left) in old.iter().zip(&new).zip(&left) {
                assert!(old & left == *left, "{torn:?} sets bits: {old:02x} {left:02x}");
                assert!(left & new == *new, "{torn:?} clears others: {new:02x} {left:02x}");
            }
            assert_ne!(left, new, "{torn:?} is not the whole");
            untouched += u32::from(left == old);
            partly += u32::from(left != old);
            if torn == TornModel::Prefix {
                let done = left.iter().zip(&new).take_while(|(left, new)| left == new).count();
                assert!(left[done..] == old[done..], "the rest is as before");
            }
        }
        match torn {
            TornModel::LooksErased => assert_eq!(partly, 0, "nothing has changed"),
            _ => assert!(partly > 150, "{torn:?}: {partly} and {untouched}"),
        }
    }
    // There is no code of its own that could call a page unreadable.
    assert_eq!(torn_overwrites(TornModel::Unreadable).2, torn_overwrites(TornModel::RandomBits).2);
}

#[test]
fn a_failed_overwrite_clears_some_of_the_bits_and_may_be_repeated() {
    let mut chip = chip();
    chip.program(Ppn(0), CAUSE, &[0x3f; PAGE], &[]).unwrap();
    chip.set_faults(Faults { seed: 8, program_failures_ppm: 1_000_000, ..Faults::default() });
    assert_eq!(chip.program(Ppn(0), CAUSE, &[0x0c; PAGE], &[]), Err(NandError::ProgramFailed(Ppn(0))));
    let left = look(&mut chip, 0);
    assert!(left[..PAGE].iter().all(|byte| byte & !0x3f == 0 && byte & 0x0c == 0x0c), "{left:02x?}");
    assert!(left[..PAGE].iter().any(|byte| *byte != 0x3f) && left[..PAGE].iter().any(|byte| *byte != 0x0c));
    chip.set_faults(Faults::default());
    chip.program(Ppn(0), CAUSE, &[0x0c; PAGE], &[]).unwrap();
    assert_eq!(look(&mut chip, 0)[..PAGE], [0x0c; PAGE]);
}

#[test]
fn a_torn_erase_sets_bits_only_and_has_to_be_repeated() {
    for torn in TornModel::ALL {
        let mut changed = 0;
        for seed in 0..40 {
            let mut chip = chip();
            for ppn in 4..7 {
                chip.program(Ppn(ppn), CAUSE, &[0x21; PAGE], &[0x21; SPARE]).unwrap();
                chip.program(Ppn(ppn), CAUSE, &[0x20; PAGE], &[]).unwrap();
            }
            let old: Vec<Vec<u8>> = (4..7).map(|ppn| look(&mut chip, ppn)).collect();
            chip.plan_power_cut(PowerCut { at_operation: 6, when: CutWhen::Inside, torn, seed });
            assert_eq!(chip.erase(Pbn(1), CAUSE), Err(NandError::PowerLost));
            chip.power_on();
            for (ppn, old) in (4..7).zip(&old) {
                let left = look(&mut chip, ppn);
                assert!(old.iter().zip(&left).all(|(old, left)| old & left == *old), "{torn:?}: {left:02x?}");
                changed += u32::from(left != *old);
            }
            for ppn in 4..8 {
                assert_eq!(chip.program(Ppn(ppn), CAUSE, &[0], &[]), Err(NandError::NotErased(Ppn(ppn))));
            }
            chip.program(Ppn(3), CAUSE, &[0], &[]).unwrap();
            chip.erase(Pbn(1), CAUSE).unwrap();
            assert_eq!(look(&mut chip, 4), [0xff; PAGE + SPARE]);
            chip.program(Ppn(7), CAUSE, &[0], &[]).unwrap();
        }
        assert!(changed >= 40, "{torn:?}: {changed}");
    }
}

/// An operation of the comparison with plain bytes: its kind, its offset, and its bytes.
type Op = (u8, u32, Vec<u8>);

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let bytes = prop::collection::vec(any::<u8>(), 0..=PAGE + SPARE);
    prop::collection::vec((0u8..20, 0u32..16, bytes), 1..120)
}

proptest! {
    #![proptest_config(crate::inputs::fixed(96))]

    /// The chip is bytes on which programs are an exclusion of bits: refused, whole or torn.
    #[test]
    fn the_chip_is_an_array_of_bytes_that_lose_bits(ops in ops()) {
        let mut chip = chip();
        let mut model = vec![vec![0xff; PAGE + SPARE]; 16];
        for (number, (kind, ppn, bytes)) in ops.into_iter().enumerate() {
            let place = ppn as usize;
            if kind == 0 {
                chip.erase(Pbn(ppn / 4), CAUSE).unwrap();
                model[place / 4 * 4..place / 4 * 4 + 4].fill(vec![0xff; PAGE + SPARE]);
                continue;
            }
            if kind == 1 {
                chip = SimChip::from_image(&chip.to_image()).unwrap();
                continue;
            }
            // Mostly what the page can take, else anything.
            let old = &model[place];
            let mut new = bytes;
            if kind < 16 {
                new.iter_mut().zip(old).for_each(|(new, old)| *new &= old);
            }
            let (data, spare) = new.split_at(new.len().min(PAGE));
            let set = new.iter().zip(old).position(|(new, old)| *new != 0xff && new & !old != 0);
            let whole: Vec<u8> = old.iter().enumerate().map(|(i, old)| old & new.get(i).unwrap_or(&0xff)).collect();
            if let Some(byte) = set {
                let refused = NandError::SetsBits { page: Ppn(ppn), byte: byte as u32 };
                prop_assert_eq!(chip.program(Ppn(ppn), CAUSE, data, spare), Err(refused));
            } else if kind % 4 == 3 {
                let torn = TornModel::ALL[number % 4];
                let op = PhysicalOp::Program { ppn: Ppn(ppn), data: data.into(), spare: spare.into() };
                chip.apply_torn(&op, torn, number as u64).unwrap();
                let left = look(&mut chip, ppn);
                for ((old, whole), left) in old.iter().zip(&whole).zip(&left) {
                    prop_assert!(old & left == *left && left & whole == *whole, "{:?}", torn);
                }
                model[place] = left;
            } else {
                chip.program(Ppn(ppn), CAUSE, data, spare).unwrap();
                model[place] = whole;
            }
            prop_assert_eq!(&look(&mut chip, ppn), &model[place]);
        }
        for (ppn, page) in (0..).zip(&model) {
            prop_assert_eq!(&look(&mut chip, ppn), page);
        }
    }
}
