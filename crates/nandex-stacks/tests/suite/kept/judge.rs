//! Judges an image: it must mount, return its contents by every way of reading, and take changes.

use super::history::{History, Op, Records, Shape};
use super::image::{Image, Kind};
use super::subject::{How, Subject, open};
use nandex::nand::sim::SimChip;
use nandex::{IndexError, Nand, Shared};

/// Operations that a mounted image takes.
const CHANGES: u64 = 100;

/// Judges an image by a copy of its chip.
pub(crate) fn image(image: &Image, chip: &SimChip) -> Result<(), String> {
    let chip = Shared::new(chip.clone());
    mounted(image, &|| Box::new(chip.clone()))
}

/// Judges an image on a chip, which is mounted twice.
pub(crate) fn mounted(image: &Image, chip: &dyn Fn() -> Box<dyn Nand>) -> Result<(), String> {
    let told = |what: &'static str| move |error: IndexError| format!("{what}: {error}");
    let mut subject = open(image, chip(), How::Mount).map_err(told("the mount"))?;
    let mut records = subject.scan().map_err(told("a scan"))?;
    let history = image.history();
    if !shows(image, &records) {
        let (least, most) = image.shown;
        let (count, must) = (records.len(), history.state(least).len());
        return Err(format!(
            "{count} records, which {least} to {most} operations do not leave ({must} at least)"
        ));
    }
    same(image, &mut *subject, &records)?;
    let changes = History { seed: image.seed + 1_000, ..history };
    let from = image.shown.1;
    for n in from..from + CHANGES {
        let op = changes.op(n);
        subject.step(&op).map_err(told("a change"))?;
        changes.apply(&mut records, op);
    }
    same(image, &mut *subject, &records)?;
    subject.close().map_err(told("the close"))?;
    drop(subject);
    let mut subject = open(image, chip(), How::Mount).map_err(told("the second mount"))?;
    same(image, &mut *subject, &records)
}

/// Whether these are the records after some number of operations that the image may show.
fn shows(image: &Image, records: &Records) -> bool {
    let (history, (least, most)) = (image.history(), image.shown);
    let mut state = history.state(least);
    let mut trimmed = if image.kind == Kind::Ftl { unsure(&history, least) } else { Vec::new() };
    for n in least..=most {
        if n > least {
            let op = history.op(n - 1);
            if let (Op::Remove(key), Kind::Ftl) = (&op, image.kind) {
                trimmed.extend(state.get(key).map(|page| (key.clone(), page.clone())));
            }
            history.apply(&mut state, op);
        }
        let is_back = |(key, page): (&Vec<u8>, &Vec<u8>)| {
            state.get(key) == Some(page) || trimmed.contains(&(key.clone(), page.clone()))
        };
        if records.iter().all(is_back) && state.keys().all(|key| records.contains_key(key)) {
            return true;
        }
    }
    false
}

/// The pages trimmed since the last sync, which a cut may bring back.
fn unsure(history: &History, n: u64) -> Vec<(Vec<u8>, Vec<u8>)> {
    let from = history.synced(n);
    let (mut state, mut trimmed) = (history.state(from), Vec::new());
    for op in (from..n).map(|n| history.op(n)) {
        if let Op::Remove(key) = &op {
            trimmed.extend(state.get(key).map(|page| (key.clone(), page.clone())));
        }
        history.apply(&mut state, op);
    }
    trimmed
}

/// Whether all ways to read a subject give these records, and a check finds it sound.
fn same(image: &Image, subject: &mut dyn Subject, records: &Records) -> Result<(), String> {
    if let Some(broken) = subject.broken().map_err(|error| format!("a check: {error}"))? {
        return Err(format!("a check finds {broken}"));
    }
    let scanned = subject.scan().map_err(|error| format!("a scan: {error}"))?;
    if scanned != *records {
        return Err(format!("a scan finds {} records of {}, or others", scanned.len(), records.len()));
    }
    let mut keys = image.history().all_keys(image.shown.1 + CHANGES);
    if let Shape::Varied(..) = image.shape {
        keys.dedup();
    }
    for key in keys {
        let found = subject.look_up(&key).map_err(|error| format!("a look-up of {key:?}: {error}"))?;
        if found.as_ref() != records.get(&key) {
            return Err(format!("a look-up of {key:?} finds {found:?}"));
        }
    }
    Ok(())
}
