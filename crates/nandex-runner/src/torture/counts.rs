//! Counts of lives and their events.

use serde::Serialize;

/// The counts of one or more lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Number of lives lived.
    pub lives: u64,
    /// Number of operations of the user.
    pub operations: u64,
    /// Number of operations refused because no room was left or too many blocks had failed.
    pub refused: u64,
    /// Number of mounts.
    pub mounts: u64,
    /// Number of power cuts that struck.
    pub cuts: u64,
    /// Number of power-offs between two operations.
    pub offs: u64,
    /// Number of lives that lasted until nothing could be written any more.
    pub deaths: u64,
    /// Number of removals refused at a full chip although room was found later.
    pub removals_refused: u64,
    /// Number of lives skipped because the victim does not support the chip.
    pub skipped: u64,
    /// Number of drawn setups that the victim refused before it accepted one.
    pub setups_refused: u64,
}

impl Counts {
    /// Adds the counts of other lives.
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
