//! Places of the table of moves.

use alloc::vec::Vec;

/// Table, with entries as narrow as the chip allows.
#[derive(Clone, Debug)]
pub(super) enum Table {
    Narrow(Vec<(u16, u16)>),
    Wide(Vec<(u32, u32)>),
}

impl Table {
    pub(super) fn len(&self) -> usize {
        match self {
            Table::Narrow(entries) => entries.len(),
            Table::Wide(entries) => entries.len(),
        }
    }

    #[inline]
    pub(super) fn get(&self, at: usize) -> Option<(u32, u32)> {
        match self {
            Table::Narrow(entries) => {
                let (named, now) = entries[at];
                (named != u16::MAX).then_some((u32::from(named), u32::from(now)))
            }
            Table::Wide(entries) => Some(entries[at]).filter(|entry| entry.0 != u32::MAX),
        }
    }

    /// Sets the entry in a place, or clears the place.
    pub(super) fn set(&mut self, at: usize, entry: Option<(u32, u32)>) {
        debug_assert!(
            entry.is_none_or(|(named, now)| named != u32::MAX && now != u32::MAX),
            "R9: a move from or to nowhere"
        );
        match self {
            Table::Narrow(entries) => {
                debug_assert!(
                    entry.is_none_or(|(named, now)| named.max(now) < u32::from(u16::MAX)),
                    "R9: a move too wide for the table"
                );
                entries[at] = entry.map_or((u16::MAX, 0), |(named, now)| (named as u16, now as u16));
            }
            Table::Wide(entries) => entries[at] = entry.unwrap_or((u32::MAX, 0)),
        }
    }
}
