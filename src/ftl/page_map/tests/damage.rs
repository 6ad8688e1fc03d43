//! Every page in turn, and every block, damaged in every way: after cuts anywhere and after a clean end.

use super::*;
use crate::nand::damaged::{Damage, Damaged};
use alloc::borrow::ToOwned;
use alloc::collections::BTreeSet;
use alloc::string::String;

/// A chip after some operations, and what its pages may hold.
struct Aged {
    chip: SimChip,
    /// The chip some operations earlier.
    earlier: SimChip,
    /// What each logical page may read as.
    allowed: Vec<BTreeSet<u64>>,
    /// What each ever was.
    ever: Vec<BTreeSet<u64>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Closed,
    Synced,
    Cut,
}

fn aged(seed: u64, end: End, settings: FtlSettings) -> Aged {
    let mut rng = Rng::new(seed);
    let mut ftl = PageMapFtl::format(chip(small()), settings).unwrap();
    let mut model = Model::new(ftl.page_count());
    let mut ever = vec![BTreeSet::from([0]); model.pages.len()];
    let ops = 150 + rng.below(200);
    let mut earlier = ftl.nand().clone();
    let mut before = model.clone();
    if end == End::Cut {
        let at_operation = ftl.nand().operations() + 150 + rng.below(250);
        let torn = TornModel::ALL[seed as usize % 4];
        ftl.nand_mut().plan_power_cut(PowerCut { at_operation, when: CutWhen::Inside, torn, seed });
    }
    for step in 0..if end == End::Cut { 100_000 } else { ops } {
        if step % 64 == 63 {
            earlier = ftl.nand().clone();
        }
        let op = random_op(&mut rng, ftl.page_count(), 4);
        before = model.clone();
        let done = apply(&mut ftl, &mut model, &op);
        for (lpn, &tag) in model.pages.iter().enumerate() {
            ever[lpn].insert(tag);
        }
        match done {
            Ok(()) => {}
            Err(StoreError::Nand(NandError::PowerLost)) => break,
            Err(error) => panic!("{error:?}"),
        }
    }
    let mut chip = match end {
        End::Closed => {
            before = model.clone();
            model.trimmed.clear();
            before.trimmed.clear();
            ftl.close().unwrap()
        }
        End::Synced => {
            ftl.sync().unwrap();
            model.trimmed.clear();
            before = model.clone();
            ftl.into_nand()
        }
        End::Cut => ftl.into_nand(),
    };
    chip.power_on();
    let allowed = (0..model.pages.len()).map(|lpn| {
        let of = |m: &Model| [Some(m.pages[lpn]), m.trimmed.get(&(lpn as u32)).copied()];
        of(&before).into_iter().chain(of(&model)).flatten().collect()
    });
    Aged { allowed: allowed.collect(), ever, earlier, chip }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Right,
    Noticed,
    Refused,
    Older,
    Zeros,
    Wrong,
}

fn outcome(aged: &Aged, damaged: Damaged, settings: FtlSettings) -> (Outcome, String) {
    let mut ftl = match PageMapFtl::mount(damaged, settings) {
        Ok(ftl) => ftl,
        Err(StoreError::Corrupted { .. } | StoreError::NotFormatted(_)) => {
            return (Outcome::Refused, String::new());
        }
        Err(error) => panic!("{error:?}"),
    };
    let (mut worst, mut note) = (Outcome::Right, String::new());
    let mut data = vec![0; 64];
    for lpn in 0..ftl.page_count() {
        let found = match ftl.read(Lpn(lpn), Cause::Host, &mut data) {
            Err(StoreError::Corrupted { .. }) => Outcome::Noticed,
            Err(error) => panic!("{error:?}"),
            Ok(()) => {
                let tag = u64::from_le_bytes(data[..8].try_into().unwrap());
                let is_known = data == page(tag, 64) && aged.ever[lpn as usize].contains(&tag);
                match () {
                    () if is_known && aged.allowed[lpn as usize].contains(&tag) => Outcome::Right,
                    () if is_known && tag == 0 => Outcome::Zeros,
                    () if is_known => Outcome::Older,
                    () => Outcome::Wrong,
                }
            }
        };
        if found > worst {
            note = format!("lpn {lpn}: {:?} allowed", aged.allowed[lpn as usize]);
        }
        worst = worst.max(found);
    }
    (worst, note)
}

#[test]
fn damage_explore() {
    let mut counts: BTreeMap<String, BTreeMap<Outcome, u32>> = BTreeMap::new();
    for seed in 0..24 {
        for end in [End::Closed, End::Synced, End::Cut] {
            let settings = variant(seed / 2);
            let aged = aged(seed, end, settings);
            let sound = PageMapFtl::mount(aged.chip.clone(), settings).unwrap();
            let pages = small().pages();
            let mut rng = Rng::new(seed);
            for ppn in (0..pages).map(Ppn) {
                let state = sound.blocks().state(small().block_of(ppn));
                let role = match () {
                    () if state == BlockState::Reserved => "reserved",
                    () if sound.blocks().is_valid(ppn) => "valid",
                    () => "stale",
                };
                let other = Ppn(rng.below(u64::from(pages)) as u32);
                let mut kinds = Damage::OF_BYTES.to_vec();
                kinds.extend([Damage::Exchanged(other), Damage::CopyOf(other)]);
                let mut cases = Vec::new();
                for kind in kinds {
                    let mut damaged = Damaged::new(aged.chip.clone());
                    damaged.damage(ppn, kind, seed);
                    let name = format!("{kind:?}");
                    cases.push((damaged, name.split('(').next().unwrap().to_owned()));
                }
                let mut damaged = Damaged::new(aged.chip.clone());
                let older = Damaged::new(aged.earlier.clone()).raw(ppn);
                damaged.put(ppn, older);
                cases.push((damaged, "Earlier".to_owned()));
                for (damaged, name) in cases {
                    let (found, note) = outcome(&aged, damaged, settings);
                    if found >= Outcome::Older && std::env::var("SHOW").is_ok() {
                        std::println!(
                            "{seed} {end:?} {} {name} {ppn} {role}: {found:?} {note}",
                            settings.separation.name()
                        );
                    }
                    *counts.entry(format!("{end:?} {role} {name}")).or_default().entry(found).or_default() +=
                        1;
                }
            }
            for pbn in (0..small().blocks).map(crate::units::Pbn) {
                for kind in Damage::OF_BYTES {
                    let mut damaged = Damaged::new(aged.chip.clone());
                    damaged.damage_block(pbn, kind, seed);
                    let (found, note) = outcome(&aged, damaged, settings);
                    let reserved = sound.blocks().state(pbn) == BlockState::Reserved;
                    if found >= Outcome::Older && std::env::var("SHOW").is_ok() {
                        std::println!(
                            "{seed} {end:?} {} {kind:?} {pbn} reserved {reserved}: {found:?} {note}",
                            settings.separation.name()
                        );
                    }
                    *counts
                        .entry(format!("{end:?} block reserved={reserved} {kind:?}"))
                        .or_default()
                        .entry(found)
                        .or_default() += 1;
                }
            }
        }
    }
    for (what, outcomes) in counts {
        std::println!("{what}: {outcomes:?}");
    }
}
