//! Pages in place: a log on a chip whose pages may be programmed over, an FTL shown as one
//! ([`crate::nand::Nand::replaces`]).
//!
//! * A new page goes to the lowest place in which nothing lives.
//! * The page that ends an operation, the one with the root, is written over the first page that died in it:
//!   in a mu-Tree the page that held the leaf. What the operation wrote before it lies where nothing lived,
//!   and a store never tears a page, so a power cut leaves the tree before the operation or after it.
//! * Nothing is collected, erased or trimmed, and there is no checkpoint. A mount reads every page once: the
//!   root with the highest number is the tree's, and the tree says what it leads to
//!   (`ordered::path_log::ground::doubt`).
//! * A page that cannot be read may have held the newest root, so a mount refuses it.
//!
//! A page that the store below gives back in an older version is not noticed: its address and its tree are
//! right, and no number of a block tells when it was written.

use crate::blocks::BlockTable;
use crate::blocks::checkpoint::CheckpointArea;
use crate::check::{IndexError, words};
use crate::codec::first_number;
use crate::fault::IndexFault;
use crate::log::recovery::{Found, corrupted};
use crate::log::state::State;
use crate::log::{Log, LogConfig, Root, tag};
use crate::nand::{Cause, Differs, Geometry, Nand, Unfit, unfit};
use crate::units::{Pbn, Ppn};

/// Where pages are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// Each to a new place, block after block.
    #[default]
    OutOfPlace,
    /// Over the page that they replace.
    InPlace,
}

/// The state of a log in which nothing lives yet. All blocks count as full: nothing is ever written to one in
/// order.
pub(super) fn placed_state(geometry: Geometry, owner: &[u8]) -> (CheckpointArea, State) {
    let mut blocks = BlockTable::new(geometry);
    for pbn in (0..geometry.blocks).map(Pbn) {
        blocks.claim(pbn);
        blocks.close(pbn);
    }
    (CheckpointArea::empty(geometry), State::new(blocks, owner))
}

impl<N: Nand> Log<N> {
    pub(super) fn format_placed(nand: N, config: LogConfig, owner: &[u8]) -> Result<Log<N>, IndexFault> {
        let mut log = Log::place(nand, config, owner)?;
        log.sequence = first_number(tag::SEQUENCE_BITS, 0);
        for pbn in (0..log.geometry.blocks).map(Pbn) {
            log.nand.erase(pbn, Cause::Checkpoint)?;
        }
        Ok(log)
    }

    /// Finds the newest root again where pages keep their places. What it leads to is in doubt until the tree
    /// says so.
    pub fn mount_placed(nand: N, config: LogConfig, owner: &[u8]) -> Result<Log<N>, IndexFault> {
        let mut log = Log::place(nand, config, owner)?;
        log.find_placed()?;
        Ok(log)
    }

    /// Reads every page for the newest root.
    pub(super) fn find_placed(&mut self) -> Result<(), IndexFault> {
        self.recount();
        let (mut newest, mut broken) = (0, None);
        for ppn in (0..self.geometry.pages()).map(Ppn) {
            match self.read_raw(ppn)? {
                Found::Erased => {}
                Found::Page if self.page.place().home == self.geometry.block_of(ppn).0 => {
                    let sequence = self.page.place().sequence;
                    self.sequence = self.sequence.max(sequence);
                    let tag = tag::tag_of(&self.page.spare);
                    if tag.root && sequence > newest {
                        newest = sequence;
                        self.root = Some(Root { ppn, height: tag.height });
                    }
                }
                Found::Foreign => {
                    return Err(IndexError::other(
                        Differs::Settings,
                        words("the tree on the chip does not keep its pages in place"),
                    )
                    .into());
                }
                Found::Page | Found::Garbage => broken = broken.or(Some(ppn)),
            }
        }
        if let Some(ppn) = broken.filter(|_| self.sequence > 0) {
            return Err(corrupted("a page that cannot be read may be the newest root", ppn.0));
        }
        self.in_doubt = true;
        Ok(())
    }

    /// A log in which nothing lives yet.
    fn place(nand: N, config: LogConfig, owner: &[u8]) -> Result<Log<N>, IndexFault> {
        let geometry = nand.geometry();
        crate::log::recovery::check_config(&geometry, &config)?;
        if !nand.replaces() {
            return Err(IndexError::Unsupported(
                words("placement = in_place needs an FTL beneath: a page of a chip takes one program").into(),
            )
            .into());
        }
        if config.write_pages > 0 {
            return Err(IndexError::Unsupported(
                words(
                    "placement = in_place takes no write part: what waits in it would be written out of turn",
                )
                .into(),
            )
            .into());
        }
        let (area, state) = placed_state(geometry, owner);
        let mut log = Log::assemble(nand, config, area, state);
        log.recount();
        Ok(log)
    }

    /// The contents of a chip on which no root was found.
    #[cold]
    pub fn unfit(&mut self, what: &'static str) -> Result<Unfit, IndexFault> {
        Ok(unfit(&mut self.nand, what)?)
    }

    /// Whether pages keep their places.
    pub fn is_placed(&self) -> bool {
        self.config.is_placed()
    }

    /// The lowest place in which nothing lives.
    pub(super) fn free_place(&mut self) -> Result<Ppn, IndexFault> {
        let places = (self.next_free..self.geometry.pages()).map(Ppn);
        let free = places.into_iter().find(|ppn| !self.blocks.is_valid(*ppn)).ok_or(IndexError::Full)?;
        self.next_free = free.0 + 1;
        Ok(free)
    }

    /// The address of the page that ends an operation: where pages keep their places, that of the first page
    /// that died in it.
    pub fn allocate_last(&mut self, cause: Cause) -> Result<Ppn, IndexFault> {
        let replaced = self.dying.first().copied().filter(|_| self.is_placed());
        let Some(ppn) = replaced else { return self.allocate(cause) };
        // A damaged tree may have led to it twice.
        self.dying.retain(|other| *other != ppn);
        debug_assert!(self.blocks.is_valid(ppn), "{ppn} is written over and held nothing");
        self.blocks.invalidate(ppn);
        Ok(ppn)
    }
}
