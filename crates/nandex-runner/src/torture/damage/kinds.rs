//! The damages: to a page, to a whole block, and two at once; each has a text that names it.

use crate::LabError;
use nandex::nand::sim::SimChip;
use nandex::rng::Rng;
use nandex::{Pbn, Ppn};
use std::fmt;
use std::str::FromStr;

/// A kind of damage to a page or a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// One bit of a page is flipped.
    Flip,
    /// Eight bits of a page are flipped.
    Flips,
    /// All bytes of a page become zero.
    Zero,
    /// A page becomes like erased.
    Ones,
    /// A page gets random bytes.
    Random,
    /// A page becomes unreadable.
    Unreadable,
    /// Two pages are exchanged with their spare areas.
    Exchange,
    /// A page gets the bytes that it had before its block was last erased.
    Older,
    /// A page gets the bytes of the most similar earlier page: another version of the same node or logical
    /// page.
    Twin,
    /// One bit is flipped in each page of a block.
    BlockFlip,
    /// All bytes of a block become zero.
    BlockZero,
    /// A block becomes like erased.
    BlockOnes,
    /// All pages of a block become unreadable.
    BlockUnreadable,
    /// Two blocks are exchanged.
    BlockExchange,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 14] = [
        Kind::Flip,
        Kind::Flips,
        Kind::Zero,
        Kind::Ones,
        Kind::Random,
        Kind::Unreadable,
        Kind::Exchange,
        Kind::Older,
        Kind::Twin,
        Kind::BlockFlip,
        Kind::BlockZero,
        Kind::BlockOnes,
        Kind::BlockUnreadable,
        Kind::BlockExchange,
    ];

    /// The kind's name in commands.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Flip => "flip",
            Kind::Flips => "flips",
            Kind::Zero => "zero",
            Kind::Ones => "ones",
            Kind::Random => "random",
            Kind::Unreadable => "unreadable",
            Kind::Exchange => "exchange",
            Kind::Older => "older",
            Kind::Twin => "twin",
            Kind::BlockFlip => "block-flip",
            Kind::BlockZero => "block-zero",
            Kind::BlockOnes => "block-ones",
            Kind::BlockUnreadable => "block-unreadable",
            Kind::BlockExchange => "block-exchange",
        }
    }

    pub(super) fn is_of_block(self) -> bool {
        self >= Kind::BlockFlip
    }

    pub(super) fn names_another(self) -> bool {
        matches!(self, Kind::Exchange | Kind::BlockExchange)
    }
}

/// One damage. Its text is like `zero:17` for page 17, `exchange:17:40` for both pages, `block-ones:3` for
/// block 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The kind of the damage.
    pub kind: Kind,
    /// The page or block that is damaged.
    pub at: u32,
    /// The other page or block of an exchange; otherwise 0.
    pub other: u32,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind.name(), self.at)?;
        if self.kind.names_another() { write!(f, ":{}", self.other) } else { Ok(()) }
    }
}

impl FromStr for Damage {
    type Err = LabError;

    fn from_str(text: &str) -> Result<Damage, LabError> {
        let bad = || {
            let kinds = Kind::ALL.map(Kind::name).join(", ");
            LabError::bad_option("damage", text, format!("is no damage: KIND:PAGE or KIND:BLOCK of {kinds}"))
        };
        let mut parts = text.split(':');
        let name = parts.next().unwrap_or_default();
        let kind = Kind::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(bad)?;
        let mut number = || parts.next().and_then(|number| number.parse().ok()).ok_or_else(bad);
        let at = number()?;
        let other = if kind.names_another() { number()? } else { 0 };
        Ok(Damage { kind, at, other })
    }
}

/// Contents of a page after one of its programs.
#[derive(Clone, Debug)]
pub(super) struct Version {
    pub(super) ppn: Ppn,
    /// The data followed by the spare area.
    pub(super) bytes: Vec<u8>,
}

/// The pages that are not erased, including torn ones.
pub(super) fn programmed(chip: &SimChip) -> Vec<Ppn> {
    let geometry = chip.part().geometry;
    (0..geometry.pages()).map(Ppn).filter(|&ppn| chip.stored_page(ppn).is_some()).collect()
}

/// Draws a damage of this kind to one of these pages.
pub(super) fn draw(kind: Kind, chip: &SimChip, pages: &[Ppn], rng: &mut Rng) -> Option<Damage> {
    let geometry = chip.part().geometry;
    let mut pick = || pages[rng.below(pages.len() as u64) as usize];
    let (one, other) = (pick(), pick());
    let (at, other) = match kind.is_of_block() {
        true => (geometry.block_of(one).0, geometry.block_of(other).0),
        false => (one.0, other.0),
    };
    let other = if kind.names_another() { other } else { 0 };
    // NOR has no check of its own that could make a page unreadable.
    let impossible = match kind {
        Kind::Unreadable | Kind::BlockUnreadable => geometry.overwrites(),
        Kind::Exchange | Kind::BlockExchange => at == other,
        _ => false,
    };
    (!impossible).then_some(Damage { kind, at, other })
}

impl Damage {
    /// Damages the chip; `versions` are the pages programmed before. Returns false if nothing changes.
    pub(super) fn strike(&self, chip: &mut SimChip, versions: &[Version], rng: &mut Rng) -> bool {
        let geometry = chip.part().geometry;
        if self.kind == Kind::BlockExchange {
            chip.exchange_blocks(Pbn(self.at), Pbn(self.other));
            return true;
        }
        let of_page = match self.kind {
            Kind::BlockFlip => Kind::Flip,
            Kind::BlockZero => Kind::Zero,
            Kind::BlockOnes => Kind::Ones,
            Kind::BlockUnreadable => Kind::Unreadable,
            kind => return strike_page(kind, (Ppn(self.at), Ppn(self.other)), chip, versions, rng),
        };
        let mut any = false;
        for page in 0..geometry.pages_per_block {
            let ppn = geometry.page_at(Pbn(self.at), page);
            any |= strike_page(of_page, (ppn, ppn), chip, versions, rng);
        }
        any
    }
}

fn strike_page(
    kind: Kind,
    (ppn, other): (Ppn, Ppn),
    chip: &mut SimChip,
    versions: &[Version],
    rng: &mut Rng,
) -> bool {
    let Some(before) = chip.stored_page(ppn) else { return false };
    let mut bytes = before.clone();
    let flip = |bytes: &mut [u8], rng: &mut Rng| {
        let bit = rng.below(bytes.len() as u64 * 8);
        bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
    };
    match kind {
        Kind::Flip => flip(&mut bytes, rng),
        Kind::Flips => (0..8).for_each(|_| flip(&mut bytes, rng)),
        Kind::Zero => bytes.fill(0),
        Kind::Ones => bytes.fill(0xff),
        Kind::Random => rng.fill(&mut bytes),
        Kind::Unreadable => {
            chip.make_unreadable(ppn);
            return true;
        }
        Kind::Exchange => {
            let Some(there) = chip.stored_page(other) else { return false };
            chip.damage_page(other, &before);
            bytes = there;
        }
        Kind::Older | Kind::Twin => match earlier(kind, ppn, &before, versions, rng) {
            Some(version) => bytes.clone_from(&version.bytes),
            None => return false,
        },
        _ => unreachable!("a block is struck page by page"),
    }
    chip.damage_page(ppn, &bytes);
    bytes != before
}

fn earlier<'a>(
    kind: Kind,
    ppn: Ppn,
    now: &[u8],
    versions: &'a [Version],
    rng: &mut Rng,
) -> Option<&'a Version> {
    let last = versions.iter().rposition(|version| version.ppn == ppn)?;
    let before = versions[..last].iter().filter(|version| version.bytes != now);
    let mut found: Vec<&Version> = match kind {
        Kind::Older => before.filter(|version| version.ppn == ppn).collect(),
        _ => before.collect(),
    };
    if kind == Kind::Twin {
        let same = |version: &&Version| version.bytes.iter().zip(now).filter(|(a, b)| a == b).count();
        found.sort_by_cached_key(|version| std::cmp::Reverse(same(version)));
        found.truncate(3);
    }
    (!found.is_empty()).then(|| found[rng.below(found.len() as u64) as usize])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damage_is_written_and_read() {
        for text in ["flip:3", "exchange:17:40", "block-ones:2", "block-exchange:1:5", "twin:9"] {
            assert_eq!(text.parse::<Damage>().unwrap().to_string(), text);
        }
        for text in ["", "flip", "flip:x", "exchange:3", "melt:4"] {
            assert!(text.parse::<Damage>().is_err(), "{text}");
        }
    }
}
