//! The steps of a life, each a line of text.

use super::case::number;
use crate::crash::ops::HostOp;
use nandex::nand::sim::{CutWhen, Faults, PowerCut, TornModel};
use std::fmt;
use std::str::FromStr;

/// One step of a life. Each can follow any other, so any of them can be left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// An operation of the user. A remount is a close followed by a power-off.
    Op(HostOp),
    /// The power is cut between two operations.
    Off,
    /// A power cut is armed. If the power is off, the victim is mounted as well.
    Cut(Cut),
    /// The chip fails at these rates from now on.
    Fail(Rates),
    Aside(Aside),
    /// All contents are compared. If the power is off, the victim is mounted first.
    Look,
}

/// A call of the user that changes no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aside {
    /// Scrubs weak pages within this budget.
    Scrub(u32),
    /// Does maintenance within this budget.
    Maintain(u32),
    /// Asks for the free room.
    Free,
    /// Moves the cursor to a slot or to the next one with a value.
    Seek(u32),
    /// Moves the cursor `records` records forward if `on` is set, else back. Changes made since its last
    /// move must show.
    Walk { records: u32, on: bool },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    /// Number of physical operations until the cut.
    pub(crate) after: u64,
    pub(crate) when: CutWhen,
    pub(crate) torn: TornModel,
    pub(crate) seed: u64,
}

impl Cut {
    /// The cut for the chip, which has done `operations` physical operations so far.
    pub(crate) fn planned(&self, operations: u64) -> PowerCut {
        let at_operation = operations.saturating_add(self.after);
        PowerCut { at_operation, when: self.when, torn: self.torn, seed: self.seed }
    }
}

/// Failure rates of the chip, in a million.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rates {
    pub(crate) programs: u32,
    pub(crate) erases: u32,
    pub(crate) reads: u32,
    /// Rate of reads that succeed only just.
    pub(crate) weak: u32,
    pub(crate) seed: u64,
}

impl Rates {
    pub(crate) fn faults(&self) -> Faults {
        Faults {
            seed: self.seed,
            program_failures_ppm: self.programs,
            erase_failures_ppm: self.erases,
            read_failures_ppm: self.reads,
            weak_reads_ppm: self.weak,
            // A page is read three times before it is given up.
            read_failures_in_row: 2,
            ..Faults::default()
        }
    }
}

pub(crate) const WHENS: [(CutWhen, &str); 3] =
    [(CutWhen::Before, "before"), (CutWhen::Inside, "inside"), (CutWhen::After, "after")];

impl fmt::Display for Aside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Aside::Scrub(budget) => write!(f, "scrub {budget}"),
            Aside::Maintain(budget) => write!(f, "maintain {budget}"),
            Aside::Free => write!(f, "free"),
            Aside::Seek(slot) => write!(f, "seek {slot}"),
            Aside::Walk { records, on } => write!(f, "walk {}{records}", sign(*on)),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Op(HostOp::Put(slot)) => write!(f, "put {slot}"),
            Step::Op(HostOp::Blind(slot)) => write!(f, "blind {slot}"),
            Step::Op(HostOp::Remove(slot)) => write!(f, "remove {slot}"),
            Step::Op(HostOp::Load(slots)) => write!(f, "load {slots}"),
            Step::Op(HostOp::Mixed(changes)) => {
                write!(f, "mixed")?;
                changes.iter().try_for_each(|&(slot, puts)| write!(f, " {}{slot}", sign(puts)))
            }
            Step::Op(HostOp::Group(slots)) => {
                write!(f, "group")?;
                slots.iter().try_for_each(|slot| write!(f, " {slot}"))
            }
            Step::Op(HostOp::Sync | HostOp::Remount { close: false }) => write!(f, "sync"),
            Step::Op(HostOp::Remount { close: true }) => write!(f, "close"),
            Step::Off => write!(f, "off"),
            Step::Cut(cut) => {
                let when = WHENS.iter().find(|(when, _)| *when == cut.when).map_or("", |(_, name)| name);
                write!(f, "cut {} {when} {} {}", cut.after, cut.torn.name(), cut.seed)
            }
            Step::Fail(rates) => {
                write!(f, "fail {} {} {} {}", rates.programs, rates.erases, rates.reads, rates.seed)?;
                if rates.weak > 0 { write!(f, " {}", rates.weak) } else { Ok(()) }
            }
            Step::Aside(aside) => write!(f, "{aside}"),
            Step::Look => write!(f, "look"),
        }
    }
}

impl FromStr for Step {
    type Err = String;

    fn from_str(text: &str) -> Result<Step, String> {
        let mut words = text.split_whitespace();
        let first = words.next().unwrap_or_default();
        let rest: Vec<&str> = words.collect();
        Ok(match (first, &rest[..]) {
            ("put", [slot]) => Step::Op(HostOp::Put(number(slot)?)),
            ("blind", [slot]) => Step::Op(HostOp::Blind(number(slot)?)),
            ("remove", [slot]) => Step::Op(HostOp::Remove(number(slot)?)),
            ("load", [slots]) => Step::Op(HostOp::Load(number(slots)?)),
            ("mixed", changes) if !changes.is_empty() => {
                let changes = changes.iter().map(|change| signed(change));
                Step::Op(HostOp::Mixed(changes.collect::<Result<Vec<(u32, bool)>, String>>()?))
            }
            ("scrub", [budget]) => Step::Aside(Aside::Scrub(number(budget)?)),
            ("maintain", [budget]) => Step::Aside(Aside::Maintain(number(budget)?)),
            ("free", []) => Step::Aside(Aside::Free),
            ("seek", [slot]) => Step::Aside(Aside::Seek(number(slot)?)),
            ("walk", [records]) => {
                let (records, on) = signed(records)?;
                Step::Aside(Aside::Walk { records, on })
            }
            ("group", slots) if !slots.is_empty() => {
                let slots = slots.iter().map(|slot| number(slot)).collect::<Result<Vec<u32>, String>>();
                Step::Op(HostOp::Group(slots?))
            }
            ("sync", []) => Step::Op(HostOp::Sync),
            ("close", []) => Step::Op(HostOp::Remount { close: true }),
            ("off", []) => Step::Off,
            ("look", []) => Step::Look,
            ("cut", [after, when, torn, seed]) => {
                let when = WHENS.iter().find(|(_, name)| name == when);
                let torn = TornModel::ALL.into_iter().find(|model| model.name() == *torn);
                let (Some((when, _)), Some(torn)) = (when, torn) else {
                    return Err(format!("'{text}' is no cut, such as: cut 3 inside prefix 17"));
                };
                Step::Cut(Cut { after: number(after)?, when: *when, torn, seed: number(seed)? })
            }
            ("fail", [programs, erases, reads, seed, weak @ ..]) if weak.len() < 2 => {
                let [programs, erases, reads] = [rate(programs)?, rate(erases)?, rate(reads)?];
                let weak = weak.first().map_or(Ok(0), |weak| rate(weak))?;
                Step::Fail(Rates { programs, erases, reads, weak, seed: number(seed)? })
            }
            _ => return Err(format!("'{text}' is no step")),
        })
    }
}

fn sign(is_plus: bool) -> char {
    if is_plus { '+' } else { '-' }
}

/// Parses a number with a sign; a plus returns true.
fn signed(text: &str) -> Result<(u32, bool), String> {
    match text.split_at_checked(1) {
        Some((sign @ ("+" | "-"), rest)) => Ok((number(rest)?, sign == "+")),
        _ => Err(format!("'{text}' has no sign, as +7 and -7 have")),
    }
}

fn rate(text: &str) -> Result<u32, String> {
    number(text)
        .and_then(|rate| if rate <= 1_000_000 { Ok(rate) } else { Err(format!("{rate} is too often")) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_read_as_they_are_written() {
        let cut = Cut { after: 3, when: CutWhen::Inside, torn: TornModel::LooksErased, seed: 9 };
        let steps = [
            Step::Op(HostOp::Put(7)),
            Step::Op(HostOp::Blind(9)),
            Step::Op(HostOp::Remove(8)),
            Step::Op(HostOp::Mixed(vec![(1, true), (2, false), (1, true)])),
            Step::Op(HostOp::Load(12)),
            Step::Aside(Aside::Scrub(3)),
            Step::Aside(Aside::Maintain(4)),
            Step::Aside(Aside::Free),
            Step::Aside(Aside::Seek(5)),
            Step::Aside(Aside::Walk { records: 6, on: true }),
            Step::Aside(Aside::Walk { records: 7, on: false }),
            Step::Op(HostOp::Group(vec![1, 2, 3])),
            Step::Op(HostOp::Sync),
            Step::Op(HostOp::Remount { close: true }),
            Step::Off,
            Step::Cut(cut),
            Step::Fail(Rates { programs: 1, erases: 2, reads: 3, weak: 0, seed: 4 }),
            Step::Fail(Rates { programs: 1, erases: 2, reads: 3, weak: 5, seed: 4 }),
            Step::Look,
        ];
        for step in steps {
            assert_eq!(step.to_string().parse::<Step>().unwrap(), step);
        }
        for wrong in [
            "",
            "put",
            "put x",
            "group",
            "cut 3 inside torn 1",
            "fail 1 2 2000000 4",
            "mixed",
            "mixed 4",
            "walk 4",
            "jump",
        ] {
            assert!(wrong.parse::<Step>().is_err(), "{wrong}");
        }
    }
}
