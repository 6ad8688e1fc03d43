//! How a log is set up.

use crate::ftl::victim::VictimPolicy;

/// What a child costs that lies in the same page as its parent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SamePage {
    /// Nothing: the page is at hand.
    #[default]
    Free,
    /// A read, as every other level does.
    Read,
}

/// How a log is set up; none of it is stored on the chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// Pages of the read part; 0 for none.
    pub read_pages: usize,
    /// Pages of the write part, at most 200; 0 for none. When it holds more, it is programmed before the next operation
    /// begins, never within one: pages that the operation replaced have given up their places in it by then.
    pub write_pages: usize,
    /// Which block is collected.
    pub victim: VictimPolicy,
    /// Garbage is collected while at most this many blocks are free.
    pub collect_at_blocks: u32,
    /// A checkpoint is written after this many blocks were opened.
    pub checkpoint_blocks: u32,
    /// Whether its owner has addresses held (`Log::hold`).
    pub holds: bool,
    /// What the next level costs where it lies in the page at hand.
    pub same_page: SamePage,
}

impl Default for LogConfig {
    fn default() -> LogConfig {
        LogConfig {
            read_pages: 0,
            write_pages: 0,
            victim: VictimPolicy::Greedy,
            collect_at_blocks: 2,
            checkpoint_blocks: 16,
            holds: false,
            same_page: SamePage::Free,
        }
    }
}
