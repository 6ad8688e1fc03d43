//! The steps of a life, each a line of text.

use crate::crash::ops::HostOp;
use nandex::nand::sim::{CutWhen, Faults, PowerCut, TornModel};
use std::fmt;

/// One step of a life. Each can be carried out whatever came before it, so that any of them may be left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// An operation of the user; a remount is a close and the power going off.
    Op(HostOp),
    /// The power goes off between two operations.
    Off,
    /// The power will be cut; when it is off, this also mounts.
    Cut(Cut),
    /// From here on the chip fails at these rates.
    Fail(Rates),
    /// The contents are compared in full; mounts when the power is off.
    Look,
}

/// A cut to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    /// Physical operations from now until it strikes.
    pub(crate) after: u64,
    pub(crate) when: CutWhen,
    pub(crate) torn: TornModel,
    pub(crate) seed: u64,
}

impl Cut {
    /// As the chip takes it when so many physical operations were done.
    pub(crate) fn planned(&self, operations: u64) -> PowerCut {
        let at_operation = operations.saturating_add(self.after);
        PowerCut { at_operation, when: self.when, torn: self.torn, seed: self.seed }
    }
}

/// How often the chip fails, in a million.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rates {
    pub(crate) programs: u32,
    pub(crate) erases: u32,
    pub(crate) reads: u32,
    pub(crate) seed: u64,
}

impl Rates {
    pub(crate) fn faults(&self) -> Faults {
        Faults {
            seed: self.seed,
            program_failures_ppm: self.programs,
            erase_failures_ppm: self.erases,
            read_failures_ppm: self.reads,
            ..Faults::default()
        }
    }
}

pub(crate) const WHENS: [(CutWhen, &str); 3] =
    [(CutWhen::Before, "before"), (CutWhen::Inside, "inside"), (CutWhen::After, "after")];

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Op(HostOp::Put(slot)) => write!(f, "put {slot}"),
            Step::Op(HostOp::Remove(slot)) => write!(f, "remove {slot}"),
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
                write!(f, "fail {} {} {} {}", rates.programs, rates.erases, rates.reads, rates.seed)
            }
            Step::Look => write!(f, "look"),
        }
    }
}
