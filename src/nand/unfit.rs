//! The reason why nothing could be mounted, and the one place where a chip is found blank.

use super::{Cause, Nand, NandError, Reading, read_again};
use crate::units::Pbn;
use alloc::vec;
use core::fmt;

/// The thing that stands on a medium in place of what was to be mounted. A medium that does not answer is
/// none of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unfit {
    /// Nothing: a chip whose good blocks read as erased, a store whose pages read as zeros.
    Blank,
    /// Something else: formatted otherwise, by another program, or by a format that was cut. Whoever formats
    /// over it takes that away.
    Other {
        /// The first thing that is not as it was asked for.
        differs: Differs,
        /// Words for it; without the feature `messages` there are none.
        what: &'static str,
    },
    /// A later format of what was asked for, which this build does not know.
    Newer {
        /// The version on the medium.
        version: u32,
    },
}

/// The way in which something on a medium is not what was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Differs {
    /// Another index, another FTL, or nothing that is known here.
    Kind,
    /// Keys, values or coordinates of other sizes.
    Record,
    /// Pages of another size, or another number of them.
    Geometry,
    /// Options that are fixed at format.
    Settings,
}

impl Unfit {
    /// A medium with something else.
    pub const fn other(differs: Differs, what: &'static str) -> Unfit {
        Unfit::Other { differs, what }
    }

    /// The meaning of a name that is not the one that was looked for. A name ends with its version; one that
    /// has no number is version 1, and the next has `2` in the place of its last character.
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

/// Whether the first page of each good block reads as erased, and there is such a block; where pages are
/// programmed in any order, all its pages. A page that cannot be read is not erased.
///
/// The look ends at the first page that is not.
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

/// The contents of a chip that carries nothing of what was looked for.
#[cold]
pub fn unfit<N: Nand + ?Sized>(nand: &mut N, what: &'static str) -> Result<Unfit, NandError> {
    Ok(if is_blank(nand)? { Unfit::Blank } else { Unfit::other(Differs::Kind, what) })
}
