//! Pages that go to the store below at once, past the buffer blocks: those of which a rule says that they
//! will not change soon.
//!
//! Section 6.2 of the paper: a node "fulfilled by sequentially ordered keys [...] was directly written into
//! flash". Such a page mostly has older versions in its buffer block, which a mount would merge over it. So a
//! page without contents follows there that says so; the write below comes first. A cut in between leaves the
//! older version, as if the page had not been written.

use super::Tbm;
use super::page::Content;
use alloc::boxed::Box;
use nandex::fault::StoreFault;
use nandex::nand::{Cause, Nand};
use nandex::store::PageStore;
use nandex::units::Lpn;

/// A rule on the contents of a page: true sends the page to the store below at once.
pub type DirectRule = Box<dyn Fn(&[u8]) -> bool + Send>;

/// The rule for pages that skip the buffer blocks, and the number of pages that did.
pub(super) struct Direct {
    rule: DirectRule,
    pages: u64,
}

impl Direct {
    pub(super) fn takes(&self, data: &[u8]) -> bool {
        (self.rule)(data)
    }
}

/// Bytes of RAM of a rule: its box and an allowance for the values it captures.
pub(crate) const RULE_BYTES: usize = size_of::<Direct>() + 128;

impl<S: PageStore, N: Nand> Tbm<S, N> {
    /// Sets the rule for pages that go to the store below at once. It applies to pages written alone, from
    /// now on. The rule is not stored on the chip.
    pub fn write_directly(&mut self, rule: DirectRule) {
        self.direct = Some(Box::new(Direct { rule, pages: 0 }));
    }

    /// Pages sent to the store below at once by the rule, since it was set.
    pub fn direct_pages(&self) -> u64 {
        self.direct.as_ref().map_or(0, |direct| direct.pages)
    }

    /// Writes a page to the store below. If a buffer block holds an older version, a note follows there
    /// that the page is below.
    pub(super) fn write_direct(&mut self, lpn: Lpn, cause: Cause, data: &[u8]) -> Result<(), StoreFault> {
        let (lbn, place) = self.split(lpn);
        let has_older = self.summary.get(lbn).is_some_and(|buffer| buffer.find(place).is_some());
        // What must be converted for the note is, before: it may be an older version of this page.
        let room = if has_older { self.make_room(&[(lpn, None)])?.pop() } else { None };
        debug_assert_eq!(room.is_some(), has_older, "a note without room");
        self.store.write(lpn, cause, data)?;
        if !self.store.durable_writes() {
            self.store.sync()?;
        }
        if let Some(room) = room {
            let tag = self.versions.tag(lpn, Content::Below, (true, true));
            self.append(room, tag, cause, None).map_err(|error| self.stopped(error.into()))?;
        }
        self.note_found(lpn);
        self.tell_lost()?;
        self.counters.page_writes += 1;
        if let Some(direct) = &mut self.direct {
            direct.pages += 1;
        }
        Ok(())
    }
}
