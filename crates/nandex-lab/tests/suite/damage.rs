//! Damaged chips: nothing panics, and no answer is wrong without saying so.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use crate::inputs::sized;
use nandex::Pbn;
use nandex::Shared;
use nandex::nand::sim::SimChip;
use nandex::ordered::{Direction, RecordFormat};
use nandex::rng::Rng;
use nandex_lab::parallel;
use nandex_lab::registry::{STORES, Stack, stacks};
use nandex_stacks::options::Settings;
use nandex_testkit::fuzz::{
    Contents, chip_image, contents, damaged, mount_everything, part, use_for_a_while,
};

fn settings() -> Settings {
    Settings::new(RecordFormat::new(8, 8))
}

/// Calls `work` with every stack, on all cores.
fn for_each_stack(work: impl Fn(Stack) + Sync) {
    let stacks: Vec<Stack> = stacks().collect();
    parallel::map(&stacks, parallel::cores(), |&stack| work(stack));
}

fn first() -> Stack {
    stacks().next().unwrap()
}

/// A chip with an index that was used and closed, and the contents of the index.
fn used_chip(stack: Stack, seed: u64) -> (SimChip, Contents) {
    let chip = Shared::new(SimChip::new(&stack.index.suited(part(1024, 16, 32))).unwrap());
    let mut index = (stack.index.format)(Box::new(chip.clone()), &stack.settings(settings())).unwrap();
    let model =
        use_for_a_while(&mut *index, stack.index, &mut Rng::new(seed), sized((900, 700), (1500, 700)))
            .unwrap();
    index.close().unwrap();
    let chip = chip.lock().clone();
    (chip, model)
}

/// Number of trials: `all` on the first FTL, fewer on others, since faults of the index show on one FTL and
/// faults of an FTL below any index.
fn trials(stack: Stack, all: usize) -> usize {
    if stack.ftl.is_none_or(|ftl| ftl.name == STORES[0].name) { all } else { (all / 6).max(1) }
}

#[derive(Debug, Default)]
struct Found {
    right: u32,
    refused: u32,
    wrong: Vec<String>,
}

/// Reads everything from a damaged chip and compares it.
fn read_all(stack: Stack, chip: &SimChip, model: &Contents, what: &str, found: &mut Found) {
    let Ok(mut index) = (stack.index.mount)(Box::new(chip.clone()), &stack.settings(settings())) else {
        found.refused += 1;
        return;
    };
    let _ = index.check();
    let mut whole = true;
    for key in (0..700u64).map(u64::to_be_bytes) {
        let mut value = [0; 8];
        match index.get(&key, &mut value) {
            Ok(there) if there.then_some(&value[..]) == model.get(&key[..]).map(Vec::as_slice) => {}
            Ok(_) => return found.wrong.push(format!("{}: get after {what}", stack.name())),
            Err(_) => whole = false,
        }
    }
    for direction in [Direction::Ascending, Direction::Descending] {
        match contents(&mut *index, direction) {
            Ok(all) if all.iter().cloned().collect::<Contents>() == *model => {}
            Ok(_) => return found.wrong.push(format!("{}: range after {what}", stack.name())),
            Err(_) => whole = false,
        }
    }
    if whole { found.right += 1 } else { found.refused += 1 }
}

#[test]
fn flipped_bits_are_never_returned_as_data() {
    for_each_stack(|stack| {
        let (chip, model) = used_chip(stack, 1);
        let (mut rng, mut found) = (Rng::new(2), Found::default());
        let mut pages: Vec<(Pbn, u32)> = Vec::new();
        damaged(&chip, |pbn, page, _| pages.push((pbn, page)));
        // All over the chip: where an index holds few pages, chance would rarely meet one.
        let trials_here = trials(stack, sized(15, 600));
        for trial in 0..trials_here {
            let target = pages[trial * pages.len() / trials_here];
            let flips = [1, 1, 3, 40][trial % 4];
            let harmed = damaged(&chip, |pbn, page, bytes| {
                if (pbn, page) == target {
                    for _ in 0..flips {
                        let bit = rng.below(bytes.len() as u64 * 8) as usize;
                        bytes[bit / 8] ^= 1 << (bit % 8);
                    }
                }
            });
            read_all(
                stack,
                &harmed,
                &model,
                &format!("{flips} flips in page {} of {}", target.1, target.0),
                &mut found,
            );
        }
        println!("{}: {found:?}", stack.name());
        assert!(found.wrong.is_empty(), "{}: {:?}", stack.name(), found.wrong);
        let (right, refused) = (trials_here as u32 / 12, trials_here as u32 / 120);
        assert!(found.right >= right && found.refused >= refused, "{}: {found:?}", stack.name());
    });
}

#[test]
fn a_page_overwritten_by_another_is_noticed() {
    for_each_stack(|stack| {
        let (chip, model) = used_chip(stack, 3);
        let (mut rng, mut found) = (Rng::new(4), Found::default());
        let mut pages: Vec<Vec<u8>> = Vec::new();
        damaged(&chip, |_, _, bytes| pages.push(bytes.to_vec()));
        for _ in 0..trials(stack, sized(7, 150)) {
            let (target, source) = (rng.below(pages.len() as u64), rng.below(pages.len() as u64) as usize);
            let mut number = 0;
            let harmed = damaged(&chip, |_, _, bytes| {
                if number == target {
                    bytes.copy_from_slice(&pages[source]);
                }
                number += 1;
            });
            // A whole sound page in a wrong place may pass for an old version; it must not panic, and is
            // counted here.
            read_all(stack, &harmed, &model, &format!("page {target} overwritten"), &mut found);
        }
        println!("{}: {found:?}", stack.name());
    });
}

#[test]
fn damage_everywhere_panics_nowhere() {
    for_each_stack(|stack| {
        let (chip, _) = used_chip(stack, 5);
        for trial in 0..trials(stack, sized(3, 20)) {
            let mut rng = Rng::new(trial as u64);
            let share = 1 + rng.below(30);
            let harmed = damaged(&chip, |_, _, bytes| {
                if rng.chance(share, 100) {
                    let start = rng.below(bytes.len() as u64) as usize;
                    let length = 1 + rng.below(16) as usize;
                    bytes.iter_mut().skip(start).take(length).for_each(|byte| *byte = rng.next_u64() as u8);
                }
            });
            mount_everything(&harmed);
        }
    });
}

#[test]
fn bytes_of_any_kind_are_no_reason_to_panic() {
    let (chip, _) = used_chip(first(), 6);
    let image = chip.to_image();
    let mut rng = Rng::new(7);
    for trial in 0..2000 {
        let mut bytes = image.clone();
        for _ in 0..1 + trial % 5 {
            let at = rng.below(bytes.len() as u64) as usize;
            bytes[at] = rng.next_u64() as u8;
        }
        if trial % 7 == 0 {
            bytes.truncate(rng.below(bytes.len() as u64) as usize);
        }
        chip_image(&bytes);
    }
    chip_image(&[]);
}
