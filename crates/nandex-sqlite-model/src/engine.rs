//! The databases of a life: one on a volume, one in memory.

use nandex::nand::sim::{CutWhen, TornModel};
use std::fmt;

/// One of the two databases that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Flash,
    Plain,
}

/// Reason why a request was not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum No {
    /// The volume has no room.
    Full,
    /// The power is off, or the process is gone.
    Off,
    /// Another refusal, in SQLite's words.
    Said(String),
}

impl fmt::Display for No {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            No::Full => f.write_str("no room"),
            No::Off => f.write_str("the power is off"),
            No::Said(words) => f.write_str(words),
        }
    }
}

/// A power cut after a number of operations of the chip.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut {
    pub(crate) after: u64,
    pub(crate) when: CutWhen,
    pub(crate) torn: TornModel,
    pub(crate) seed: u64,
}

/// A way to a SQLite.
pub(crate) trait Engine {
    /// Runs a statement; the first column of every row.
    fn read(&mut self, side: Side, sql: &str) -> Result<Vec<String>, No>;
    /// Runs a statement and drops its rows.
    fn run(&mut self, side: Side, sql: &str) -> Result<(), No> {
        self.read(side, sql).map(drop)
    }
    fn in_transaction(&mut self, side: Side) -> bool;
    /// Copies the main database of the volume into another file of the volume while it is in use.
    fn back_up(&mut self, name: &str) -> Result<(), No>;
    fn plan_cut(&mut self, cut: Cut);
    /// Closes the database on the volume, mounts the volume with the power on, and opens a database.
    fn mount(&mut self, name: &str) -> Result<(), No>;
    /// The name of a file of the volume in SQL.
    fn uri(&self, name: &str) -> String;
    /// Bytes that the volume has for files, about.
    fn bytes(&self) -> u64;
}
