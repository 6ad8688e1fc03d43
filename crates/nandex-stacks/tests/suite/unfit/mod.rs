//! Mounts of a chip that holds something else, for every index, FTL, spatial index and log. Only a blank chip
//! is called blank, a newer format is told from a foreign one, a failing bus is neither, and nothing is
//! written.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod newer;

use crate::kept::history::Shape;
use crate::kept::image::{Image, Kind};
use crate::kept::record::{End, wanted};
use crate::kept::subject::{How, open};
use nandex::nand::sim::SimChip;
use nandex::nand::{BlockRange, Differs, Part, Unfit};
use nandex::testing::{Access, Chip};
use nandex::{Cause, IndexError, Lpn, Nand, NandError, PageStore, Pbn};
use nandex_stacks::registry::{Hosting, store};
use newer::make_newer;
use std::collections::BTreeSet;

/// Operations of a history.
const OPS: u64 = 60;

/// Number of reads of a mount at each of which the bus is made to fail.
const READS: u64 = 24;

/// One image of each subject, in the highest class that it has.
fn subjects() -> Vec<Image> {
    let mut seen = BTreeSet::new();
    let closed = wanted().into_iter().filter(|(_, end)| *end == End::Closed).map(|(image, _)| image);
    closed
        .filter(|image| {
            let chip = SimChip::new(&image.part()).unwrap();
            let subject = open(image, Box::new(chip), How::Format);
            let has_class = subject.is_ok_and(|subject| subject.class() == image.class);
            let name = image.name.split('.').next().unwrap().to_string();
            has_class && seen.insert(name)
        })
        .collect()
}

fn part_of(image: &Image, blocks: u32) -> Part {
    let mut part = image.part();
    part.geometry.blocks = blocks;
    part
}

/// The chip of an image after a history and a close. The index has `blocks` of its blocks.
fn written(image: &Image, blocks: u32, all: u32) -> Chip {
    let chip = Chip::new(SimChip::new(&part_of(image, all)).unwrap());
    let range = BlockRange::new(chip.clone(), Pbn(0), blocks);
    let mut subject = open(image, Box::new(range), How::Format).unwrap();
    for n in 0..OPS {
        subject.step(&image.history().op(n)).unwrap();
    }
    subject.close().unwrap();
    chip
}

/// The answer of a mount that must fail and change nothing.
fn answer(image: &Image, chip: &Chip, nand: Box<dyn Nand>) -> Result<IndexError, String> {
    let before = chip.lock().operations();
    let mounted = open(image, nand, How::Mount).map(drop);
    let changes = chip.lock().operations() - before;
    match mounted {
        Ok(()) => Err(String::from("mounted")),
        Err(_) if changes > 0 => Err(format!("{changes} changes of the chip")),
        Err(error) => Ok(error),
    }
}

/// Judges every subject, and tells the faults.
fn judge(what: &str, judged: impl Fn(&Image) -> Result<(), String>) {
    let subjects = subjects();
    let faults: Vec<String> = subjects
        .iter()
        .filter_map(|image| judged(image).err().map(|fault| format!("{}: {fault}", image.name)))
        .collect();
    println!("{what}: {} of {} subjects", subjects.len() - faults.len(), subjects.len());
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

fn told(error: &IndexError) -> Option<Unfit> {
    if let IndexError::NotFormatted(unfit) = error { Some(*unfit) } else { None }
}

#[test]
fn a_blank_chip_is_blank() {
    judge("blank", |image| {
        let chip = Chip::new(SimChip::new(&image.part()).unwrap().with_factory_bad_blocks(20_000, 7));
        let error = answer(image, &chip, Box::new(chip.clone()))?;
        if error.is_blank() { Ok(()) } else { Err(format!("{error:?}")) }
    });
}

#[test]
fn other_records_are_said_to_be_other() {
    judge("other records", |image| {
        let other = match (image.kind, image.shape) {
            (Kind::Index, Shape::Fixed(key, value)) => Shape::Fixed(key, value + 4),
            (Kind::Index, Shape::Ascending(key, value)) => Shape::Ascending(key, value + 4),
            _ => return Ok(()),
        };
        let chip = written(image, image.blocks, image.blocks);
        let asked = Image { shape: other, ..image.clone() };
        let error = match answer(&asked, &chip, Box::new(chip.clone())) {
            // The TBM puts its buffer blocks in order before the tree above it is asked.
            Err(fault) if image.subject == "wpcb" && fault.ends_with("changes of the chip") => return Ok(()),
            other => other?,
        };
        match told(&error) {
            Some(Unfit::Other { differs: Differs::Record, .. }) => Ok(()),
            // Where pages keep their places nothing but them says of what records they are.
            Some(Unfit::Other { differs: Differs::Kind, .. }) if is_in_place(image) => Ok(()),
            _ => Err(format!("{error:?}")),
        }
    });
}

#[test]
fn another_number_of_blocks_is_said_to_be_other() {
    judge("other blocks", |image| {
        let blocks = image.blocks;
        for (written_on, shown) in [(blocks, 2 * blocks), (2 * blocks, blocks), (blocks, blocks - 1)] {
            let chip = written(image, written_on, 2 * blocks);
            let range = BlockRange::new(chip.clone(), Pbn(0), shown);
            let error =
                answer(image, &chip, Box::new(range)).map_err(|e| format!("{written_on} as {shown}: {e}"))?;
            match told(&error) {
                Some(Unfit::Other { differs: Differs::Geometry, .. }) => {}
                // Some anchors of the checkpoints are beyond the end.
                None if shown < written_on && matches!(error, IndexError::Store(_)) => {}
                _ => return Err(format!("{written_on} as {shown}: {error:?}")),
            }
        }
        Ok(())
    });
}

/// Families of indexes that are identical on the chip once closed.
const SAME: [&[&str]; 3] =
    [&["bplus", "lazy-update", "ls-lru"], &["ibsf", "bof", "rbftl"], &["fast-framework", "efind"]];

/// True if the chip of one subject may be mounted as another: they are the same on the chip, or use different
/// parts of it.
fn holds(written_by: &Image, asked: &Image) -> bool {
    let is_same = (asked.kind, &asked.subject) == (written_by.kind, &written_by.subject);
    let is_family =
        SAME.iter().any(|family| [written_by, asked].iter().all(|image| family.contains(&&*image.subject)));
    let is_below = asked.kind == Kind::Ftl && written_by.kind != Kind::Ftl;
    is_same || is_family || is_below || asked.kind == Kind::ValueLog
}

fn is_in_place(image: &Image) -> bool {
    image.options.text("placement") == Some("in_place")
}

#[test]
fn another_index_is_never_blank() {
    let all: Vec<Image> = subjects();
    let mut faults = Vec::new();
    let (mut others, mut pairs) = (0, 0);
    for written_by in &all {
        let chip = written(written_by, written_by.blocks, written_by.blocks);
        for asked in &all {
            let parts = [asked, written_by].map(|image| image.part().geometry);
            if holds(written_by, asked) || parts[0] != parts[1] {
                continue;
            }
            pairs += 1;
            match answer(asked, &chip, Box::new(chip.clone())) {
                Ok(IndexError::NotFormatted(Unfit::Other { .. })) => others += 1,
                Ok(IndexError::NotFormatted(unfit)) => {
                    faults.push(format!("{} as {}: {unfit:?}", written_by.name, asked.name));
                }
                Ok(_) => {}
                Err(fault) => faults.push(format!("{} as {}: {fault}", written_by.name, asked.name)),
            }
        }
    }
    println!("another index: {others} of {pairs} pairs are said to be other");
    assert!(faults.is_empty(), "{} faults\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn a_newer_version_is_said_to_be_newer() {
    judge("newer", |image| {
        // Its index is on a part of the chip, whose pages have other numbers; it is asked alone.
        if image.kind == Kind::ValueLog {
            return Ok(());
        }
        let chip = written(image, image.blocks, image.blocks);
        make_newer(&chip);
        let error = answer(image, &chip, Box::new(chip.clone()))?;
        match told(&error) {
            Some(Unfit::Newer { .. }) => Ok(()),
            _ => Err(format!("{error:?}")),
        }
    });
}

#[test]
fn a_bus_that_fails_says_nothing_of_the_chip() {
    judge("bus", |image| {
        let blank = Chip::new(SimChip::new(&image.part()).unwrap());
        for chip in [blank, written(image, image.blocks, image.blocks)] {
            for read in 0..READS {
                let before = chip.lock().operations();
                let mut left = read;
                chip.on_access(move |_, access| {
                    if let Access::Read(..) = access {
                        left = u64::checked_sub(left, 1).ok_or(NandError::Device(5))?;
                    }
                    Ok(())
                });
                let mounted = open(image, Box::new(chip.clone()), How::Mount).map(drop);
                let is_changed = chip.lock().operations() > before;
                match mounted {
                    // So many reads a mount may not need.
                    Ok(()) | Err(IndexError::NotFormatted(Unfit::Blank)) if read > 8 => {}
                    Err(error) if told(&error).is_none() && !is_changed => {}
                    other => return Err(format!("read {read}: {other:?}, changed: {is_changed}")),
                }
            }
        }
        Ok(())
    });
}

/// Pages of an index's FTL that are not blank.
fn written_pages(store: &mut dyn PageStore) -> Vec<Lpn> {
    let (mut page, count) = (vec![0; store.page_bytes()], store.page_count());
    let mut holds = |lpn: &Lpn| {
        store.read(*lpn, Cause::Host, &mut page).unwrap();
        page.iter().any(|byte| *byte != 0)
    };
    (0..count).map(Lpn).filter(|lpn| holds(lpn)).collect()
}

#[test]
fn an_index_of_which_one_page_is_left_is_not_blank() {
    judge("one page left", |image| {
        let entry = nandex_stacks::registry::index(&image.subject);
        let is_on_store = entry.is_ok_and(|entry| entry.hosting == Hosting::Store && !entry.divides_chip);
        if image.kind != Kind::Index || !is_on_store {
            return Ok(());
        }
        let chip = written(image, image.blocks, image.blocks);
        let ftl = store(image.options.text("ftl").unwrap_or("page-map")).unwrap();
        let mounted = |chip: &Chip| (ftl.mount)(Box::new(chip.clone()), &image.settings()).unwrap();
        let pages = written_pages(&mut *mounted(&chip));
        for left in pages.iter().step_by(pages.len().div_ceil(12)).chain(pages.last()) {
            let copy = chip.copy();
            let mut store = mounted(&copy);
            for lpn in pages.iter().filter(|lpn| *lpn != left) {
                store.trim(*lpn).unwrap();
            }
            store.checkpoint().unwrap();
            drop(store);
            let error = answer(image, &copy, Box::new(copy.clone()))?;
            if error.is_blank() {
                return Err(format!("with page {left} alone: {error:?}"));
            }
        }
        Ok(())
    });
}
