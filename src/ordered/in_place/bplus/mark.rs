//! The durability class of a tree, and the clean mark of its superblock.

use crate::check::IndexError;
use crate::fault::IndexFault;
use crate::ordered::Durability;

pub(super) struct Mark {
    pub(super) durability: Durability,
    /// True if the superblock on the medium may say clean. It must be cleared before a change.
    pub(super) is_clean: bool,
    /// True if the superblock that was written last says clean; else a sync writes another.
    pub(super) is_marked: bool,
    /// True if a write failed with unknown effect: then nothing in RAM is trusted before the next mount.
    pub(super) is_interrupted: bool,
}

impl Mark {
    pub(super) fn new(durability: Durability, is_clean: bool) -> Mark {
        Mark { durability, is_clean, is_marked: is_clean, is_interrupted: false }
    }

    /// Returns an error after a write whose effect is unknown.
    pub(super) fn ready(&self) -> Result<(), IndexFault> {
        if self.is_interrupted { Err(IndexError::Interrupted.into()) } else { Ok(()) }
    }

    /// True if the mark on the medium must be cleared before a change: in the class *none*, once after each
    /// sync.
    pub(super) fn goes_before_a_change(&self) -> bool {
        self.durability == Durability::None && self.is_clean
    }

    /// Notes the result of a write: an error other than a refusal has an unknown effect.
    pub(super) fn hear<T>(&mut self, written: &Result<T, IndexError>) {
        self.is_interrupted |= written.as_ref().is_err_and(|error| !error.is_refusal());
    }
}
