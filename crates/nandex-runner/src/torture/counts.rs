//! Lives in numbers.

use serde::Serialize;

/// The counts of one life, or of many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Lives lived.
    pub lives: u64,
    /// Operations of the user.
    pub operations: u64,
    /// The operations refused because no room was left or too many blocks had failed.
    pub refused: u64,
    /// Mounts.
    pub mounts: u64,
    /// Power cuts that struck.
    pub cuts: u64,
    /// Power-offs between two operations.
    pub offs: u64,
    /// Lives that went on until nothing could be written any more.
    pub deaths: u64,
    /// Removals refused at a full chip although room was found later.
    pub removals_refused: u64,
    /// Lives not lived because the victim takes no such chip.
    pub skipped: u64,
    /// Setups drawn that the victim refused, until it took one.
    pub setups_refused: u64,
}

impl Counts {
    /// Adds those of other lives.
    pub fn add(&mut self, other: &Counts) {
        self.lives += other.lives;
        self.operations += other.operations;
        self.refused += other.refused;
        self.mounts += other.mounts;
        self.cuts += other.cuts;
        self.offs += other.offs;
        self.deaths += other.deaths;
        self.removals_refused += other.removals_refused;
        self.skipped += other.skipped;
        self.setups_refused += other.setups_refused;
    }
}
