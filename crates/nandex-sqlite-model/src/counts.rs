//! Counts of one or more lives.

use std::fmt;

/// The counts of lives, one or many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of lives.
    pub lives: u64,
    /// Lives not run, because the FTL does not fit the chip drawn.
    pub unfit: u64,
    /// Statements that both databases executed.
    pub changes: u64,
    /// Statements that both databases refused with the same message.
    pub agreed_errors: u64,
    /// Statements that the volume refused for want of room.
    pub refused: u64,
    /// Backups and `VACUUM INTO` that had room.
    pub copies: u64,
    /// Number of mounts.
    pub mounts: u64,
    /// Power cuts, or processes that were killed.
    pub cuts: u64,
    /// Power cuts during a commit whose changes were all there afterwards.
    pub whole: u64,
}

impl Counts {
    /// Adds the counts of another life.
    pub fn add(&mut self, one: Counts) {
        self.lives += one.lives;
        self.unfit += one.unfit;
        self.changes += one.changes;
        self.agreed_errors += one.agreed_errors;
        self.refused += one.refused;
        self.copies += one.copies;
        self.mounts += one.mounts;
        self.cuts += one.cuts;
        self.whole += one.whole;
    }

    /// Statements executed or refused.
    pub fn statements(&self) -> u64 {
        self.changes + self.agreed_errors + self.refused
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { lives, refused, copies, mounts, cuts, whole, .. } = self;
        let statements = self.statements();
        write!(
            f,
            "{lives} lives, {statements} statements ({refused} found no room), {copies} copies, {mounts} mounts, \
             {cuts} cuts ({whole} in a commit that was there)"
        )
    }
}
