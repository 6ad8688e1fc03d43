//! The use of each block.

use super::NOBODY;
use crate::blocks::spare::PageKind;
use crate::codec::put_u32;
use alloc::vec;
use alloc::vec::Vec;

/// Bytes of the use of a block on the medium: role u8, owner u32.
pub(super) const TAG_BYTES: usize = 5;

/// The use of a block, as its pages tell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockTag {
    /// The kind of its pages; none for a block that is not in use.
    pub role: Option<PageKind>,
    /// Whose it is: the logical block of a Data block.
    pub owner: u32,
}

/// No use.
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

/// The uses of all blocks: a byte each, and four more from the time that a block has an owner.
#[derive(Clone, Debug)]
pub(super) struct BlockTags {
    roles: Vec<Option<PageKind>>,
    owners: Vec<u32>,
}

impl BlockTags {
    /// No block is in use.
    pub(super) fn unused(blocks: u32) -> BlockTags {
        BlockTags { roles: vec![None; blocks as usize], owners: Vec::new() }
    }

    pub(super) fn get(&self, at: usize) -> BlockTag {
        BlockTag { role: self.roles[at], owner: self.owners.get(at).copied().unwrap_or(NOBODY) }
    }

    pub(super) fn set(&mut self, at: usize, tag: BlockTag) {
        self.roles[at] = tag.role;
        if tag.owner != NOBODY && self.owners.is_empty() {
            self.owners = vec![NOBODY; self.roles.len()];
        }
        if let Some(owner) = self.owners.get_mut(at) {
            *owner = tag.owner;
        }
    }

    /// Bytes of RAM for so many blocks, which have owners or not.
    pub(super) const fn ram_bytes(blocks: u32, have_owners: bool) -> usize {
        blocks as usize * if have_owners { 5 } else { 1 }
    }
}
