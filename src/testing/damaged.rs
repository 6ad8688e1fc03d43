//! Damage to pages of a simulated chip, of every kind.

use crate::nand::Nand;
use crate::nand::sim::SimChip;
use crate::rng::Rng;
use crate::units::{Pbn, Ppn};

/// Kind of damage to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// The page is uncorrectable.
    Unreadable,
    /// Eight bits of the page are flipped.
    Flips,
    /// All bits of the page are 0.
    Zeros,
    /// All bits of the page are 1.
    Ones,
    /// The page holds random bytes.
    Random,
    /// The page and another page have exchanged their contents.
    Exchanged(Ppn),
    /// The page holds the bytes of another page.
    CopyOf(Ppn),
}

impl Damage {
    /// Kinds of damage that need no other page.
    pub const OF_BYTES: [Damage; 5] =
        [Damage::Unreadable, Damage::Flips, Damage::Zeros, Damage::Ones, Damage::Random];
}

/// Damages a page. Nothing happens if the page, or the other page of the damage, is erased or unreadable.
pub fn damage(chip: &mut SimChip, ppn: Ppn, damage: Damage, seed: u64) {
    let Some(mut bytes) = chip.stored_page(ppn) else { return };
    let mut rng = Rng::new(seed ^ u64::from(ppn.0));
    let bits = bytes.len() as u64 * 8;
    match damage {
        Damage::Unreadable => return chip.make_unreadable(ppn),
        Damage::Flips => (0..8).for_each(|_| {
            let bit = rng.below(bits);
            bytes[bit as usize / 8] ^= 1 << (bit % 8);
        }),
        Damage::Zeros => bytes.fill(0),
        Damage::Ones => bytes.fill(0xff),
        Damage::Random => rng.fill(&mut bytes),
        Damage::Exchanged(other) => {
            let Some(others) = chip.stored_page(other) else { return };
            chip.damage_page(other, &bytes);
            bytes = others;
        }
        Damage::CopyOf(other) => {
            let Some(others) = chip.stored_page(other) else { return };
            bytes = others;
        }
    }
    chip.damage_page(ppn, &bytes);
}

/// Damages all pages of a block in the same way.
pub fn damage_block(chip: &mut SimChip, pbn: Pbn, kind: Damage, seed: u64) {
    let g = chip.geometry();
    (0..g.pages_per_block).for_each(|page| damage(chip, g.page_at(pbn, page), kind, seed));
}

/// Sets a page back to its contents on an earlier chip. Nothing happens unless the page is programmed on both
/// chips.
pub fn set_back(chip: &mut SimChip, earlier: &SimChip, ppn: Ppn) {
    if let (Some(bytes), Some(_)) = (earlier.stored_page(ppn), chip.stored_page(ppn)) {
        chip.damage_page(ppn, &bytes);
    }
}
