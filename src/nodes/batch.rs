//! Batches of writes, which are finished once a node of them was taken.

/// How far a batch of writes is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Batch {
    depth: u32,
    /// A node of it was taken.
    pub(super) is_begun: bool,
    /// More units wait than there is room for, because the store refuses to take them.
    pub(super) is_overfull: bool,
}

impl Batch {
    pub(super) fn begin(&mut self) {
        self.is_begun &= self.depth > 0;
        self.depth += 1;
    }

    pub(super) fn end(&mut self) {
        self.depth = self.depth.saturating_sub(1);
    }

    /// Whether what was taken would be half a batch without the rest.
    pub(super) fn must_finish(&self) -> bool {
        self.depth > 0 && self.is_begun
    }
}
