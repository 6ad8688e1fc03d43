//! For tests: pages of a simulated chip that are damaged in every way.

use crate::nand::Nand;
use crate::nand::sim::SimChip;
use crate::rng::Rng;
use crate::units::{Pbn, Ppn};

/// The damage that is done to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// The page is uncorrectable.
    Unreadable,
    /// Eight bits are wrong.
    Flips,
    /// All bits are 0.
    Zeros,
    /// All bits are 1.
    Ones,
    /// Bytes of chance.
    Random,
    /// The page holds what another page holds, and that one the bytes of this.
    Exchanged(Ppn),
    /// The page holds the bytes of another page.
    CopyOf(Ppn),
}

impl Damage {
    /// The kinds of damage that need no other page.
    pub const OF_BYTES: [Damage; 5] =
        [Damage::Unreadable, Damage::Flips, Damage::Zeros, Damage::Ones, Damage::Random];
}

/// Damages a page; one that is erased or unreadable stays so, and so does one whose other page is.
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

/// Damages all pages of a block alike.
pub fn damage_block(chip: &mut SimChip, pbn: Pbn, kind: Damage, seed: u64) {
    let g = chip.geometry();
    (0..g.pages_per_block).for_each(|page| damage(chip, g.page_at(pbn, page), kind, seed));
}

/// Lets a page hold what it held on an earlier chip, where both were programmed.
pub fn set_back(chip: &mut SimChip, earlier: &SimChip, ppn: Ppn) {
    if let (Some(bytes), Some(_)) = (earlier.stored_page(ppn), chip.stored_page(ppn)) {
        chip.damage_page(ppn, &bytes);
    }
}
