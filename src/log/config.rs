//! How a log is set up.

use crate::ftl::victim::VictimPolicy;

/// When an overfull write part is programmed. The part counts as overfull when it holds more pages than its size, so that
/// the page written last is always at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flush {
    /// When the next operation begins: an operation is never divided.
    BetweenOperations,
    /// Before another page is added, be it in the middle of an operation: for a tree whose operations write more pages than
    /// the part holds. The root being last keeps the operation whole.
    BetweenPages,
}

/// How a log is set up; none of it is stored on the chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// Pages of the read part; 0 for none.
    pub read_pages: usize,
    /// Pages of the write part, at most 200; 0 for none.
    pub write_pages: usize,
    /// When the write part is programmed.
    pub flush: Flush,
    /// Which block is collected.
    pub victim: VictimPolicy,
    /// Garbage is collected while at most this many blocks are free.
    pub collect_at_blocks: u32,
    /// A checkpoint is written after this many blocks were opened.
    pub checkpoint_blocks: u32,
    /// Whether its owner has addresses held (`Log::hold`).
    pub holds: bool,
}

impl Default for LogConfig {
    fn default() -> LogConfig {
        LogConfig {
            read_pages: 0,
            write_pages: 0,
            flush: Flush::BetweenOperations,
            victim: VictimPolicy::Greedy,
            collect_at_blocks: 2,
            checkpoint_blocks: 16,
            holds: false,
        }
    }
}
