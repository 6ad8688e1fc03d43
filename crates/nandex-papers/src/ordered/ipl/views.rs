//! A view of each block of a chip that was not closed, from the block's own pages.
//!
//! A page is *whole* if its tag or one of its units can be read. A power cut leaves at most one page per
//! session that is not whole, and no later page of that session. So a page that is not whole between two
//! pages of one session is damage (`gap`). A page of zeros is damage too: neither a cut program nor a cut
//! erase leaves one. So is a whole page of another place, or of an earlier life of its block, since a block
//! is erased before it is programmed again. On a chip that tears no pages, every page that is not whole is
//! damage.

use super::layout::{Head, IplTag};
use nandex::units::Pbn;

/// The findings of a look at a block.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub(super) pbn: Pbn,
    /// First tag of the block. It names the merge that opened the block; the merge contains everything up to
    /// its number.
    pub(super) first: IplTag,
    /// Pages of the merge that are whole.
    whole: u16,
    /// The first unit is whole, or begins a whole image.
    begins: bool,
    /// The last image: page, session.
    pub(super) last_image: Option<(u32, u32)>,
    /// The last page with a log unit: page, session.
    pub(super) last_log: Option<(u32, u32)>,
    /// Number of log units found.
    pub(super) units: u16,
    /// True if something is missing between two pages or units that no cut can have removed.
    pub(super) gap: bool,
    pub(super) newest: u64,
}

impl View {
    pub(super) fn new(pbn: Pbn, first: &IplTag) -> View {
        let first = *first;
        let (last_image, last_log) = (None, None);
        View { pbn, first, whole: 0, begins: false, last_image, last_log, units: 0, gap: false, newest: 0 }
    }

    /// True if the merge that opened the block is complete, as far as its pages were examined.
    pub(super) fn is_complete(&self) -> bool {
        self.whole == self.first.merged && self.begins
    }

    /// The last session that programmed a page here.
    pub(super) fn newest_session(&self) -> u32 {
        let last = [self.last_image, self.last_log].into_iter().flatten().map(|(_, session)| session);
        last.fold(self.first.session, u32::max)
    }

    pub(super) fn is_void(&self, committed: u64) -> bool {
        self.first.merged > 0 && self.first.sequence > committed
    }

    pub(super) fn is_empty(&self) -> bool {
        self.last_image.is_none() && self.last_log.is_none()
    }

    /// Notes a whole page, the session of which is known, in an area that begins at `start`.
    pub(super) fn note_page(&mut self, page: u32, tag: &IplTag, start: u32) {
        let before =
            [self.last_image, self.last_log].into_iter().flatten().filter(|last| last.0 >= start).max();
        // The first page of an area that is not whole is noticed by the merge, or by the ordinals of the
        // units.
        self.gap |= before.is_some_and(|(last, session)| last + 1 < page && session == tag.session);
    }

    pub(super) fn note_image(&mut self, page: u32, tag: &IplTag, start: u32) {
        self.note_page(page, tag, start);
        self.whole += u16::from(tag.merged > 0 && tag.merged == self.first.merged);
        self.last_image = Some((page, tag.session));
        self.begins |= page == 0;
        self.newest = self.newest.max(tag.sequence);
    }

    pub(super) fn note_unit(&mut self, page: u32, unit: u16, head: &Head, session: u32) {
        self.begins |= unit == 0;
        self.gap |= head.ordinal != self.units;
        self.units += 1;
        self.last_log = Some((page, session));
    }

    /// Whether a later page of the session that programmed the last image shows that no cut tore it.
    pub(super) fn is_followed(&self) -> bool {
        let image = self.last_image;
        self.last_log.is_some_and(|log| image.is_some_and(|image| log.0 > image.0 && log.1 == image.1))
    }
}
