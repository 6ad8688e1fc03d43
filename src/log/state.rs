//! Contents of a checkpoint of the log.

use crate::blocks::checkpoint::{Contents, Source, Window, take_bytes, take_rows};
use crate::blocks::{BlockTable, Validity};
use crate::check::{IndexError, words};
use crate::codec::{get_u16, get_u32, get_u64};
use crate::fault::IndexFault;
use crate::log::Root;
use crate::log::addresses::Addresses;
use crate::log::config::{COUNTS_LEFT_OUT, NOTES_LEFT_OUT, left_out};
use crate::log::head::{Frontier, Head};
use crate::log::tag::Gaps;
use crate::nand::{Differs, Geometry, Unfit};
use crate::units::{Pbn, Ppn};
use alloc::vec;
use alloc::vec::Vec;

/// Version of a checkpoint whose table of blocks has a bit for each page. In [`VERSION_COUNTED`] it counts
/// the valid pages of each block.
pub(super) const VERSION: u8 = 5;
pub(super) const VERSION_COUNTED: u8 = 6;
/// Versions of before, which do not tell whether their valid bits are exact.
const VERSION_INEXACT: u8 = 3;
const VERSION_COUNTED_INEXACT: u8 = 4;
/// Flags of a checkpoint. The code of the gaps lies between them.
pub(super) const FLAG_CLOSED: u8 = 1;
pub(super) const GAPS_SHIFT: u8 = 1;
pub(super) const FLAG_EXACT: u8 = 8;
/// True if the engine was built so that checkpoints keep notes of their owner and pages may be journal
/// leaves.
pub(super) const HAS_NOTES: bool = cfg!(any(feature = "full", feature = "moved-nodes"));
pub(super) const NONE: u32 = u32::MAX;
pub(super) const FIXED_BYTES: usize = 40;
/// Bytes of a pair: a replaced block, and the block that replaces it.
pub(super) const PAIR_BYTES: usize = 8;

/// State of a log as a checkpoint holds it.
pub(super) struct State {
    pub(super) blocks: BlockTable,
    pub(super) owner: Vec<u8>,
    pub(super) addresses: Addresses,
    pub(super) head: Head,
    pub(super) closed: bool,
    pub(super) gaps: Gaps,
    pub(super) note: Vec<u8>,
    pub(super) bad_at_format: u32,
    /// True if valid bits are guessed from counts.
    pub(super) is_guessed: bool,
}

impl State {
    pub(super) fn new(blocks: BlockTable, owner: &[u8]) -> State {
        let geometry = blocks.geometry();
        let frontier = Frontier { block: None, next_page: 0, block_sequence: 0 };
        State {
            blocks,
            owner: owner.to_vec(),
            addresses: Addresses::new(Vec::new(), vec![0; geometry.blocks as usize]),
            head: Head::new(frontier, 0, None),
            closed: false,
            gaps: Gaps::Any,
            note: Vec::new(),
            bad_at_format: 0,
            is_guessed: false,
        }
    }

    /// Reads the contents that [`LogContents`] writes, for a log with this kind of validity.
    pub(super) fn decode(
        source: &mut dyn Source,
        geometry: Geometry,
        validity: Validity,
    ) -> Result<State, IndexFault> {
        let mut fixed = [0; FIXED_BYTES];
        let is_read = source.take(&mut fixed).is_ok();
        let written = match fixed[0] {
            VERSION | VERSION_INEXACT if is_read => Some(Validity::Bits),
            VERSION_COUNTED | VERSION_COUNTED_INEXACT if is_read => Some(Validity::Counts),
            _ => None,
        };
        if written.is_some_and(|written| !written.is_built()) {
            return Err(left_out(COUNTS_LEFT_OUT));
        }
        if !HAS_NOTES && get_u32(&fixed, 26) >> 8 > 0 {
            return Err(left_out(NOTES_LEFT_OUT));
        }
        let Some(from) = written else {
            let what = words("the newest checkpoint is not that of a log");
            let unfit = match fixed[0] {
                // The byte of every other kind of store is a letter.
                version @ VERSION_COUNTED..b'A' if is_read => Unfit::Newer { version: version.into() },
                _ => Unfit::other(Differs::Kind, what),
            };
            return Err(IndexError::NotFormatted(unfit).into());
        };
        let state = State::decode_fields(source, geometry, fixed, (from, validity));
        let what = words("the log on the chip is of another number of blocks or pages");
        state.ok_or_else(|| IndexError::other(Differs::Geometry, what).into())
    }

    /// Reads the fields behind the version. `None` if they make no sense.
    fn decode_fields(
        source: &mut dyn Source,
        geometry: Geometry,
        fixed: [u8; FIXED_BYTES],
        (from, into): (Validity, Validity),
    ) -> Option<State> {
        let within = |value: u32, end: u32| value == NONE || value < end;
        let (block, root) = (get_u32(&fixed, 14), get_u32(&fixed, 22));
        let (next_page, replaced_count) = (get_u32(&fixed, 18), get_u32(&fixed, 32) as usize);
        if !within(block, geometry.blocks) || !within(root, geometry.pages()) {
            return None;
        }
        if next_page > geometry.pages_per_block || replaced_count > geometry.blocks as usize {
            return None;
        }
        let owner = take_bytes(source, usize::from(get_u16(&fixed, 30))).ok()?;
        let pair = |pair: [u8; PAIR_BYTES]| (Pbn(get_u32(&pair, 0)), Pbn(get_u32(&pair, 4)));
        let replaced = take_rows(source, replaced_count, pair).ok()?;
        if replaced.iter().any(|(h, p)| h.0 >= geometry.blocks || p.0 >= geometry.blocks) {
            return None;
        }
        let note = match get_u32(&fixed, 26) >> 8 {
            bytes if HAS_NOTES => take_bytes(source, bytes as usize).ok()?,
            _ => Vec::new(),
        };
        let openings = take_rows(source, geometry.blocks as usize, u16::from_le_bytes).ok()?;
        let block_sequence = get_u32(&fixed, 10);
        let frontier = Frontier { block: (block != NONE).then_some(Pbn(block)), next_page, block_sequence };
        let root = (root != NONE).then_some(Root { ppn: Ppn(root), height: fixed[26] });
        let is_guessed = (from, into) == (Validity::Counts, Validity::Bits);
        let is_exact = fixed[0] >= VERSION && fixed[1] & FLAG_EXACT != 0;
        let gaps = if fixed[0] >= VERSION { fixed[1] & !FLAG_EXACT } else { fixed[1] };
        let mut addresses = Addresses::new(replaced, openings);
        addresses.bits_in_doubt = !is_exact;
        Some(State {
            blocks: BlockTable::decode_into(geometry, source, (from, into)).ok()?,
            owner,
            addresses,
            head: Head::new(frontier, get_u64(&fixed, 2), root),
            closed: fixed[1] & FLAG_CLOSED != 0,
            gaps: Gaps::from_code(gaps >> GAPS_SHIFT)?,
            note,
            bad_at_format: get_u32(&fixed, 36),
            is_guessed,
        })
    }
}

/// Contents of a checkpoint without the table of blocks, which comes last.
pub(super) struct LogContents<'a> {
    pub(super) fixed: [u8; FIXED_BYTES],
    pub(super) owner: &'a [u8],
    pub(super) replaced: &'a [(Pbn, Pbn)],
    pub(super) note: &'a dyn Contents,
    pub(super) openings: &'a [u16],
    pub(super) table_bytes: usize,
}

impl Contents for LogContents<'_> {
    fn byte_count(&self) -> usize {
        let note_bytes = if HAS_NOTES { self.note.byte_count() } else { 0 };
        let lists = self.owner.len() + PAIR_BYTES * self.replaced.len() + note_bytes;
        FIXED_BYTES + lists + size_of_val(self.openings) + self.table_bytes
    }

    fn put(&self, blocks: &BlockTable, page: &mut Window<'_>) {
        page.bytes(&self.fixed);
        page.bytes(self.owner);
        page.rows(self.replaced.len(), |at| {
            let (home, block) = self.replaced[at];
            (u64::from(block.0) << 32 | u64::from(home.0)).to_le_bytes()
        });
        if HAS_NOTES {
            self.note.put(blocks, page);
        }
        page.rows(self.openings.len(), |at| self.openings[at].to_le_bytes());
        blocks.put(page);
    }
}
