//! How far a batch of writes is, for layers that finish one in RAM once a part of it was taken.

/// The batch that is open, if one is; batches may lie within each other.
#[derive(Clone, Copy, Debug, Default)]
pub struct Batch {
    depth: u32,
    is_begun: bool,
}

impl Batch {
    /// No batch is open.
    pub const fn new() -> Batch {
        Batch { depth: 0, is_begun: false }
    }

    /// A batch begins, within another perhaps.
    pub fn begin(&mut self) {
        self.is_begun &= self.depth > 0;
        self.depth += 1;
    }

    /// The batch begun last ends.
    pub fn end(&mut self) {
        debug_assert!(self.depth > 0, "a batch ends that was not begun");
        self.depth = self.depth.saturating_sub(1);
    }

    /// Something was taken.
    pub fn took(&mut self) {
        self.is_begun = true;
    }

    /// Whether what was taken would be half a batch without the rest.
    pub const fn must_finish(&self) -> bool {
        self.depth > 0 && self.is_begun
    }
}
