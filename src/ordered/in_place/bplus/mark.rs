//! The durability class of a tree, and the clean mark of its superblock.

use crate::check::IndexError;
use crate::fault::IndexFault;
use crate::ordered::Durability;

/// The class of a tree and the clean mark of its superblock.
pub(super) struct Mark {
    pub(super) durability: Durability,
    /// Whether the superblock may say clean: that goes before a change.
    pub(super) is_clean: bool,
    /// Whether the superblock that was written last says so: else a sync writes another.
    pub(super) is_marked: bool,
    /// Whether a write failed with unknown effect: nothing is believed before the next mount.
    pub(super) is_interrupted: bool,
}

impl Mark {
    pub(super) fn new(durability: Durability, is_clean: bool) -> Mark {
        Mark { durability, is_clean, is_marked: is_clean, is_interrupted: false }
    }

    /// Refuses to go on after a write whose effect is unknown.
    pub(super) fn ready(&self) -> Result<(), IndexFault> {
        if self.is_interrupted { Err(IndexError::Interrupted.into()) } else { Ok(()) }
    }

    /// Whether the mark on the medium must go before a change: in the class *none*, once after each sync.
    pub(super) fn goes_before_a_change(&self) -> bool {
        self.durability == Durability::None && self.is_clean
    }

    /// Hears how a write ended.
    pub(super) fn hear<T>(&mut self, written: &Result<T, IndexError>) {
        self.is_interrupted |= written.as_ref().is_err_and(|error| !error.is_refusal());
    }
}
