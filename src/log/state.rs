//! The contents of a checkpoint of the log.

use crate::blocks::BlockTable;
use crate::codec::{get_u16, get_u32, get_u64};
use crate::log::tag::Gaps;
use crate::log::{Frontier, Root};
use crate::nand::Geometry;
use crate::units::{Pbn, Ppn};
use alloc::vec;
use alloc::vec::Vec;

pub(super) const VERSION: u8 = 3;
pub(super) const NONE: u32 = u32::MAX;
pub(super) const FIXED_BYTES: usize = 40;
/// Bytes of a replaced block and the block that answers for it.
pub(super) const PAIR_BYTES: usize = 8;

/// The contents of a checkpoint.
pub(super) struct State {
    pub(super) blocks: BlockTable,
    pub(super) owner: Vec<u8>,
    pub(super) replaced: Vec<(Pbn, Pbn)>,
    pub(super) frontier: Frontier,
    pub(super) sequence: u64,
    pub(super) root: Option<Root>,
    pub(super) closed: bool,
    pub(super) gaps: Gaps,
    pub(super) note: Vec<u8>,
    pub(super) bad_at_format: u32,
    pub(super) openings: Vec<u16>,
}

impl State {
    pub(super) fn new(blocks: BlockTable, owner: &[u8]) -> State {
        let geometry = blocks.geometry();
        State {
            blocks,
            owner: owner.to_vec(),
            replaced: Vec::new(),
            frontier: Frontier { block: None, next_page: 0, block_sequence: 0 },
            sequence: 0,
            root: None,
            closed: false,
            gaps: Gaps::Any,
            note: Vec::new(),
            bad_at_format: 0,
            openings: vec![0; geometry.blocks as usize],
        }
    }

    /// Reads a payload that `Log::payload` made.
    pub(super) fn decode(bytes: &[u8], geometry: Geometry) -> Option<State> {
        let fixed = bytes.get(..FIXED_BYTES)?;
        let within = |value: u32, end: u32| value == NONE || value < end;
        let (block, root) = (get_u32(fixed, 14), get_u32(fixed, 22));
        let (next_page, replaced_count) = (get_u32(fixed, 18), get_u32(fixed, 32) as usize);
        if fixed[0] != VERSION || !within(block, geometry.blocks) || !within(root, geometry.pages()) {
            return None;
        }
        if next_page > geometry.pages_per_block || replaced_count > geometry.blocks as usize {
            return None;
        }
        let owner_end = FIXED_BYTES + usize::from(get_u16(fixed, 30));
        let replaced_end = owner_end + replaced_count * PAIR_BYTES;
        let note_end = replaced_end + (get_u32(fixed, 26) >> 8) as usize;
        let openings_end = note_end + 2 * geometry.blocks as usize;
        let pairs = bytes.get(owner_end..replaced_end)?;
        let replaced: Vec<(Pbn, Pbn)> =
            pairs.chunks_exact(PAIR_BYTES).map(|p| (Pbn(get_u32(p, 0)), Pbn(get_u32(p, 4)))).collect();
        if replaced.iter().any(|(h, p)| h.0 >= geometry.blocks || p.0 >= geometry.blocks) {
            return None;
        }
        Some(State {
            blocks: BlockTable::decode(geometry, bytes.get(openings_end..)?).ok()?,
            owner: bytes.get(FIXED_BYTES..owner_end)?.to_vec(),
            replaced,
            frontier: Frontier {
                block: (block != NONE).then_some(Pbn(block)),
                next_page,
                block_sequence: get_u32(fixed, 10),
            },
            sequence: get_u64(fixed, 2),
            root: (root != NONE).then_some(Root { ppn: Ppn(root), height: fixed[26] }),
            closed: fixed[1] & 1 != 0,
            gaps: Gaps::from_code(fixed[1] >> 1)?,
            note: bytes.get(replaced_end..note_end)?.to_vec(),
            bad_at_format: get_u32(fixed, 36),
            openings: bytes.get(note_end..openings_end)?.chunks_exact(2).map(|two| get_u16(two, 0)).collect(),
        })
    }
}
