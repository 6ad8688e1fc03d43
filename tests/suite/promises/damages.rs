//! Damage on images that were closed and on images cut anywhere: each page in turn, whole blocks; the right
//! answer or a refusal.

use super::*;
use nandex::nand::Nand;
use nandex::nand::sim::{CutWhen, PowerCut, TornModel};
use nandex::testing::Wrong;
use nandex::units::Ppn;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The damage to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Damage {
    Unreadable,
    Flips(u32),
    Zeroed,
    Blank,
    Random,
    Exchanged,
    Older,
    BlockZeroed,
    BlockBlank,
}

const DAMAGES: [Damage; 10] = [
    Damage::Unreadable,
    Damage::Flips(1),
    Damage::Flips(8),
    Damage::Zeroed,
    Damage::Blank,
    Damage::Random,
    Damage::Exchanged,
    Damage::Older,
    Damage::BlockZeroed,
    Damage::BlockBlank,
];

/// A chip to be damaged, and what it may hold.
struct Image {
    chip: Harmed,
    is_cut: bool,
    states: Vec<Model>,
    /// The states before each operation or sync that was acknowledged, and how many pages were programmed
    /// after it.
    before: Vec<(usize, Vec<Model>)>,
    /// Every state before.
    history: Vec<Model>,
    /// The contents of each page before it was erased last, if that is known.
    older: BTreeMap<Ppn, Vec<u8>>,
}

/// Runs operations until some are done or the power is cut, and notes what pages hold now and then.
fn image(kind: &Kind, seed: u64, cut: bool) -> Image {
    let chip = kind.chip();
    let mut rng = Rng::new(seed);
    let mut index = kind.format(&chip).unwrap();
    let mut expected = Expected::new(kind);
    let mut seen: BTreeMap<Ppn, Vec<Vec<u8>>> = BTreeMap::new();
    let (mut before, mut history) = (Vec::new(), Vec::new());
    let operations = 150 + rng.below(250);
    if cut {
        let chip = &mut chip.chip.lock();
        let torn = TornModel::ALL[rng.below(if kind.name == "ipl-sectors" { 2 } else { 4 }) as usize];
        let when = if rng.chance(1, 2) { CutWhen::Inside } else { CutWhen::After };
        let at_operation = chip.operations() + 120 + rng.below(400);
        chip.plan_power_cut(PowerCut { at_operation, when, torn, seed });
    }
    for op in 0..operations {
        let drawn = match expected.draw(kind, &mut rng, 65, 250) {
            Op::Close if cut => Op::Sync,
            drawn => drawn,
        };
        let states = expected.states.clone();
        history.push(expected.now.clone());
        match expected.run(&mut index, drawn) {
            Ok(()) | Err(IndexError::Full) => {
                if expected.states.len() == 1 && expected.states != states {
                    before.push((chip.last().len(), states));
                }
            }
            Err(error) if is_power_loss(&error) => break,
            Err(error) => panic!("{}: {error}", kind.name),
        }
        if op % 10 == 0 {
            note(&chip, &mut seen);
        }
    }
    if !cut {
        expected.run(&mut index, Op::Close).unwrap();
    }
    drop(index);
    chip.chip.lock().power_on();
    lives::plan_none(&mut chip.chip.lock());
    note(&chip, &mut seen);
    let mut older = BTreeMap::new();
    for (ppn, versions) in seen {
        let now = chip.bytes(ppn);
        older.extend(versions.into_iter().rev().find(|bytes| Some(bytes) != now.as_ref()).map(|b| (ppn, b)));
    }
    Image { chip, is_cut: cut, states: expected.states, before, history, older }
}

fn note(chip: &Harmed, seen: &mut BTreeMap<Ppn, Vec<Vec<u8>>>) {
    for ppn in (0..chip.chip.geometry().pages())
        .map(Ppn)
        .filter(|&ppn| !chip.chip.lock().is_erased(ppn))
        .collect::<Vec<_>>()
    {
        let Some(bytes) = chip.bytes(ppn) else { continue };
        let versions = seen.entry(ppn).or_default();
        if versions.last() != Some(&bytes) {
            versions.push(bytes);
        }
    }
}

/// Damages a page; the pages that read otherwise now.
fn harm(image: &Image, chip: &Harmed, ppn: Ppn, damage: Damage, rng: &mut Rng) -> Vec<Ppn> {
    let geometry = chip.chip.geometry();
    let length = (geometry.page_bytes + geometry.spare_bytes) as usize;
    let Some(now) = chip.bytes(ppn) else { return Vec::new() };
    let overwrites = geometry.overwrites();
    let like = |byte: u8| Some(vec![byte; length]);
    let bytes = match damage {
        Damage::Unreadable => {
            chip.put(ppn, Wrong::Unreadable);
            return Vec::from([ppn]);
        }
        Damage::Flips(count) => {
            let mut bytes = now.clone();
            for _ in 0..count {
                let bit = rng.below(length as u64 * 8) as usize;
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
            Some(bytes)
        }
        Damage::Zeroed => like(0),
        Damage::Blank => like(0xff),
        Damage::Random => Some((0..length).map(|_| rng.next_u64() as u8).collect()),
        // A page that is overwritten in place says nothing of how often: only another birth of it is noticed.
        Damage::Older => image.older.get(&ppn).filter(|old| !overwrites || old[4..8] != now[4..8]).cloned(),
        Damage::Exchanged => {
            let mut others = (0..1000).map(|_| Ppn(rng.below(u64::from(geometry.pages())) as u32));
            let other = others.find(|&other| other != ppn && !chip.chip.lock().is_erased(other));
            let Some((other, bytes)) = other.and_then(|o| Some((o, chip.bytes(o)?))) else {
                return Vec::new();
            };
            chip.put(other, Wrong::Bytes(now));
            chip.put(ppn, Wrong::Bytes(bytes));
            return Vec::from([ppn, other]);
        }
        Damage::BlockZeroed | Damage::BlockBlank => {
            let first = geometry.page_at(geometry.block_of(ppn), 0);
            if ppn != first {
                return Vec::new();
            }
            let byte = if damage == Damage::BlockZeroed { 0 } else { 0xff };
            let pages: Vec<Ppn> = (first.0..first.0 + geometry.pages_per_block).map(Ppn).collect();
            pages.iter().for_each(|&page| chip.put(page, Wrong::Bytes(vec![byte; length])));
            return pages;
        }
    };
    let Some(bytes) = bytes.filter(|bytes| *bytes != now) else { return Vec::new() };
    chip.put(ppn, Wrong::Bytes(bytes));
    Vec::from([ppn])
}

#[derive(Debug, Default)]
struct Count {
    right: u32,
    refused: u32,
    wrong: u32,
    panics: u32,
    first: Option<String>,
}

/// Mounts, reads everything, and goes on a little.
fn outcome(kind: &Kind, chip: &Chip, states: &[Model]) -> Result<(), IndexError> {
    let mut index = kind.mount(chip)?;
    let found = contents(&mut index)?;
    if !states.contains(&found) {
        let last = states.last().unwrap();
        let missing: Vec<_> = last.iter().filter(|(key, value)| found.get(key) != Some(value)).collect();
        let more: Vec<_> = found.iter().filter(|(key, value)| last.get(key) != Some(value)).collect();
        return Err(IndexError::Unsupported(format!("WRONG: missing {missing:?}, other {more:?}").into()));
    }
    let mut expected = Expected::new(kind);
    expected.states = Vec::from(states);
    expected.settle(found, kind.name);
    let mut rng = Rng::new(7);
    for _ in 0..40 {
        let op = expected.draw(kind, &mut rng, 60, 250);
        match expected.run(&mut index, op) {
            Ok(()) => {}
            Err(error) if is_refusal(&error) => {}
            Err(error) => return Err(error),
        }
    }
    index.close()?;
    if contents(&mut index)? != expected.now {
        return Err(IndexError::Unsupported("WRONG later".into()));
    }
    drop(index);
    if contents(&mut kind.mount(chip)?)? != expected.now {
        return Err(IndexError::Unsupported("WRONG after a mount".into()));
    }
    Ok(())
}

fn is_allowed(error: &IndexError) -> bool {
    use IndexError as E;
    use StoreError as S;
    matches!(
        error,
        E::Corrupted { .. }
            | E::NotFormatted(_)
            | E::Interrupted
            | E::Store(S::Corrupted { .. } | S::Nand(NandError::Uncorrectable(_)))
    )
}

fn damage(kind: &Kind, image: &Image, (ppn, damage): (Ppn, Damage), count: &mut Count) {
    let chip = image.chip.copy();
    let mut rng = Rng::new(u64::from(ppn.0) * 16 + 5);
    let harmed = harm(image, &chip, ppn, damage, &mut rng);
    if harmed.is_empty() || image.is_cut && harmed.iter().any(|&page| is_change(kind, image, page)) {
        return;
    }
    let what = format!("{ppn} {damage:?}");
    // The page programmed last before a cut cannot be told from one that was torn; nor the one before it,
    // where the last was. What was programmed into that page in a row, sector by sector, may be gone.
    let mut states = image.states.clone();
    let last = image.chip.last();
    let newest = last.chunk_by(|a, b| a == b).rev().take(2);
    let mut left = last.len();
    for row in newest {
        left -= row.len();
        if harmed.contains(&row[0]) {
            let lost = image.before.iter().filter(|(then, _)| *then > left);
            states.splice(0..0, lost.flat_map(|(_, states)| states.iter().cloned()));
        }
    }
    // A whole block that reads as erased may be one that was erased: the state may be an older one then, but
    // one that was.
    if image.is_cut && damage == Damage::BlockBlank && kind.form != Form::Overwrite {
        states.splice(0..0, image.history.iter().cloned());
    }
    match catch_unwind(AssertUnwindSafe(|| outcome(kind, &chip, &states))) {
        Ok(Ok(())) => count.right += 1,
        Ok(Err(error)) if is_allowed(&error) => count.refused += 1,
        Ok(Err(error)) => {
            count.wrong += 1;
            println!(
                "BAD {} {what}: {error}; last {:?} of {} pages, states {}",
                kind.name,
                &last[last.len().saturating_sub(24)..],
                image.chip.chip.geometry().pages_per_block,
                image.states.len()
            );
            count.first.get_or_insert(format!("{what}: {error}"));
        }
        Err(panic) => {
            count.panics += 1;
            let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
            count.first.get_or_insert(format!("{what}: panic {text}"));
        }
    }
}

/// Whether a page holds changes of a log buffer of VMTree-OW: lost while they are entered, the end of the
/// sync is lost.
fn is_change(kind: &Kind, image: &Image, ppn: Ppn) -> bool {
    let bytes = image.chip.clone().bytes(ppn);
    kind.form == Form::Overwrite && bytes.is_some_and(|bytes| bytes[8] & 0x7f >= 0x40)
}

/// Damages every page of some images: in every way, or each page in every third way.
fn damage_all(kind: &Kind, cut: bool, (seeds, every): (u64, usize)) -> BTreeMap<Damage, Count> {
    let mut counts: BTreeMap<Damage, Count> = BTreeMap::new();
    for seed in 0..seeds {
        let image = image(kind, seed, cut);
        let pages = image.chip.chip.geometry().pages();
        for ppn in (0..pages).map(Ppn).filter(|&ppn| !image.chip.chip.lock().is_erased(ppn)) {
            for (_, harm) in (ppn.index()..).zip(DAMAGES).filter(|(i, _)| i % every == 0) {
                let count = counts.entry(harm).or_default();
                let before = count.wrong + count.panics;
                damage(kind, &image, (ppn, harm), count);
                if before == 0
                    && let Some(first) = &mut count.first
                {
                    first.insert_str(0, &format!("seed {seed} "));
                }
            }
        }
    }
    counts
}

fn report(kind: &Kind, cut: bool, counts: &BTreeMap<Damage, Count>) -> u32 {
    for (damage, count) in counts {
        println!("{} cut {cut} {damage:?}: {count:?}", kind.name);
    }
    counts.values().map(|count| count.wrong + count.panics).sum()
}

fn survey(form: Form, cut: bool) {
    // More with SEEDS=100, which takes a while.
    let extent = std::env::var("SEEDS").map_or((1, 3), |seeds| (seeds.parse().unwrap(), 1));
    let mut wrong = 0;
    for kind in kinds().iter().filter(|kind| kind.form == form) {
        wrong += report(kind, cut, &damage_all(kind, cut, extent));
    }
    assert_eq!(wrong, 0);
}

#[test]
fn damage_of_a_closed_ipl_is_noticed() {
    survey(Form::Ipl, false);
}

#[test]
fn damage_of_a_cut_ipl_is_noticed() {
    survey(Form::Ipl, true);
}

#[test]
fn damage_of_a_closed_sbits_is_noticed() {
    survey(Form::Sbits, false);
}

#[test]
fn damage_of_a_cut_sbits_is_noticed() {
    survey(Form::Sbits, true);
}

#[test]
fn damage_of_a_closed_vmtree_ow_is_noticed() {
    survey(Form::Overwrite, false);
}

#[test]
fn damage_of_a_cut_vmtree_ow_is_noticed() {
    survey(Form::Overwrite, true);
}
