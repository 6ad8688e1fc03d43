//! The ends of the numbers on flash: each index, FTL and spatial index is formatted with its counters of some
//! width near their ends, and changed until they are reached. Then every change is refused as `WornOut`,
//! and all that was acknowledged is read, synced, closed and mounted.

#![allow(clippy::unwrap_used)]

use crate::kept::history::{Op, Records};
use crate::kept::image::{Image, Kind};
use crate::kept::record::{End, wanted};
use crate::kept::subject::{How, Subject, open};
use crate::sizes::stride;
use nandex::codec::start_near_end;
use nandex::nand::sim::SimChip;
use nandex::{Durability, IndexError, Shared, StoreError};

/// The widths of counters that can end.
const WIDTHS: [u32; 4] = [32, 39, 40, 48];
/// The width of an FTL's versions.
const FTL_BITS: u32 = 39;
/// Numbers before the end.
const LEFT: u32 = 60;
/// Number of pairs of a subject and a counter width that reach the end of a counter.
const ENDS: usize = 206;
/// Operations after which a subject has no counter of a width.
const OPS: u64 = 1_500;

fn is_worn(error: &IndexError) -> bool {
    matches!(error, IndexError::WornOut | IndexError::Store(StoreError::WornOut))
}

/// A subject in use, and the contents it must have.
struct Life<'a> {
    image: &'a Image,
    /// True if the counter belongs to a layer below. The index then ends as on a worn chip, and waiting
    /// changes may be lost.
    is_below: bool,
    subject: Box<dyn Subject>,
    /// The records after each change since the last sync, from that on.
    states: Vec<Records>,
    is_interrupted: bool,
    /// True if a change was refused because a counter has ended.
    has_ended: bool,
}

impl Life<'_> {
    fn now(&self) -> &Records {
        self.states.last().unwrap()
    }

    /// Does operation `n`. Returns false if it is refused because a counter has ended.
    fn step(&mut self, n: u64) -> Result<bool, String> {
        let op = self.image.history().op(n);
        match self.subject.step(&op) {
            Ok(()) if op == Op::Sync => drop(self.states.drain(..self.states.len() - 1)),
            Ok(()) => {
                let mut state = self.now().clone();
                self.image.history().apply(&mut state, op);
                self.states.push(state);
            }
            Err(error) if is_worn(&error) => return Ok(false),
            // A chip made of its pages has failed blocks then, which take room.
            Err(IndexError::Full(_)) if self.is_below && self.has_ended => return Ok(false),
            Err(IndexError::Interrupted) if self.is_below => {
                self.is_interrupted = true;
                return Ok(false);
            }
            Err(error) => return Err(format!("operation {n}: {error}")),
        }
        Ok(true)
    }

    /// Reads everything, by scan, check and look-up.
    fn read(&mut self) -> Result<(), String> {
        let told = |what: &'static str| move |error: IndexError| format!("{what}: {error}");
        let state = self.states.last().unwrap().clone();
        let scanned = self.subject.scan().map_err(told("a scan"))?;
        if scanned != state {
            return Err(format!("a scan finds {} records of {}, or others", scanned.len(), state.len()));
        }
        for key in self.image.history().all_keys(OPS) {
            let found = self.subject.look_up(&key).map_err(told("a look-up"))?;
            if found.as_ref() != state.get(&key) {
                return Err(format!("a look-up finds {found:?}"));
            }
        }
        self.subject.broken().map_err(told("a check"))?.map_or(Ok(()), Err)
    }

    /// Tries changes and a sync after the end, and checks the contents.
    fn go_on(&mut self, from: u64) -> Result<(), String> {
        let mut taken = 0;
        for n in from..from + 40 {
            let before = self.now().clone();
            let is_taken = self.step(n)?;
            if self.is_interrupted {
                return Ok(());
            }
            // What trims is no program.
            let is_put = matches!(self.image.history().op(n), Op::Put(..));
            taken += u64::from(is_taken && is_put && *self.now() != before);
        }
        if taken > 0 && !self.is_below {
            return Err(format!("{taken} changes after the end"));
        }
        // Syncs are among them; this one comes last.
        let last = (from + 40..).find(|n| self.image.history().op(*n) == Op::Sync).unwrap();
        if !self.step(last)? && !self.is_below {
            return Err(String::from("a sync is refused"));
        }
        if self.is_interrupted { Ok(()) } else { self.read() }
    }

    /// Mounts, and checks that the contents are the newest state or one that the class allows.
    fn mount(&mut self, chip: &Shared<SimChip>) -> Result<(), String> {
        let mounted = open(self.image, Box::new(chip.clone()), How::Mount);
        self.subject = mounted.map_err(|error| format!("a mount: {error}"))?;
        self.is_interrupted = false;
        let found = self.subject.scan().map_err(|error| format!("a scan: {error}"))?;
        let place = self.states.iter().rposition(|state| *state == found);
        let place = place.ok_or_else(|| format!("{} records, which never were", found.len()))?;
        if self.image.class == Durability::EveryOperation && place + 1 < self.states.len() {
            return Err(format!("the state {} changes ago", self.states.len() - 1 - place));
        }
        self.states = vec![found];
        self.read()
    }
}

/// Runs a subject to the end of a counter of some bits; whether it has one.
fn run(image: &Image, bits: u32) -> Result<bool, String> {
    let chip = Shared::new(SimChip::new(&image.part()).unwrap());
    let Ok(subject) = open(image, Box::new(chip.clone()), How::Format) else { return Ok(false) };
    if subject.class() != image.class {
        return Ok(false);
    }
    let is_below = image.kind != Kind::Ftl && bits == FTL_BITS;
    let states = vec![Records::new()];
    let mut life = Life { image, is_below, subject, states, is_interrupted: false, has_ended: false };
    let mut n = 0;
    loop {
        match life.step(n) {
            Ok(true) if n < OPS => n += 1,
            Ok(is_taken) if is_taken => return Ok(false),
            Ok(_) => break,
            Err(error) if error.contains(&IndexError::NO_BLOCK.to_string()) => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    life.has_ended = true;
    if !life.is_interrupted {
        life.go_on(n)?;
    }
    for closes in [true, false, true] {
        if closes && !life.is_interrupted {
            match life.subject.close() {
                Err(error) if !(life.is_below && (is_worn(&error) || error == IndexError::Interrupted)) => {
                    return Err(format!("a close: {error}"));
                }
                _ => {}
            }
        }
        life.mount(&chip)?;
        life.go_on(n).map_err(|fault| format!("mounted: {fault}"))?;
    }
    Ok(true)
}

#[test]
fn the_end_of_a_counter_is_worn_out_and_read_only() {
    let (mut faults, mut ends, step) = (Vec::new(), Vec::new(), stride(7));
    for (first, bits) in WIDTHS.into_iter().enumerate() {
        for (image, end) in wanted().into_iter().skip(2 * first % step).step_by(step) {
            // Without a class nothing is promised after a close that is refused.
            let is_known = end == End::Closed && image.class == Durability::EveryOperation;
            if is_known || image.class == Durability::None {
                continue;
            }
            start_near_end(bits, LEFT);
            let outcome = std::panic::catch_unwind(|| run(&image, bits));
            start_near_end(0, 0);
            match outcome {
                Ok(Ok(true)) => ends.push(format!("{bits} {}", image.name)),
                Ok(Ok(false)) => {}
                Ok(Err(fault)) => faults.push(format!("{bits} bits, {}: {fault}", image.name)),
                Err(_) => faults.push(format!("{bits} bits, {}: panic", image.name)),
            }
        }
    }
    println!("{} ends:\n{}", ends.len(), ends.join("\n"));
    assert!(faults.is_empty(), "{} faults\n{}", faults.len(), faults.join("\n"));
    // A counter that nothing refuses to go beyond has no end: each is counted.
    assert!(if step == 1 { ends.len() == ENDS } else { ends.len() > ENDS / 12 }, "{} ends", ends.len());
}
