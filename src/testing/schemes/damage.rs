//! Pages that are damaged while the power is off: unreadable, flipped, zeroed, erased-looking, exchanged or
//! older.
//!
//! A read may return the right page or `Corrupted`, and a mount may be refused. Other contents or a panic are
//! faults.

use super::{Ftl, Model, Op, apply, chip, model_of, page, random_op, small};
use crate::codec::{get_u32, get_u40};
use crate::ftl::mapping::{Scheme, SchemeFtl};
use crate::nand::sim::{CutWhen, PowerCut, SimChip, TornModel};
use crate::nand::{Cause, Nand, NandError};
use crate::rng::Rng;
use crate::store::{PageStore, StoreError};
use crate::testing::sizes::{sized, stride};
use crate::testing::{Chip, Wrong};
use crate::units::{Lpn, Pbn, Ppn};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Unreadable,
    Flipped,
    Zeroed,
    Erased,
    Exchanged,
    Older,
}

/// Step of the sweep in the gate: it damages every 73rd page, starting from a different one each time.
const STRIDE: usize = 73;

/// Number of chips whose pages are each replaced by earlier contents.
const RETURNS: u64 = 12;

const KINDS: [Kind; 6] =
    [Kind::Unreadable, Kind::Flipped, Kind::Zeroed, Kind::Erased, Kind::Exchanged, Kind::Older];

/// A chip after the power went off.
struct Image {
    chip: SimChip,
    /// Earlier contents of each page.
    past: BTreeMap<Ppn, Vec<Vec<u8>>>,
    model: Model,
    /// Pages written last, which may be old or new.
    unasked: BTreeSet<u32>,
    seed: u64,
}

/// Present and earlier contents of every page.
#[derive(Default)]
struct Watch {
    now: BTreeMap<Ppn, Vec<u8>>,
    past: BTreeMap<Ppn, Vec<Vec<u8>>>,
}

impl Watch {
    fn look(&mut self, chip: &SimChip) {
        for ppn in (0..chip.geometry().pages()).map(Ppn) {
            let Some(bytes) = chip.stored_page(ppn).filter(|bytes| bytes.iter().any(|&b| b != 0xff)) else {
                continue;
            };
            match self.now.insert(ppn, bytes.to_vec()) {
                Some(before) if before[..] != bytes[..] => self.past.entry(ppn).or_default().push(before),
                _ => {}
            }
        }
    }
}

fn raw(chip: &mut SimChip, ppn: Ppn) -> Option<Vec<u8>> {
    let g = chip.geometry();
    let (mut data, mut spare) = (vec![0; g.page_bytes as usize], vec![0; g.spare_bytes as usize]);
    chip.read(ppn, Cause::Check, &mut data, &mut spare).ok()?;
    data.extend(spare);
    Some(data).filter(|bytes| bytes.iter().any(|&b| b != 0xff))
}

fn pages_of(op: &Op) -> BTreeSet<u32> {
    match op {
        Op::Write(lpn) => BTreeSet::from([*lpn]),
        Op::Group(lpns) => lpns.iter().copied().collect(),
        Op::Trim(_) | Op::Read(_) | Op::Sync | Op::Checkpoint => BTreeSet::new(),
    }
}

/// Uses a store at random after a part of it was filled. At the end the power is cut in an operation, goes
/// off, or the store is closed.
fn image<S: Scheme>(seed: u64, ops: usize, end: End, settings: S::Config) -> Image {
    let mut ftl = Ftl::<S>::format(chip(small(seed)), &settings.clone()).unwrap();
    let mut model = model_of(&ftl);
    let (mut rng, mut last) = (Rng::new(seed), 0);
    for lpn in 0..ftl.page_count() / 2 {
        apply(&mut ftl, &mut model, &Op::Write(lpn)).unwrap();
    }
    let mut watch = Watch::default();
    let mut unasked = BTreeSet::new();
    for _ in 0..if end == End::ClosedAgain { 3 } else { 0 } {
        // Trims a quarter of the pages, so that the base finds empty blocks.
        let first = rng.below(u64::from(ftl.page_count() / 4)) as u32;
        for lpn in first..first + ftl.page_count() / 4 {
            apply(&mut ftl, &mut model, &Op::Trim(lpn)).unwrap();
        }
        ftl.checkpoint().unwrap();
        model.settle();
        ftl = Ftl::<S>::mount(ftl.into_nand(), &settings.clone()).unwrap();
        for _ in 0..20 {
            let op = random_op(&mut rng, &ftl, &mut last);
            apply(&mut ftl, &mut model, &op).unwrap();
        }
    }
    for _ in 0..ops {
        let op = random_op(&mut rng, &ftl, &mut last);
        if matches!(op, Op::Checkpoint) {
            continue;
        }
        apply(&mut ftl, &mut model, &op).unwrap();
        if !pages_of(&op).is_empty() {
            unasked = pages_of(&op);
        }
        watch.look(ftl.nand());
    }
    match end {
        End::Closed | End::ClosedAgain => {
            ftl.checkpoint().unwrap();
            model.settle();
            unasked.clear();
        }
        End::Off => {}
        End::Cut => {
            let at_operation = ftl.nand().operations() + rng.below(4);
            let torn = TornModel::ALL[seed as usize % 4];
            ftl.nand_mut().plan_power_cut(PowerCut { at_operation, when: CutWhen::Inside, torn, seed });
            loop {
                let op = random_op(&mut rng, &ftl, &mut last);
                let before = model.clone();
                let done = apply(&mut ftl, &mut model, &op);
                match done {
                    Ok(()) if pages_of(&op).is_empty() => {}
                    Ok(()) => unasked = pages_of(&op),
                    Err(StoreError::Nand(NandError::PowerLost)) => {
                        unasked.extend(pages_of(&op));
                        model = before;
                        break;
                    }
                    Err(error) => panic!("{op:?}: {error:?}"),
                }
            }
        }
    }
    let mut chip = ftl.into_nand();
    chip.power_on();
    Image { chip, past: watch.past, model, unasked, seed }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Cut,
    Off,
    Closed,
    /// Closed, mounted and changed several times.
    ClosedAgain,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    damages: u32,
    refused: u32,
    corrupted: u32,
}

fn damage(image: &mut Image, kind: Kind, ppn: Ppn, rng: &mut Rng) -> Option<BTreeMap<Ppn, Wrong>> {
    let mut bytes = raw(&mut image.chip, ppn)?;
    let one = |wrong: Wrong| Some(BTreeMap::from([(ppn, wrong)]));
    match kind {
        Kind::Unreadable => one(Wrong::Unreadable),
        Kind::Flipped => {
            for _ in 0..8 {
                let bit = rng.below(bytes.len() as u64 * 8) as usize;
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
            one(Wrong::Bytes(bytes))
        }
        Kind::Zeroed => one(Wrong::Bytes(vec![0; bytes.len()])),
        Kind::Erased => one(Wrong::Bytes(vec![0xff; bytes.len()])),
        Kind::Exchanged => {
            let pages = u64::from(image.chip.geometry().pages());
            let other = Ppn(rng.below(pages) as u32);
            let theirs = raw(&mut image.chip, other).filter(|_| other != ppn)?;
            Some(BTreeMap::from([(ppn, Wrong::Bytes(theirs)), (other, Wrong::Bytes(bytes))]))
        }
        Kind::Older => {
            let past = image.past.get(&ppn)?;
            one(Wrong::Bytes(past[rng.below(past.len() as u64) as usize].clone()))
        }
    }
}

/// Mounts a damaged chip and reads all of it.
fn judge<S: Scheme>(
    image: &Image,
    wrong: BTreeMap<Ppn, Wrong>,
    settings: S::Config,
    counts: &mut Counts,
    what: &str,
) {
    counts.damages += 1;
    let places: Vec<Ppn> = wrong.keys().copied().collect();
    let damaged = Chip::new(image.chip.clone());
    damaged.spoil(wrong);
    let mut ftl = match SchemeFtl::<Chip, S>::mount(damaged, &settings) {
        Ok(ftl) => ftl,
        Err(StoreError::Corrupted { .. } | StoreError::NotFormatted(_)) => {
            counts.refused += 1;
            return;
        }
        Err(error) => panic!("{what} {places:?}: {error:?}"),
    };
    counts.corrupted += read_all(&mut ftl, image, (&image.model, &image.unasked), what);
    // The FTL goes on, or reports that it cannot.
    let (mut model, mut unasked) = (image.model.clone(), image.unasked.clone());
    let mut rng = Rng::new(u64::from(places[0].0));
    for _ in 0..30 {
        let lpn = rng.below(u64::from(ftl.page_count())) as u32;
        let tag = model.next_tag;
        match ftl.write(Lpn(lpn), Cause::Host, &page(tag, 128)) {
            Ok(()) => {
                model.write(lpn);
                unasked.remove(&lpn);
            }
            Err(StoreError::Corrupted { .. }) => {
                unasked.insert(lpn);
                break;
            }
            Err(error) => panic!("seed {} {what} {places:?}: {error:?}", image.seed),
        }
    }
    counts.corrupted += read_all(&mut ftl, image, (&model, &unasked), what);
}

/// Describes every page of a chip: kind, number, version, erase count.
fn describe(image: &Image, wrong: &BTreeMap<Ppn, Wrong>) -> String {
    let mut chip = image.chip.clone();
    let mut lines = String::new();
    let damaged = wrong
        .iter()
        .filter_map(|(ppn, w)| if let Wrong::Bytes(b) = w { Some((*ppn, b.clone())) } else { None });
    for (ppn, bytes) in damaged {
        let spare = &bytes[128..];
        let (number, version) = (get_u32(spare, 2), get_u40(spare, 6));
        lines += &alloc::format!("IN {ppn} {} {number} v{version} e{}\n", spare[1] as char, spare[11]);
    }
    for ppn in (0..chip.geometry().pages()).map(Ppn) {
        let Some(bytes) = raw(&mut chip, ppn) else { continue };
        let spare = &bytes[128..];
        let (number, version) = (get_u32(spare, 2), get_u40(spare, 6));
        lines += &alloc::format!("{ppn} {} {number} v{version} e{}\n", spare[1] as char, spare[11]);
    }
    lines
}

fn read_all<S: Scheme>(
    ftl: &mut SchemeFtl<Chip, S>,
    image: &Image,
    (model, unasked): (&Model, &BTreeSet<u32>),
    what: &str,
) -> u32 {
    let mut corrupted = 0;
    let places: Vec<Ppn> = ftl.nand().spoilt().into_keys().collect();
    let mut data = vec![0; ftl.page_bytes()];
    for (lpn, &tag) in (0..).zip(&model.pages) {
        match ftl.read(Lpn(lpn), Cause::Host, &mut data) {
            Ok(()) if unasked.contains(&lpn) => {}
            Ok(()) => {
                let found = u64::from_le_bytes(data[..8].try_into().unwrap());
                // The loss of the last record looks like a cut in it, and undoes its trims.
                let was_there = || model.was_ever(lpn, found);
                let is_right = found == tag || (tag == 0 && was_there());
                let pages = if is_right { String::new() } else { describe(image, &ftl.nand().spoilt()) };
                assert!(
                    is_right,
                    "seed {} {what} {places:?}: lpn {lpn} holds {found}, not {tag}\n{pages}",
                    image.seed
                );
                assert_eq!(data, page(found, data.len()), "seed {} {what} {places:?} lpn {lpn}", image.seed);
            }
            Err(StoreError::Corrupted { .. }) => corrupted += 1,
            Err(error) => panic!("{what} {places:?} lpn {lpn}: {error:?}"),
        }
    }
    corrupted
}

fn sweep<S: Scheme>(end: End, settings: &impl Fn(u64) -> S::Config) -> Counts {
    let stride = stride(STRIDE);
    let mut counts = Counts::default();
    for seed in 0..4 {
        let mut image = image::<S>(seed, 40 + 90 * seed as usize, end, settings(seed));
        judge::<S>(
            &image,
            BTreeMap::from([(Ppn(u32::MAX), Wrong::Unreadable)]),
            settings(seed),
            &mut counts,
            "none",
        );
        assert!(counts.refused == 0 && counts.corrupted == 0, "without damage: {counts:?}");
        let mut rng = Rng::new(seed);
        for kind in KINDS {
            let first = rng.below(stride as u64) as u32;
            for ppn in (first..small(seed).pages()).step_by(stride).map(Ppn) {
                if let Some(wrong) = damage(&mut image, kind, ppn, &mut rng) {
                    judge::<S>(
                        &image,
                        wrong,
                        settings(seed),
                        &mut counts,
                        &alloc::format!("{end:?} {kind:?}"),
                    );
                }
            }
        }
        counts = Counts { refused: 0, corrupted: 0, ..counts };
    }
    counts
}

/// Damages pages all over chips that were cut or switched off.
pub fn notices_damage_after_a_cut<S: Scheme>(settings: impl Fn(u64) -> S::Config) {
    sweep::<S>(End::Cut, &settings);
    sweep::<S>(End::Off, &settings);
    notices_what_came_back::<S>(settings);
}

/// Sets each page in turn back to earlier contents.
fn notices_what_came_back<S: Scheme>(settings: impl Fn(u64) -> S::Config) {
    let mut counts = Counts::default();
    for seed in 0..sized(RETURNS / 2, RETURNS) {
        let end = [End::Cut, End::Off][seed as usize % 2];
        let image = image::<S>(seed, 60 + 17 * (seed % 11) as usize, end, settings(seed));
        for (ppn, past) in &image.past {
            for bytes in past.iter().rev().take(3) {
                let wrong = BTreeMap::from([(*ppn, Wrong::Bytes(bytes.clone()))]);
                judge::<S>(&image, wrong, settings(seed), &mut counts, "came back");
            }
        }
    }
    assert!(counts.damages > sized(100, 1000) && counts.refused + counts.corrupted > 0, "{counts:?}");
}

/// Damages pages all over chips that were closed.
pub fn notices_damage_after_a_clean_end<S: Scheme>(settings: impl Fn(u64) -> S::Config) {
    sweep::<S>(End::Closed, &settings);
    blocks::<S>(End::Closed, &settings);
    blocks::<S>(End::ClosedAgain, &settings);
}

/// Damages each whole block in turn. If an anchor is lost, the mount must not find an earlier state at which
/// the chip was closed.
fn blocks<S: Scheme>(end: End, settings: &impl Fn(u64) -> S::Config) {
    let mut counts = Counts::default();
    for seed in 0..sized(15, 60) {
        let image = image::<S>(seed, 12 * (seed % 5) as usize, end, settings(seed));
        let geometry = image.chip.geometry();
        let bytes = (geometry.page_bytes + geometry.spare_bytes) as usize;
        for (pbn, looks) in (0..geometry.blocks).flat_map(|pbn| [(Pbn(pbn), 0xff), (Pbn(pbn), 0)]) {
            let pages = (0..geometry.pages_per_block).map(|page| geometry.page_at(pbn, page));
            let wrong = pages.map(|ppn| (ppn, Wrong::Bytes(vec![looks; bytes]))).collect();
            judge::<S>(&image, wrong, settings(seed), &mut counts, &alloc::format!("{end:?} {pbn} {looks}"));
        }
    }
}
