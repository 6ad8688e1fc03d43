//! Reasons why a mount finds nothing to mount, and the test for a blank chip.

use super::{Cause, Nand, NandError, Reading, read_again};
use crate::units::Pbn;
use alloc::vec;
use core::fmt;

/// Contents of a medium on which the mount did not find its own data. A medium that does not answer gives
/// another error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unfit {
    /// Nothing: the good blocks of the chip read as erased, or the pages of the store as zeros.
    Blank,
    /// Something else: another format, data of another program, or a format that was cut. Formatting the
    /// medium destroys it.
    Other {
        /// First property that differs from the expected one.
        differs: Differs,
        /// Description in words. Empty without the feature `messages`.
        what: &'static str,
    },
    /// A later version of the format, which this build does not know.
    Newer {
        /// Version on the medium.
        version: u32,
    },
}

/// Property of the medium that differs from the expected one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Differs {
    /// Another index, another FTL, or nothing known.
    Kind,
    /// Other sizes of keys, values or coordinates.
    Record,
    /// Another size or number of pages.
    Geometry,
    /// Other values of options that are fixed at format.
    Settings,
}

impl Unfit {
    /// Returns the reason for a medium that contains something else.
    pub const fn other(differs: Differs, what: &'static str) -> Unfit {
        Unfit::Other { differs, what }
    }

    /// Returns the reason for a medium that holds the name `found` in place of `known`. A name ends with its
    /// version, a digit. A name without a digit is version 1; version 2 has `2` in place of its last
    /// character.
    #[doc(hidden)]
    #[cold]
    pub fn named(found: &[u8], known: &[u8], what: &'static str) -> Unfit {
        let is_numbered = known.last().is_some_and(u8::is_ascii_digit);
        let (stem, version) = match known.split_last() {
            Some((last, stem)) => (stem, if is_numbered { *last } else { b'1' }),
            None => (known, b'1'),
        };
        match found.split_last() {
            Some((last, same)) if same == stem && last.is_ascii_digit() && *last > version => {
                Unfit::Newer { version: u32::from(*last - b'0') }
            }
            _ => Unfit::other(Differs::Kind, what),
        }
    }
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unfit::Blank => write!(f, "the medium is blank"),
            Unfit::Other { what, .. } => write!(f, "{what}"),
            Unfit::Newer { version } => write!(f, "format version {version} is newer than this build"),
        }
    }
}

/// Returns true if the first page of every good block reads as erased and there is a good block. If pages are
/// programmed in any order, all pages count. A page that cannot be read is not erased.
///
/// The search ends at the first page that is not erased.
///
/// ```
/// # use nandex::nand::{catalogue::mlc_64m, sim::SimChip};
/// # let chip = SimChip::new(&mlc_64m().with_blocks(64))?;
/// use nandex::nand::is_blank;
///
/// let mut chip = chip;
/// assert!(is_blank(&mut chip)?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[cold]
pub fn is_blank<N: Nand + ?Sized>(nand: &mut N) -> Result<bool, NandError> {
    let geometry = nand.geometry();
    let mut data = vec![0; geometry.page_bytes as usize];
    let mut spare = vec![0; geometry.spare_bytes as usize];
    let is_in_order = !geometry.random_order && !nand.replaces();
    let pages = if is_in_order { 1 } else { geometry.pages_per_block };
    let erased = |data: &[u8], spare: &[u8]| data.iter().chain(spare).all(|&byte| byte == 0xff);
    let mut good = 0;
    for block in (0..geometry.blocks).map(Pbn) {
        if nand.is_bad(block)? {
            continue;
        }
        for page in 0..pages {
            let at = (geometry.page_at(block, page), Cause::Recovery);
            match read_again(nand, at, &mut data, &mut spare, erased) {
                Ok(Reading::Broken) | Err(NandError::Uncorrectable(_) | NandError::BadBlock(_)) => {
                    return Ok(false);
                }
                Ok(_) => good += 1,
                Err(error) => return Err(error),
            }
        }
    }
    Ok(good > 0)
}

/// Returns the reason for a chip on which the mount did not find its own data.
#[cold]
pub fn unfit<N: Nand + ?Sized>(nand: &mut N, what: &'static str) -> Result<Unfit, NandError> {
    Ok(if is_blank(nand)? { Unfit::Blank } else { Unfit::other(Differs::Kind, what) })
}
