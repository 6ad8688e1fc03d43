//! Uses of the blocks.

use super::NOBODY;
use crate::blocks::spare::PageKind;
use crate::codec::put_u32;
use alloc::vec;
use alloc::vec::Vec;

/// Bytes of a block's use on the medium: role u8, owner u32.
pub(super) const TAG_BYTES: usize = 5;

/// Use of a block, as recorded in its pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockTag {
    /// Kind of its pages. `None` for a block that is not in use.
    pub role: Option<PageKind>,
    /// Owner of the block: for a Data block its logical block.
    pub owner: u32,
}

/// Use of a block that is not in use.
pub(super) const UNUSED: BlockTag = BlockTag { role: None, owner: NOBODY };

impl BlockTag {
    pub(super) fn role_byte(&self) -> u8 {
        self.role.map_or(0, |kind| kind as u8)
    }

    pub(super) fn from_bytes(role: u8, owner: u32) -> Option<BlockTag> {
        if role == 0 {
            return Some(BlockTag { role: None, owner });
        }
        PageKind::from_byte(role).map(|kind| BlockTag { role: Some(kind), owner })
    }

    pub(super) fn to_bytes(self) -> [u8; TAG_BYTES] {
        let mut bytes = [self.role_byte(); TAG_BYTES];
        put_u32(&mut bytes, 1, self.owner);
        bytes
    }
}

/// Kinds that the pages of a block may have. Their order is part of `Kinds`.
const KINDS: [PageKind; 10] = [
    PageKind::Host,
    PageKind::Copy,
    PageKind::Trim,
    PageKind::Data,
    PageKind::Log,
    PageKind::Sequential,
    PageKind::More,
    PageKind::Map,
    PageKind::Checkpoint,
    PageKind::Anchor,
];

/// Kind of each block, or none: half a byte each.
#[derive(Clone, Debug)]
pub(super) struct Kinds {
    halves: Vec<u8>,
}

impl Kinds {
    pub(super) fn none(blocks: u32) -> Kinds {
        Kinds { halves: vec![0; Kinds::bytes(blocks)] }
    }

    pub(super) const fn bytes(blocks: u32) -> usize {
        blocks.div_ceil(2) as usize
    }

    pub(super) fn get(&self, at: usize) -> Option<PageKind> {
        let place = self.halves[at / 2] >> (at % 2 * 4) & 0xf;
        KINDS.get(usize::from(place).checked_sub(1)?).copied()
    }

    pub(super) fn set(&mut self, at: usize, kind: Option<PageKind>) {
        let place = kind.and_then(|kind| KINDS.iter().position(|&other| other == kind));
        let (half, shift) = (&mut self.halves[at / 2], at % 2 * 4);
        *half = *half & !(0xf << shift) | (place.map_or(0, |place| place + 1) as u8) << shift;
    }
}

/// Uses of all blocks: half a byte each, and four bytes more once any block has an owner.
#[derive(Clone, Debug)]
pub(super) struct BlockTags {
    roles: Kinds,
    owners: Vec<u32>,
    blocks: u32,
}

impl BlockTags {
    pub(super) fn unused(blocks: u32) -> BlockTags {
        BlockTags { roles: Kinds::none(blocks), owners: Vec::new(), blocks }
    }

    pub(super) fn get(&self, at: usize) -> BlockTag {
        BlockTag { role: self.roles.get(at), owner: self.owners.get(at).copied().unwrap_or(NOBODY) }
    }

    pub(super) fn set(&mut self, at: usize, tag: BlockTag) {
        self.roles.set(at, tag.role);
        if tag.owner != NOBODY && self.owners.is_empty() {
            self.owners = vec![NOBODY; self.blocks as usize];
        }
        if let Some(owner) = self.owners.get_mut(at) {
            *owner = tag.owner;
        }
    }

    /// Bytes of RAM for `blocks` blocks, with or without owners.
    pub(super) const fn ram_bytes(blocks: u32, have_owners: bool) -> usize {
        Kinds::bytes(blocks) + if have_owners { blocks as usize * size_of::<u32>() } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_half_of_a_byte() {
        let mut kinds = Kinds::none(23);
        let all = || KINDS.into_iter().map(Some).chain([None]);
        assert!(KINDS.iter().all(|&kind| PageKind::from_byte(kind as u8) == Some(kind)));
        all().chain(all()).enumerate().for_each(|(at, kind)| kinds.set(at, kind));
        assert!(all().chain(all()).enumerate().all(|(at, kind)| kinds.get(at) == kind));
        kinds.set(4, None);
        assert_eq!([3, 4, 5].map(|at| kinds.get(at)), [KINDS.get(3), None, KINDS.get(5)].map(|k| k.copied()));
    }
}
