//! A buffer unit, its states and its places.

use nandex::units::Lpn;

pub(super) const NONE: u32 = u32::MAX;
/// In [`Unit::base`]: the entries of the base node were never counted.
pub(super) const UNCOUNTED: u16 = u16::MAX;

/// The dirty part of a unit: a chain of cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) head: u32,
    pub(super) len: u32,
}

/// The list that a unit is in.
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
    /// The unit has a copy of the base node only.
    Clean,
    /// The unit has a copy of the base node and changes to it.
    SemiClean,
    /// The unit has changes only.
    Dirty,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Unit {
    pub(super) lpn: Lpn,
    /// The frame of the clean part, or `NONE`.
    pub(super) frame: u32,
    pub(super) part: Part,
    /// Entries of the dirty part that add an entry to the leaf.
    pub(super) adds: u32,
    pub(super) before: u32,
    pub(super) after: u32,
    /// The next unit in the same bucket of the directory.
    pub(super) chain: u32,
    /// Time of the last use. With the commit policy *first-associated*: time at which the dirty part began.
    pub(super) stamp: u32,
    /// Number of entries in the base node, or [`UNCOUNTED`].
    pub(super) base: u16,
    pub(super) place: Place,
    /// Number of nodes written by a commit of this unit, if it is in the dirty list.
    pub(super) writes: u8,
}

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
    /// The state of the unit. `None` while it is being made.
    pub(super) fn state(&self) -> Option<State> {
        match (self.frame != NONE, self.part.len > 0) {
            (true, false) => Some(State::Clean),
            (true, true) => Some(State::SemiClean),
            (false, true) => Some(State::Dirty),
            (false, false) => None,
        }
    }
}

/// The sum over the dirty parts of all units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Waiting {
    /// Units with a dirty part.
    pub(super) units: u64,
    pub(super) entries: u64,
    /// Entries that add an entry to their leaf.
    pub(super) adds: u64,
}
