//! Power cuts on NOR flash with words: each index, FTL and spatial index on a `NorChip`, cut a hundred times
//! in the middle of a word or of an erase. Torn words read as other bytes, as errors, or as errors at times,
//! as in the flash of microcontrollers with an ECC; as other bytes on a part that overwrites.

#![allow(clippy::unwrap_used)]

use crate::kept::history::Shape as Records;
use crate::kept::image::{Image, Kind};
use crate::kept::record::{End, wanted};
use crate::kept::subject::{How, Subject, open};
use crate::sizes::stride;
use nandex::{Durability, Nand};
use nandex_embedded::ram::{RamCut, RamFlash, TornWord};
use nandex_embedded::{NorChip, Shape};

/// Cuts of each subject.
const CUTS: u64 = 100;
/// Operations of a history.
const OPS: u64 = 130;

const PAGE: Shape = Shape::new(448, 64);

/// A part of any sizes, as a test needs it.
trait Part {
    fn chip(&self) -> Box<dyn Nand>;
    fn steps(&self) -> u64;
    fn plan(&self, cut: RamCut);
    fn power_on(&self);
    fn is_on(&self) -> bool;
}

/// A part, and how its pages are cut.
struct Cut<const WRITE: usize, const ERASE: usize>(RamFlash<WRITE, ERASE>, Shape);

impl<const WRITE: usize, const ERASE: usize> Part for Cut<WRITE, ERASE> {
    fn chip(&self) -> Box<dyn Nand> {
        Box::new(NorChip::new(self.0.clone(), self.1).unwrap())
    }

    fn steps(&self) -> u64 {
        self.0.steps()
    }

    fn plan(&self, cut: RamCut) {
        let torn = if self.1.overwrites { TornWord::Wrong } else { cut.torn };
        self.0.plan(RamCut { torn, ..cut });
    }

    fn power_on(&self) {
        self.0.power_on();
    }

    fn is_on(&self) -> bool {
        self.0.is_on()
    }
}

fn part<const WRITE: usize, const ERASE: usize, const BYTES: usize>() -> Box<dyn Part> {
    Box::new(Cut(RamFlash::<WRITE, ERASE>::new(BYTES), PAGE))
}

/// A part of which several erase units make a block of 16 pages.
fn grouped<const WRITE: usize, const ERASE: usize, const BYTES: usize>() -> Box<dyn Part> {
    let shape = PAGE.with_units_per_block((16 * 512 / ERASE) as u32);
    Box::new(Cut(RamFlash::<WRITE, ERASE>::new(BYTES), shape))
}

/// A part whose written words lose further bits.
fn serial<const WRITE: usize, const BYTES: usize>() -> Box<dyn Part> {
    Box::new(Cut(RamFlash::<WRITE, 4096>::new(BYTES).overwriting(), PAGE.with_overwrites(true)))
}

/// Words of 1 to 32 bytes, blocks of 4, 8 and 32 pages, and of 16 in two and four erase units.
const PARTS: [fn() -> Box<dyn Part>; 9] = [
    part::<8, 4096, { 48 << 12 }>,
    part::<1, 4096, { 48 << 12 }>,
    part::<32, 2048, { 96 << 11 }>,
    part::<16, 4096, { 60 << 12 }>,
    part::<4, 16384, { 40 << 14 }>,
    part::<8, 2048, { 110 << 11 }>,
    part::<32, 16384, { 32 << 14 }>,
    grouped::<8, 4096, { 96 << 12 }>,
    grouped::<4, 2048, { 144 << 11 }>,
];

/// Parts that overwrite.
const SERIAL: [fn() -> Box<dyn Part>; 3] =
    [serial::<1, { 48 << 12 }>, serial::<4, { 48 << 12 }>, serial::<1, { 80 << 12 }>];

/// The parts that an index is tried on.
fn parts(image: &Image) -> &'static [fn() -> Box<dyn Part>] {
    if image.subject == "vmtree-ow" { &SERIAL } else { &PARTS }
}

const TORN: [TornWord; 3] = [TornWord::Error, TornWord::Wrong, TornWord::ErrorAtTimes];

/// Runs a history until it ends or the power fails; the operations that were acknowledged.
fn run(image: &Image, subject: &mut dyn Subject, part: &dyn Part) -> u64 {
    for n in 0..OPS {
        if let Err(error) = subject.step(&image.history().op(n)) {
            assert!(!part.is_on(), "{}: operation {n}: {error}", image.name);
            return n;
        }
    }
    OPS
}

/// The subjects: each image that ends with a cut and has the usual settings, in the highest class.
fn subjects() -> Vec<Image> {
    let mut subjects: Vec<Image> = Vec::new();
    for (mut image, end) in wanted() {
        let is_known = subjects.iter().any(|s| (s.kind, &s.subject) == (image.kind, &image.subject));
        if end != End::Cut || is_known {
            continue;
        }
        if image.kind == Kind::Ftl {
            image.shape = Records::Pages(PAGE.page_bytes as usize);
        }
        image.keys = image.keys.min(50);
        if parts(&image).iter().any(|part| formatted(&image, &*part()).is_some()) {
            subjects.push(image);
        }
    }
    subjects
}

fn formatted(image: &Image, part: &dyn Part) -> Option<Box<dyn Subject>> {
    let subject = open(image, part.chip(), How::Format).ok()?;
    (subject.class() == image.class).then_some(subject)
}

/// Cuts the power of a subject on a part, and of every fourth mount afterwards. Fails with a message if
/// contents are wrong.
fn cut(image: &Image, part: &dyn Part, (from, steps): (u64, u64), number: u64) -> Result<(), String> {
    let (torn, seed) = (TORN[(number % 3) as usize], number);
    let at_step = from + steps * number / CUTS;
    let mut subject = formatted(image, part).unwrap();
    part.plan(RamCut { at_step, torn, seed });
    let acknowledged = run(image, &mut *subject, part);
    if part.is_on() {
        return Err(format!("step {at_step} was not reached"));
    }
    drop(subject);
    part.power_on();
    if number % 4 == 3 {
        part.plan(RamCut { at_step: part.steps() + number % 9, torn, seed });
        let _ = open(image, part.chip(), How::Mount);
        part.power_on();
    }
    let least = match image.class {
        Durability::EveryOperation => acknowledged,
        _ => image.history().synced(acknowledged),
    };
    let cut = Image { shown: (least, acknowledged + 1), ..image.clone() };
    crate::kept::judge::mounted(&cut, &|| part.chip())
}

#[test]
fn a_hundred_cuts_of_everything_on_nor_mount_with_all_that_was_acknowledged() {
    let (mut faults, mut count, step) = (Vec::new(), 0, stride(11));
    let subjects = subjects();
    for image in &subjects {
        let parts = parts(image);
        let length = |part: &fn() -> Box<dyn Part>| {
            let part = part();
            let mut subject = formatted(image, &*part)?;
            let from = part.steps();
            run(image, &mut *subject, &*part);
            Some((from, part.steps() - from))
        };
        let lengths: Vec<_> = parts.iter().map(length).collect();
        let fitting: Vec<usize> = (0..parts.len()).filter(|n| lengths[*n].is_some()).collect();
        assert!(fitting.len() > 1, "{} fits {fitting:?} of the parts", image.name);
        let mut wrong = 0;
        for number in (0..CUTS).step_by(step) {
            let chosen = fitting[(number / 3) as usize % fitting.len()];
            let judged = cut(image, &*parts[chosen](), lengths[chosen].unwrap(), number);
            count += 1;
            if let Err(fault) = judged {
                wrong += 1;
                if wrong == 1 {
                    faults.push(format!("{}: cut {number}, part {chosen}: {fault}", image.name));
                }
            }
        }
        if wrong > 0 {
            faults.push(format!("{}: {wrong} of {} cuts", image.name, CUTS as usize / step));
        }
    }
    println!("{count} cuts of {} subjects", subjects.len());
    assert!(subjects.len() > 45 && subjects.iter().any(|subject| subject.subject == "vmtree-ow"));
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}
