//! A buffer unit, its states and its places.

use nandex::units::Lpn;

pub(super) const NONE: u32 = u32::MAX;
/// The base node's entries were never counted.
pub(super) const UNCOUNTED: u16 = u16::MAX;

/// The dirty part of a unit: a chain of cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) head: u32,
    pub(super) len: u32,
}

/// Where a unit stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Free,
    Hot,
    Clean,
    Dirty,
    Inner,
}

/// The three states of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// A copy of the base node.
    Clean,
    /// A copy of the base node and changes to it.
    SemiClean,
    /// Changes alone.
    Dirty,
}

/// A buffer unit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unit {
    pub(super) lpn: Lpn,
    /// The frame of the clean part, or none.
    pub(super) frame: u32,
    pub(super) part: Part,
    /// Entries of the dirty part for which the leaf has one entry more.
    pub(super) adds: u32,
    pub(super) before: u32,
    pub(super) after: u32,
    /// The next unit in the same bucket of the directory.
    pub(super) chain: u32,
    /// When it was used last; where the oldest entry's unit is committed first, when its dirty part began.
    pub(super) stamp: u32,
    /// Entries of the base node.
    pub(super) base: u16,
    pub(super) place: Place,
    /// The nodes that committing this unit writes, if it is in the dirty list.
    pub(super) writes: u8,
}

/// A free slot.
pub(super) const FREE: Unit = Unit {
    lpn: Lpn(0),
    frame: NONE,
    part: Part { head: NONE, len: 0 },
    adds: 0,
    before: NONE,
    after: NONE,
    chain: NONE,
    stamp: 0,
    base: UNCOUNTED,
    place: Place::Free,
    writes: 0,
};

impl Unit {
    /// The state of the unit; none while it is being made.
    pub(super) fn state(&self) -> Option<State> {
        match (self.frame != NONE, self.part.len > 0) {
            (true, false) => Some(State::Clean),
            (true, true) => Some(State::SemiClean),
            (false, true) => Some(State::Dirty),
            (false, false) => None,
        }
    }
}

/// The sum of what waits in the dirty parts of all units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Waiting {
    /// Units with a dirty part.
    pub(super) units: u64,
    pub(super) entries: u64,
    /// Entries that their leaf has not.
    pub(super) adds: u64,
}
