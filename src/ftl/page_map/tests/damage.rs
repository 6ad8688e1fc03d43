//! Every page in turn, and every block, damaged in every way: after cuts anywhere and after a clean end.

use super::*;
use crate::blocks::spare::Header;
use crate::testing::damaged::{Damage, damage, damage_block, set_back};
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;

/// A chip after some operations, and the contents that its pages may have.
struct Aged {
    chip: SimChip,
    /// The chip some operations earlier.
    earlier: SimChip,
    /// The values that each logical page may read as.
    allowed: Vec<BTreeSet<u64>>,
    model: Model,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Closed,
    Synced,
    Cut,
}

fn aged(seed: u64, end: End, settings: FtlConfig) -> Aged {
    let mut rng = Rng::new(seed);
    let mut ftl = PageMapFtl::format(chip(small()), &settings).unwrap();
    let mut model = model_of(&ftl);
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
        match apply(&mut ftl, &mut model, &op) {
            Ok(()) => {}
            Err(StoreError::Nand(NandError::PowerLost)) => break,
            Err(error) => panic!("{error:?}"),
        }
    }
    let mut chip = match end {
        End::Closed => {
            before = model.clone();
            model.settle();
            before.settle();
            ftl.close().unwrap()
        }
        End::Synced => {
            ftl.sync().unwrap();
            model.settle();
            before = model.clone();
            ftl.into_nand()
        }
        End::Cut => ftl.into_nand(),
    };
    chip.power_on();
    let allowed = (0..model.pages.len()).map(|lpn| {
        let of = |m: &Model| m.allowed(lpn as u32);
        of(&before).into_iter().chain(of(&model)).collect()
    });
    Aged { allowed: allowed.collect(), model, earlier, chip }
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

fn outcome(aged: &Aged, damaged: SimChip, settings: FtlConfig) -> (Outcome, String) {
    let mut ftl = match PageMapFtl::mount(damaged, &settings) {
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
            Ok(()) => match tag_of(&data).filter(|&tag| aged.model.was_ever(lpn, tag)) {
                Some(tag) if aged.allowed[lpn as usize].contains(&tag) => Outcome::Right,
                Some(0) => Outcome::Zeros,
                Some(_) => Outcome::Older,
                None => Outcome::Wrong,
            },
        };
        if found > worst {
            note = format!("lpn {lpn}: {:?} allowed", aged.allowed[lpn as usize]);
        }
        worst = worst.max(found);
    }
    (worst, note)
}

/// The meaning of a page to the sound store, as far as the loss of it may go unnoticed.
struct Role {
    /// A checkpoint or an anchor.
    is_reserved: bool,
    /// A page of the last group is lost with it: that looks like an earlier cut.
    looks_like_a_cut: bool,
}

/// The role of each page. `whole`: all pages of its block are damaged with it.
fn roles(aged: &Aged, settings: FtlConfig, whole: bool) -> Vec<Role> {
    let mut ftl = PageMapFtl::mount(aged.chip.clone(), &settings).unwrap();
    let g = small();
    let mut data = vec![0; 64];
    let headers: Vec<Option<Header>> = (0..g.pages())
        .map(|ppn| match read_told_page(&mut ftl.nand, Ppn(ppn), Cause::Check, &mut data).unwrap().0 {
            Found::Page(header, _) => Some(header),
            _ => None,
        })
        .collect();
    let is_end = |h: &&Header| h.kind == PageKind::Host || h.kind == PageKind::Copy;
    let mut ends: Vec<u64> = headers.iter().flatten().filter(is_end).map(|h| h.version).collect();
    ends.sort_unstable();
    ends.dedup();
    let before_last = ends.iter().rev().nth(1).copied().unwrap_or(0);
    let role = |ppn: Ppn| {
        let pbn = g.block_of(ppn);
        let in_last_group = |at: Ppn| headers[at.index()].is_some_and(|h| h.version > before_last);
        let together = (0..g.pages_per_block).map(|page| g.page_at(pbn, page));
        Role {
            is_reserved: ftl.blocks().state(pbn) == BlockState::Reserved,
            looks_like_a_cut: in_last_group(ppn) || whole && together.clone().any(in_last_group),
        }
    };
    (0..g.pages()).map(|ppn| role(Ppn(ppn))).collect()
}

/// True if a damage may have this outcome; otherwise the test has found a fault.
fn is_allowed(end: End, found: Outcome, role: &Role) -> bool {
    match found {
        Outcome::Right | Outcome::Noticed | Outcome::Refused => true,
        // The record before is taken, and trims since may come back.
        Outcome::Older => end != End::Closed && (role.is_reserved || role.looks_like_a_cut),
        Outcome::Zeros => end != End::Closed && role.looks_like_a_cut,
        Outcome::Wrong => false,
    }
}

/// The damages of one page: of its bytes, and by bytes of another page or another time.
fn damages(aged: &Aged, ppn: Ppn, other: Ppn) -> Vec<(String, SimChip)> {
    let with = |kind: Damage| {
        let mut damaged = aged.chip.clone();
        damage(&mut damaged, ppn, kind, 7);
        (format!("{kind:?}"), damaged)
    };
    let kinds = Damage::OF_BYTES.into_iter().chain([Damage::Exchanged(other), Damage::CopyOf(other)]);
    let mut all: Vec<(String, SimChip)> = kinds.map(with).collect();
    let mut damaged = aged.chip.clone();
    set_back(&mut damaged, &aged.earlier, ppn);
    all.push((String::from("as it was earlier"), damaged));
    all
}

#[test]
fn damage_is_noticed_or_documented() {
    let (mut tried, mut unexpected) = (0, Vec::new());
    for seed in 0..sized(4, 12) {
        for end in [End::Closed, End::Synced, End::Cut] {
            let settings = variant(seed);
            let aged = aged(seed, end, settings);
            let mut rng = Rng::new(seed);
            let alone = roles(&aged, settings, false);
            for ppn in (0..small().pages()).map(Ppn) {
                let other = Ppn(rng.below(u64::from(small().pages())) as u32);
                for (name, damaged) in damages(&aged, ppn, other) {
                    let (found, note) = outcome(&aged, damaged, settings);
                    let mut fits = is_allowed(end, found, &alone[ppn.index()]);
                    if name.starts_with("Exchanged") {
                        fits |= is_allowed(end, found, &alone[other.index()]);
                    }
                    if !fits {
                        unexpected.push(format!("seed {seed} {end:?} {ppn} {name}: {found:?}: {note}"));
                    }
                    tried += 1;
                }
            }
            let together = roles(&aged, settings, true);
            for pbn in (0..small().blocks).map(crate::units::Pbn) {
                for kind in Damage::OF_BYTES {
                    let mut damaged = aged.chip.clone();
                    damage_block(&mut damaged, pbn, kind, seed);
                    let (found, note) = outcome(&aged, damaged, settings);
                    let role = &together[small().page_at(pbn, 0).index()];
                    if !is_allowed(end, found, role) {
                        unexpected.push(format!("seed {seed} {end:?} {pbn} {kind:?}: {found:?}: {note}"));
                    }
                    tried += 1;
                }
            }
        }
    }
    assert!(unexpected.is_empty(), "{} of {tried}: {unexpected:#?}", unexpected.len());
    assert!(tried > sized(6_000, 20_000), "{tried} damages");
}

/// Programs and erases fail more and more often, with cuts and mounts in between: at the end the store
/// refuses to write, now and after every mount, and every page reads.
#[test]
fn a_dying_chip_ends_read_only_and_complete() {
    for seed in 0..sized(6, 18) {
        let settings = variant(seed);
        let mut rng = Rng::new(seed);
        let mut ftl = PageMapFtl::format(chip(Geometry::new(64, 16, 4, 60)), &settings).unwrap();
        let mut model = model_of(&ftl);
        let mut refused = 0;
        for round in 0..400 {
            let rate = if refused > 0 && round % 3 == 0 { 0 } else { 500 * (1 + round) };
            let faults = Faults {
                seed: seed << 32 | u64::from(round),
                program_failures_ppm: rate,
                erase_failures_ppm: 2 * rate,
                read_failures_ppm: 2_000,
                ..Faults::default()
            };
            ftl.nand_mut().set_faults(faults);
            let at_operation = ftl.nand().operations() + rng.below(60);
            let torn = TornModel::ALL[round as usize % 4];
            ftl.nand_mut().plan_power_cut(PowerCut { at_operation, when: CutWhen::Inside, torn, seed });
            let mut before = model.clone();
            for _ in 0..20 {
                before = model.clone();
                let op = random_op(&mut rng, ftl.page_count(), ftl.atomic_pages_max() as u64);
                match apply(&mut ftl, &mut model, &op) {
                    Ok(()) => {}
                    Err(StoreError::WornOut) => {
                        model = before.clone();
                        refused += 1;
                    }
                    Err(StoreError::Nand(NandError::PowerLost)) => break,
                    Err(error) => panic!("seed {seed} round {round} {op:?}: {error:?}"),
                }
            }
            ftl.nand_mut().set_faults(Faults { read_failures_ppm: 2_000, ..faults });
            ftl = remount(ftl, &mut model, &before);
            if refused > 60 {
                break;
            }
        }
        assert!(refused > 60, "seed {seed}: {refused} writes refused");
    }
}

/// Occasional wrong reads lose nothing, and the pages are rewritten.
#[test]
fn transient_read_errors_lose_nothing() {
    for seed in 0..sized(4, 12) {
        let settings = variant(seed);
        let mut rng = Rng::new(seed);
        let mut ftl = PageMapFtl::format(chip(small()), &settings).unwrap();
        let mut model = model_of(&ftl);
        let faults = Faults { seed, read_failures_ppm: 5_000, ..Faults::default() };
        ftl.nand_mut().set_faults(faults);
        let mut data = vec![0; 64];
        for step in 0..3000 {
            let op = random_op(&mut rng, ftl.page_count(), ftl.atomic_pages_max() as u64);
            let before = model.clone();
            apply(&mut ftl, &mut model, &op).unwrap();
            let lpn = rng.below(u64::from(ftl.page_count())) as u32;
            ftl.read(Lpn(lpn), Cause::Host, &mut data).unwrap();
            assert_eq!(data, page(model.pages[lpn as usize], 64), "lpn {lpn}");
            if step % 100 == 99 {
                ftl = remount(ftl, &mut model, &before);
            }
        }
        assert_eq!(ftl.counters().lost_pages, 0);
    }
}
