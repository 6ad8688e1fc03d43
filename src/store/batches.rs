//! State of a batch of writes, for layers that finish in RAM a batch of which a part was accepted.

/// The open batch, if there is one. Batches may nest.
#[derive(Clone, Copy, Debug, Default)]
pub struct Batch {
    depth: u32,
    is_begun: bool,
}

impl Batch {
    /// Returns the state in which no batch is open.
    pub const fn new() -> Batch {
        Batch { depth: 0, is_begun: false }
    }

    /// Begins a batch, possibly within another.
    pub fn begin(&mut self) {
        self.is_begun &= self.depth > 0;
        self.depth += 1;
    }

    /// Ends the batch begun last.
    pub fn end(&mut self) {
        debug_assert!(self.depth > 0, "a batch ends that was not begun");
        self.depth = self.depth.saturating_sub(1);
    }

    /// Notes that a write of the batch was accepted.
    pub fn took(&mut self) {
        self.is_begun = true;
    }

    /// Returns true if the writes taken so far would be half a batch without the rest.
    pub const fn must_finish(&self) -> bool {
        self.depth > 0 && self.is_begun
    }
}
