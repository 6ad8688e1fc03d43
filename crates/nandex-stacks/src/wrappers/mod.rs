//! Stores of long values and of readings, each shown as an ordered index of records of one size, so that
//! every driver of indexes can drive them. [`Variable`](nandex::ordered::variable::Variable) and
//! [`ValueLog`](nandex::ordered::value_log::ValueLog) turn an index into one of keys and values of any
//! length. [`MicroHash`](nandex_papers::sensor::microhash::MicroHash) is the log of readings.
//!
//! An inserted record is filled up to a length that follows from its bytes, and a record read must have that
//! filling. So the order of keys is kept, and records of many lengths occur ([`Lengths`]). The option
//! `lengths` chooses them.
//!
//! [`Lengths`]: crate::lengths::Lengths

mod filled;
mod long;
mod readings;

use crate::entry::{Confidence, Holds, Hosting, IndexEntry, Need, OpenIndex};
use crate::indexes;
use crate::names::{OptionInfo, is_same, union_of};
use crate::options::{self, Settings};
use crate::stack::{self, BPlus, StoreTree};
use long::{BELOW, pieces, values};
use nandex::Geometry;

/// All wrappers. Each has the options of the index below and its own.
pub(crate) const ENTRIES: &[IndexEntry] = &[
    in_pieces(0, "variable:plow", [pieces::<0, false>, pieces::<0, true>], PLOW_PIECES),
    in_pieces(1, "variable:mu", [pieces::<1, false>, pieces::<1, true>], MU_PIECES),
    in_pieces(2, "variable:bplus", [pieces::<2, false>, pieces::<2, true>], BPLUS_PIECES),
    in_a_log(0, "values:plow", [values::<0, false>, values::<0, true>], PLOW_LOG),
    in_a_log(1, "values:mu", [values::<1, false>, values::<1, true>], MU_LOG),
    in_a_log(2, "values:bplus", [values::<2, false>, values::<2, true>], BPLUS_LOG),
    IndexEntry {
        name: "microhash",
        summary: "MicroHash (Zeinalipour-Yazti et al. 2005): a log of readings by time and by value, oldest given up",
        confidence: Confidence::Medium,
        basis: "the abstract and what is known of the paper; recovery, damage and failing blocks are ours",
        needs: &[Need::AscendingKeys],
        parts: &["ring", "directory", "chains"],
        hosting: Hosting::Raw,
        holds: Holds::Readings,
        format: readings::format,
        mount: readings::mount,
        mount_after_cut: None,
        forest: None,
        divides_chip: false,
        options: &options::wrappers::READINGS,
        options_on_ftl: &[],
    },
];

/// A wrapper's own options, and the same with those of every FTL, for use with an FTL beneath.
type Known = [&'static [OptionInfo]; 2];

const PLOW: [OptionInfo; 5] = options::embedded::PLOW;
const MU: [OptionInfo; 10] = options::raw::MU;

const PLOW_PIECES: Known = [
    union_of!(PLOW, options::wrappers::PIECES),
    union_of!(PLOW, options::wrappers::PIECES, stack::FTL_OPTIONS),
];
const MU_PIECES: Known =
    [union_of!(MU, options::wrappers::PIECES), union_of!(MU, options::wrappers::PIECES, stack::FTL_OPTIONS)];
const BPLUS_PIECES: Known = [union_of!(BPlus::OPTIONS, options::wrappers::PIECES), &[]];
const PLOW_LOG: Known =
    [union_of!(PLOW, options::wrappers::LOG), union_of!(PLOW, options::wrappers::LOG, stack::FTL_OPTIONS)];
const MU_LOG: Known =
    [union_of!(MU, options::wrappers::LOG), union_of!(MU, options::wrappers::LOG, stack::FTL_OPTIONS)];
const BPLUS_LOG: Known = [union_of!(BPlus::OPTIONS, options::wrappers::LOG), &[]];

const fn in_pieces(below: usize, name: &'static str, open: [OpenIndex; 2], known: Known) -> IndexEntry {
    let summaries = [
        "Variable over plow: keys and values of any length, in pieces that are its records",
        "Variable over the mu-Tree: keys and values of any length, in pieces that are its records",
        "Variable over the B+-tree: keys and values of any length, in pieces that are its records",
    ];
    let parts: [&[&str]; 3] = [&["memtable", "levels", "sweep", "pieces"], &["log", "pieces"], &["pieces"]];
    IndexEntry {
        summary: summaries[below],
        parts: parts[below],
        basis: "our own: the design is the source; of the index below, see there",
        holds: Holds::Pieces,
        ..over(below, name, open, known)
    }
}

const fn in_a_log(below: usize, name: &'static str, open: [OpenIndex; 2], known: Known) -> IndexEntry {
    let summaries = [
        "ValueLog over plow: long values in a log on blocks of its own, keys in the index",
        "ValueLog over the mu-Tree: long values in a log on blocks of its own, keys in the index",
        "ValueLog over the B+-tree: long values in a log on blocks of its own, keys in the index",
    ];
    let parts: [&[&str]; 3] =
        [&["memtable", "levels", "sweep", "value log"], &["log", "value log"], &["value log"]];
    IndexEntry {
        summary: summaries[below],
        parts: parts[below],
        basis: "our own, after WiscKey (Lu et al. 2016); of the index below, see there",
        holds: Holds::LongValues,
        ..over(below, name, open, known)
    }
}

/// Makes an entry from that of the index below, under another name.
const fn over(
    below: usize,
    name: &'static str,
    [format, mount]: [OpenIndex; 2],
    [options, options_on_ftl]: Known,
) -> IndexEntry {
    let below = index(BELOW[below]);
    IndexEntry { name, format, mount, mount_after_cut: None, forest: None, options, options_on_ftl, ..below }
}

/// Finds the index with this name, at compile time.
const fn index(name: &str) -> IndexEntry {
    let mut at = 0;
    while !is_same(indexes::ENTRIES[at].name.as_bytes(), name.as_bytes()) {
        at += 1;
    }
    indexes::ENTRIES[at]
}

/// Number of blocks that a subject uses for its log of values, at the beginning of the chip.
pub fn log_blocks(entry: &IndexEntry, geometry: Geometry, settings: &Settings) -> u32 {
    if entry.holds != Holds::LongValues {
        return 0;
    }
    // Options that cannot be read are refused where the subject is opened.
    long::log_blocks(geometry, settings).unwrap_or(0)
}

/// The complement of the bytes.
fn opposite(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().map(|byte| !byte).collect()
}
