//! Counts of lives.

use std::fmt;

/// The counts of lives, one or many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Lives.
    pub lives: u64,
    /// Set-ups whose FTL does not fit on their chip.
    pub unfit: u64,
    /// Statements that both took.
    pub changes: u64,
    /// Statements that both refused in the same words.
    pub agreed_errors: u64,
    /// Statements for which the volume had no room.
    pub refused: u64,
    /// Backups and `VACUUM INTO` that had room.
    pub copies: u64,
    /// Mounts.
    pub mounts: u64,
    /// Power cuts, or processes that were killed.
    pub cuts: u64,
    /// Cuts in a commit that was there, whole.
    pub whole: u64,
}

impl Counts {
    /// Adds those of another life.
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

    /// Statements, those that were refused among them.
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
