//! Facts that a mount remembers of each page programmed since the checkpoint.

use crate::units::Ppn;

/// Page with a logical page in it, programmed after the checkpoint. There may be one for each page of the
/// chip, so it is small.
#[derive(Clone, Copy)]
pub(super) struct Event {
    pub(super) lpn: u32,
    pub(super) ppn: Ppn,
    /// Version, counted from 1 since the checkpoint. 0 stands for all versions before it, of which a logical
    /// page has only one. The lowest bit tells whether the page can be read.
    pub(super) version_and: u32,
}

impl Event {
    pub(super) fn readable(&self) -> bool {
        self.version_and & 1 == 1
    }
}

/// Reference point for the versions in events.
#[derive(Clone, Copy)]
pub(super) struct Since {
    /// First version after the checkpoint. `committed` is the last version that was committed before it.
    pub(super) first: u64,
    pub(super) committed: u64,
}

impl Since {
    /// Makes an event. There are no more versions since the checkpoint than pages. A version far beyond them
    /// comes from random bytes that passed for a page; it is capped, and stays beyond every horizon.
    pub(super) fn event(self, lpn: u32, version: u64, readable: bool, ppn: Ppn) -> Event {
        let since = (version + 1).saturating_sub(self.first).min(u64::from(u32::MAX >> 1));
        Event { lpn, ppn, version_and: (since as u32) << 1 | u32::from(readable) }
    }

    /// Version of an event. For a page from before the checkpoint, the last version committed then.
    pub(super) fn version(self, event: &Event) -> u64 {
        match u64::from(event.version_and >> 1) {
            0 => self.committed,
            since => self.first - 1 + since,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_come_back_and_old_ones_are_one() {
        let since = Since { first: 1000, committed: 990 };
        for (version, told) in [(3, 990), (999, 990), (1000, 1000), (70_000, 70_000)] {
            for readable in [false, true] {
                let event = since.event(5, version, readable, Ppn(9));
                assert_eq!((since.version(&event), event.readable()), (told, readable));
            }
        }
        let far = since.version(&since.event(5, 1 << 39, true, Ppn(9)));
        assert!(far > 1 << 30, "{far}: it stays beyond every horizon");
        assert_eq!(size_of::<Event>(), 12);
    }
}
