//! Page mapping after an unclean end, and after a clean one, on a chip of which a page or a whole block is
//! zeroed, erased, exchanged with another, or what it was earlier: each logical page reads right, or is an
//! error, or the mount is refused. Older it may be only where what was programmed last is struck, as after
//! an earlier cut.
#![allow(clippy::unwrap_used)]

use crate::inputs::sized;
use nandex::blocks::checkpoint::is_of_checkpoint;
use nandex::blocks::victim::VictimPolicy;
use nandex::blocks::wear::WearLevelling;
use nandex::ftl::page_map::{FtlConfig, PageMapFtl, Separation};
use nandex::nand::sim::{CutWhen, PowerCut, SimChip, TornModel};
use nandex::nand::{Part, Timing};
use nandex::rng::Rng;
use nandex::{Cause, Geometry, Lpn, Nand, NandError, PageStore, Ppn, StoreError};

const TIMING: Timing =
    Timing { read_ns: 60_000, program_ns: 800_000, erase_ns: 1_500_000, transfer_ps_per_byte: 25_000 };

const GEOMETRIES: [Geometry; 4] = [
    Geometry::new(64, 16, 4, 24),
    Geometry::new(128, 16, 8, 24),
    Geometry::new(256, 16, 2, 70),
    Geometry::new(512, 16, 16, 20),
];

/// The contents after each operation: what each logical page holds, and what it may hold again, as its trim
/// was not synced.
#[derive(Clone)]
struct State {
    tags: Vec<u64>,
    trimmed: Vec<u64>,
}

impl State {
    fn allows(&self, lpn: usize, tag: u64) -> bool {
        self.tags[lpn] == tag || (self.tags[lpn] == 0 && self.trimmed[lpn] == tag)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Cut,
    Stopped,
    Closed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Blow {
    Zeros,
    Ones,
    Unreadable,
    Exchanged,
    /// The contents of some operations before.
    Earlier,
    /// The contents of before the last program.
    Before,
}

const BLOWS: [Blow; 6] =
    [Blow::Zeros, Blow::Ones, Blow::Unreadable, Blow::Exchanged, Blow::Earlier, Blow::Before];

/// A chip at its end, with all that led there.
struct Life {
    chip: SimChip,
    earlier: SimChip,
    /// Contents of each page before its last program.
    before: Vec<Option<Vec<u8>>>,
    history: Vec<State>,
    /// The operation that programmed each page last.
    programmed: Vec<usize>,
    /// The last write but one: it may be the last one that is whole.
    last_written: usize,
    settings: FtlConfig,
}

fn fill(tag: u64, data: &mut [u8]) {
    data.fill(0);
    if tag != 0 {
        Rng::new(tag).fill(data);
        data[..8].copy_from_slice(&tag.to_le_bytes());
    }
}

fn settings(rng: &mut Rng) -> FtlConfig {
    let levellings = [WearLevelling::None, WearLevelling::Threshold { gap_erases: 2 }];
    FtlConfig {
        atomic_pages: 1 + rng.below(6) as u32,
        checkpoint_blocks: [None, Some(6), Some(20)][rng.below(3) as usize],
        separation: Separation::ALL[rng.below(3) as usize],
        victim: [VictimPolicy::Greedy, VictimPolicy::Fifo][rng.below(2) as usize],
        wear_levelling: levellings[rng.below(2) as usize],
        ..FtlConfig::default()
    }
}

fn step(
    ftl: &mut PageMapFtl<SimChip>,
    now: &mut State,
    rng: &mut Rng,
    next: &mut u64,
) -> Result<(), StoreError> {
    let pages = ftl.page_count();
    // Most writes go to a fifth of the pages.
    let lpn = |rng: &mut Rng| {
        let range = if rng.chance(3, 4) { pages.div_ceil(5) } else { pages };
        rng.below(range.into())
    };
    match rng.below(20) {
        0..=15 => {
            let most = ftl.atomic_pages_max() as u64;
            let count = if rng.chance(1, 3) { 1 + rng.below(most) } else { 1 };
            let mut group: Vec<u64> = (0..count).map(|_| lpn(rng)).collect();
            group.sort_unstable();
            group.dedup();
            let bytes = ftl.page_bytes();
            let data: Vec<Vec<u8>> = (0..group.len() as u64)
                .map(|i| {
                    let mut data = vec![0; bytes];
                    fill(*next + i, &mut data);
                    data
                })
                .collect();
            for &lpn in &group {
                (now.tags[lpn as usize], now.trimmed[lpn as usize]) = (*next, 0);
                *next += 1;
            }
            let group: Vec<(Lpn, &[u8])> =
                group.iter().zip(&data).map(|(&lpn, data)| (Lpn(lpn as u32), &data[..])).collect();
            ftl.write_atomic(&group, Cause::Host)
        }
        16 | 17 => {
            let lpn = lpn(rng) as usize;
            let old = std::mem::take(&mut now.tags[lpn]);
            if old != 0 {
                now.trimmed[lpn] = old;
            }
            ftl.trim(Lpn(lpn as u32))
        }
        18 => {
            ftl.sync()?;
            now.trimmed.fill(0);
            Ok(())
        }
        _ if rng.chance(1, 4) => {
            ftl.checkpoint()?;
            now.trimmed.fill(0);
            Ok(())
        }
        _ => ftl.maintain(30).map(drop),
    }
}

fn live(seed: u64, end: End) -> Life {
    let mut rng = Rng::new(seed);
    let settings = settings(&mut rng);
    let geometry = GEOMETRIES[seed as usize % 4];
    let chip = SimChip::new(&Part::new("test", geometry, TIMING)).unwrap();
    let mut ftl = PageMapFtl::format(chip, &settings).unwrap();
    let pages = ftl.page_count() as usize;
    let mut history = vec![State { tags: vec![0; pages], trimmed: vec![0; pages] }];
    let mut programmed = vec![0; geometry.pages() as usize];
    let mut stored: Vec<_> = (0..geometry.pages()).map(|ppn| ftl.nand().stored_page(Ppn(ppn))).collect();
    let mut earlier = ftl.nand().clone();
    let mut before = vec![None; stored.len()];
    let steps = 150 + rng.below(250) as usize;
    if end == End::Cut {
        let at_operation = ftl.nand().operations() + 100 + rng.below(400);
        let torn = TornModel::ALL[rng.below(4) as usize];
        ftl.nand_mut().plan_power_cut(PowerCut { at_operation, when: CutWhen::Inside, torn, seed });
    }
    let mut next = 1;
    for op in 1.. {
        let mut now = history.last().unwrap().clone();
        if op % 16 == 0 && op + 10 < steps {
            earlier = ftl.nand().clone();
        }
        let done = step(&mut ftl, &mut now, &mut rng, &mut next);
        history.push(now);
        for ppn in 0..geometry.pages() {
            let page = ftl.nand().stored_page(Ppn(ppn));
            if page != stored[ppn as usize] {
                before[ppn as usize] = stored[ppn as usize].take().or(before[ppn as usize].take());
                (stored[ppn as usize], programmed[ppn as usize]) = (page, op);
            }
        }
        match done {
            Ok(()) if end != End::Cut && op >= steps => break,
            Ok(()) => {}
            Err(StoreError::Nand(NandError::PowerLost)) => break,
            Err(error) => panic!("seed {seed}: {error:?}"),
        }
    }
    let mut chip = match end {
        End::Closed => {
            history.last_mut().unwrap().trimmed.fill(0);
            ftl.close().unwrap()
        }
        _ => ftl.into_nand(),
    };
    chip.power_on();
    let is_write = |op: &usize| history[*op].tags.iter().max() > history[*op - 1].tags.iter().max();
    let last_written = (1..history.len()).rev().filter(is_write).nth(1).unwrap_or(0);
    Life { chip, earlier, before, history, programmed, last_written, settings }
}

/// Strikes some pages; which ones were.
fn strike(life: &Life, pages: &[Ppn], others: &[Ppn], blow: Blow) -> (SimChip, Vec<Ppn>) {
    let (mut chip, mut struck) = (life.chip.clone(), Vec::new());
    for (&ppn, &other) in pages.iter().zip(others) {
        let Some(mut bytes) = chip.stored_page(ppn) else { continue };
        match blow {
            Blow::Zeros => bytes.fill(0),
            Blow::Ones => bytes.fill(0xff),
            Blow::Unreadable => {}
            Blow::Exchanged => {
                let Some(others) = chip.stored_page(other) else { continue };
                chip.damage_page(other, &bytes);
                struck.push(other);
                bytes = others;
            }
            Blow::Earlier => {
                let Some(before) = life.earlier.stored_page(ppn).filter(|before| *before != bytes) else {
                    continue;
                };
                bytes = before;
            }
            Blow::Before => match &life.before[ppn.index()] {
                Some(before) => bytes.clone_from(before),
                None => continue,
            },
        }
        if blow == Blow::Unreadable {
            chip.make_unreadable(ppn);
        } else {
            chip.damage_page(ppn, &bytes);
        }
        struck.push(ppn);
    }
    (chip, struck)
}

/// The pages that can be read after a mount; none where that is refused.
fn contents(chip: SimChip, settings: FtlConfig) -> Option<Vec<Option<u64>>> {
    let mut ftl = match PageMapFtl::mount(chip, &settings) {
        Ok(ftl) => ftl,
        Err(StoreError::Corrupted { .. } | StoreError::NotFormatted(_)) => return None,
        Err(error) => panic!("{error:?}"),
    };
    let (mut data, mut wanted) = (vec![0; ftl.page_bytes()], vec![0; ftl.page_bytes()]);
    let mut found = Vec::new();
    for lpn in 0..ftl.page_count() {
        found.push(match ftl.read(Lpn(lpn), Cause::Check, &mut data) {
            Ok(()) => {
                let tag = u64::from_le_bytes(data[..8].try_into().unwrap());
                fill(tag, &mut wanted);
                assert_eq!(data, wanted, "{lpn} was never written like this");
                Some(tag)
            }
            Err(StoreError::Corrupted { .. }) => None,
            Err(error) => panic!("{error:?}"),
        });
    }
    Some(found)
}

/// How many operations older the whole store may be than it was, with all that it reads; none where that is
/// no state that it ever had.
fn age(life: &Life, end: End, found: &[Option<u64>]) -> Option<usize> {
    let fits = |state: &&State| {
        found.iter().enumerate().all(|(lpn, tag)| tag.is_none_or(|tag| state.allows(lpn, tag)))
    };
    let ages = life.history.iter().rev().position(|state| fits(&state))?;
    // The operation that was cut happened or did not.
    Some(if end == End::Cut { ages.saturating_sub(1) } else { ages })
}

#[derive(Default, Debug)]
struct Tally {
    right: u32,
    refused: u32,
    newest: u32,
}

/// Judges a damage; what is wrong, if anything.
fn judge(life: &Life, end: End, chip: SimChip, struck: &[Ppn], tally: &mut Tally) -> Option<String> {
    let Some(found) = contents(chip, life.settings) else {
        tally.refused += 1;
        return None;
    };
    match age(life, end, &found) {
        Some(0) => {
            tally.right += 1;
            None
        }
        // As after an earlier cut, where that took what was programmed last.
        older
            if end != End::Closed
                && struck.iter().any(|ppn| life.programmed[ppn.index()] >= life.last_written) =>
        {
            tally.newest += 1;
            older.is_none().then(|| String::from("no state that it ever had"))
        }
        Some(age) => Some(format!("older by {age} operations")),
        None => Some(String::from("no state that it ever had")),
    }
}

fn run(seeds: std::ops::Range<u64>, by_block: bool, blows: &[Blow]) -> (Tally, Vec<String>) {
    let (mut tally, mut wrong) = (Tally::default(), Vec::new());
    for seed in seeds {
        for end in [End::Cut, End::Stopped, End::Closed] {
            let life = live(seed, end);
            let g = life.chip.geometry();
            assert_eq!(age(&life, end, &contents(life.chip.clone(), life.settings).unwrap()), Some(0));
            let mut rng = Rng::new(seed);
            let step = if by_block { g.pages_per_block } else { 1 };
            for first in (0..g.pages()).step_by(step as usize) {
                let pages: Vec<Ppn> = (first..first + step).map(Ppn).collect();
                let other = rng.below(u64::from(g.pages() / step)) as u32 * step;
                let others: Vec<Ppn> = (other..other + step).map(Ppn).collect();
                for &blow in blows {
                    let (chip, struck) = strike(&life, &pages, &others, blow);
                    if struck.is_empty() {
                        continue;
                    }
                    if let Some(what) = judge(&life, end, chip, &struck, &mut tally) {
                        wrong.push(format!(
                            "seed {seed} {end:?} page {first}, {step} pages, {blow:?}: {what}"
                        ));
                    }
                }
            }
        }
    }
    (tally, wrong)
}

#[test]
fn a_block_that_is_damaged_is_told_or_was_written_last() {
    let (tally, wrong) = run(0..sized(12, 100), true, &BLOWS);
    assert!(wrong.is_empty(), "{} of {tally:?}: {wrong:#?}", wrong.len());
    let few = sized(120, 1000);
    assert!(tally.right > few && tally.refused > few, "{tally:?}");
}

#[test]
fn a_page_that_is_damaged_is_told_or_was_written_last() {
    let (tally, wrong) = run(0..sized(5, 40), false, &BLOWS);
    assert!(wrong.is_empty(), "{} of {tally:?}: {wrong:#?}", wrong.len());
    let few = sized(120, 1000);
    assert!(tally.right > few && tally.refused > few, "{tally:?}");
}

/// The first page of a block may pass for what it was before the last erase, and hide the rest.
#[test]
fn a_page_that_is_what_it_was_hides_nothing_behind_it() {
    let (tally, wrong) = run(150..sized(164, 260), false, &[Blow::Earlier, Blow::Before]);
    assert!(wrong.is_empty(), "{} of {tally:?}: {wrong:#?}", wrong.len());
    let few = sized(120, 1000);
    assert!(tally.right > few && tally.refused > few, "{tally:?}");
}

/// Whether a block holds an anchor, a checkpoint or a note.
fn is_record(chip: &SimChip, pages: &[Ppn]) -> bool {
    let size = chip.geometry().page_bytes as usize;
    pages.iter().any(|&ppn| {
        chip.stored_page(ppn).is_some_and(|bytes| is_of_checkpoint(ppn, &bytes[..size], &bytes[size..]))
    })
}

/// Where no record is struck: with one of them gone, the other block may be the one that would miss it.
#[test]
fn two_blocks_that_are_damaged_are_told_or_were_written_last() {
    let (mut tally, mut wrong) = (Tally::default(), Vec::new());
    for seed in 300..sized(320, 460) {
        for end in [End::Cut, End::Stopped, End::Closed] {
            let life = live(seed, end);
            let g = life.chip.geometry();
            let mut rng = Rng::new(seed);
            let block =
                |pbn: u32| (0..g.pages_per_block).map(move |page| Ppn(pbn * g.pages_per_block + page));
            let data: Vec<u32> = (0..g.blocks)
                .filter(|&pbn| !is_record(&life.chip, &block(pbn).collect::<Vec<_>>()))
                .collect();
            for _ in 0..40 {
                let mut two = [0; 2].map(|_| data[rng.below(data.len() as u64) as usize]);
                two.sort_unstable();
                let pages: Vec<Ppn> = two.into_iter().flat_map(block).collect();
                let blow = BLOWS[rng.below(3) as usize];
                let (chip, struck) = strike(&life, &pages, &pages, blow);
                if two[0] == two[1] || struck.is_empty() {
                    continue;
                }
                if let Some(what) = judge(&life, end, chip, &struck, &mut tally) {
                    wrong.push(format!("seed {seed} {end:?} blocks {two:?}, {blow:?}: {what}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {tally:?}: {wrong:#?}", wrong.len());
    let few = sized(120, 1000);
    assert!(tally.right > few && tally.refused > few, "{tally:?}");
}
