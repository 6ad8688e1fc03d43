//! Pages in place: a log on a chip whose pages may be programmed again, which is an FTL shown as a chip
//! ([`crate::nand::Nand::replaces`]).
//!
//! * A new page goes to the lowest place without a valid page.
//! * The page that ends an operation, the one with the root, is written over the first page that died in it:
//!   in a mu-Tree the page that held the leaf. All earlier pages of the operation went to places without a
//!   valid page, and a store never tears a page, so a power cut leaves the tree before the operation or after
//!   it.
//! * Nothing is collected, erased or trimmed, and there is no checkpoint. A mount reads every page once. The
//!   root with the highest number is the tree's, and the tree tells what it leads to
//!   (`ordered::path_log::ground::doubt`).
//! * A page that cannot be read may have held the newest root, so a mount refuses it.
//!
//! A page that the store below gives back in an older version is not noticed: its address and its tree are
//! right, and no number of a block tells when it was written.

use super::medium::Found;
use super::recovery::{Mount, check_config, corrupted};
use super::state::State;
use super::tape::Tape;
use super::{LogConfig, Root, tag};
use crate::blocks::BlockTable;
use crate::blocks::checkpoint::CheckpointArea;
use crate::check::{IndexError, words};
use crate::codec::first_number;
use crate::fault::IndexFault;
use crate::nand::{Cause, Differs, Geometry, Nand};
use crate::units::{Pbn, Ppn};

/// Where pages are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(feature = "unstable"), non_exhaustive)]
pub enum Placement {
    /// Each page goes to a new place, block after block.
    #[default]
    OutOfPlace,
    /// A page is written over the page that it replaces.
    InPlace,
}

/// State of a log without valid pages. All blocks count as full: none is ever written in order.
pub(super) fn placed_state(geometry: Geometry, owner: &[u8]) -> (CheckpointArea, State) {
    let mut blocks = BlockTable::new(geometry);
    for pbn in (0..geometry.blocks).map(Pbn) {
        blocks.claim(pbn);
        blocks.close(pbn);
    }
    (CheckpointArea::empty(geometry), State::new(blocks, owner))
}

impl<N: Nand> Tape<N> {
    /// Erases a chip for pages that keep their places.
    pub(super) fn format_placed(nand: N, config: LogConfig, owner: &[u8]) -> Result<Tape<N>, IndexFault> {
        let mut tape = Tape::place(nand, config, owner)?;
        tape.head.sequence = first_number(tag::SEQUENCE_BITS, 0);
        for pbn in (0..tape.medium.geometry.blocks).map(Pbn) {
            tape.medium.nand.erase(pbn, Cause::Checkpoint)?;
        }
        Ok(tape)
    }

    /// A log without valid pages.
    pub(super) fn place(nand: N, config: LogConfig, owner: &[u8]) -> Result<Tape<N>, IndexFault> {
        let geometry = nand.geometry();
        check_config(&geometry, &config)?;
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
        let mut tape = Tape::new(nand, config, area, state);
        tape.recount();
        Ok(tape)
    }
}

impl<N: Nand> Mount<'_, N> {
    /// Reads every page to find the newest root. Its pages are in doubt until the tree tells which it leads
    /// to.
    pub(super) fn find_placed(&mut self) -> Result<(), IndexFault> {
        self.tape.recount();
        let geometry = self.tape.medium.geometry;
        let (mut newest, mut broken) = (0, None);
        for ppn in (0..geometry.pages()).map(Ppn) {
            let medium = &mut self.tape.medium;
            match medium.read_raw(ppn)? {
                Found::Erased => {}
                Found::Page if medium.place().home == geometry.block_of(ppn).0 => {
                    let sequence = medium.place().sequence;
                    let tag = tag::tag_of(&medium.page.spare);
                    let head = &mut self.tape.head;
                    head.sequence = head.sequence.max(sequence);
                    if tag.root && sequence > newest {
                        newest = sequence;
                        head.root = Some(Root { ppn, height: tag.height });
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
        if let Some(ppn) = broken.filter(|_| self.tape.head.sequence > 0) {
            return Err(corrupted("a page that cannot be read may be the newest root", ppn.0));
        }
        self.tape.checkpoints.in_doubt = true;
        Ok(())
    }
}
