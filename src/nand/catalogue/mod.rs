//! The parts that are known by name, with the source of each number.
//!
//! - `papers`: the set-ups of the papers that are reproduced.
//! - `raw`: parts on a parallel bus.
//! - `calibrated`: the numbers that published simulators use for a part.
//! - `arrays`: several chips on channels.
//! - `spi`: serial NAND.
//! - `nor`: serial NOR, whose pages may be overwritten, and the flash inside of microcontrollers. DataFlash
//!   programs whole pages from a buffer, and a program is charged as a page however few bits it clears; of
//!   parts that program single words those are charged that change.
//! - `presets`: the defaults of simulators that name no part.
//!
//! Serial NAND corrects errors itself and keeps spare bytes for the code. The spare bytes of such a part here
//! are the remaining ones ([`Part::raw_spare_bytes`]). Parts on a parallel bus leave the correction to their
//! controller. As in the papers, this takes no spare bytes here; in practice the Hamming code of Linux leaves
//! 38 bytes of 64, and BCH of 4 and 8 bits leaves 34 and 10.
//!
//! If a data sheet gives a typical and a largest value, the typical one stands here. If reads or programs of
//! the pages of a cell differ, their mean stands here.

mod arrays;
mod calibrated;
mod nor;
mod papers;
mod presets;
mod raw;
mod spi;

use super::{Basis, Geometry, Note, Pairing, Part, Supply, Timing};
use alloc::borrow::Cow;

/// The fields every catalogue part has a note for, in this order.
#[cfg_attr(not(feature = "unstable"), doc(hidden))]
pub const NOTED_FIELDS: [&str; 9] =
    ["organisation", "blocks", "nop", "read", "program", "erase", "transfer", "endurance", "supply"];

/// Iterates over all parts, in the order of the lists.
pub fn parts() -> impl Iterator<Item = &'static Part> {
    let simulators = calibrated::PARTS.iter().chain(presets::PARTS);
    papers::PARTS
        .iter()
        .chain(arrays::PARTS)
        .chain(raw::PARTS)
        .chain(spi::PARTS)
        .chain(nor::PARTS)
        .chain(simulators)
}

/// Returns the part with this name.
///
/// ```
/// use nandex::nand::catalogue::{find, parts};
///
/// assert!(parts().all(|part| find(&part.name).is_some()));
/// ```
pub fn find(name: &str) -> Option<&'static Part> {
    parts().find(|part| part.name == name)
}

/// Returns the set-up of the mu-Tree paper: 64 MiB of the MLC part K9GAG08U0M.
pub fn mlc_64m() -> Part {
    papers::MLC_64M
}

/// The timing of [`mlc_64m`] with pages and blocks of other sizes and 64 spare bytes a page: for tests, which
/// need small chips.
#[cfg_attr(not(feature = "unstable"), doc(hidden))]
pub fn mlc_with(page_bytes: u32, pages_per_block: u32, blocks: u32) -> Part {
    let mut part = mlc_64m();
    part.geometry = Geometry::new(page_bytes, 64, pages_per_block, blocks);
    part
}

/// Returns a serial NOR part whose pages may be overwritten: 2 MiB, pages of 512 bytes, 8 pages a block.
pub fn nor_2m() -> Part {
    nor::AT45DB161E
}

const fn part(name: &'static str, numbers: Numbers, notes: &'static [Note; 9]) -> Part {
    let mut geometry = Geometry::new(numbers.page.0, numbers.page.1, numbers.pages_per_block, numbers.blocks);
    geometry = geometry.with_programs_per_page_max(numbers.nop);
    geometry.random_order = numbers.random_order;
    let (read_ns, program_ns, erase_ns) = numbers.latencies_ns;
    Part {
        name: Cow::Borrowed(name),
        geometry,
        raw_spare_bytes: None,
        timing: Timing { read_ns, program_ns, erase_ns, transfer_ps_per_byte: numbers.transfer_ps },
        words: None,
        supply: Supply::flat(numbers.supply.0, numbers.supply.1),
        endurance_erases: numbers.endurance,
        pairing: Pairing::None,
        notes,
    }
}

struct Numbers {
    /// Bytes of the data area, and of the spare area.
    page: (u32, u32),
    pages_per_block: u32,
    blocks: u32,
    nop: u32,
    random_order: bool,
    /// Array times of read, program and erase, in ns.
    latencies_ns: (u64, u64, u64),
    /// Bus time of a byte, in ps.
    transfer_ps: u64,
    endurance: u32,
    /// Voltage in mV, current in mA.
    supply: (u32, u32),
}

const fn datasheet(field: &'static str, text: &'static str) -> Note {
    Note { field, basis: Basis::Datasheet, text }
}

const fn paper(field: &'static str, text: &'static str) -> Note {
    Note { field, basis: Basis::Paper, text }
}

const fn simulator(field: &'static str, text: &'static str) -> Note {
    Note { field, basis: Basis::Simulator, text }
}

const fn remembered(field: &'static str, text: &'static str) -> Note {
    Note { field, basis: Basis::Remembered, text }
}

const fn assumed(field: &'static str, text: &'static str) -> Note {
    Note { field, basis: Basis::Assumed, text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_of_every_part_has_its_source() {
        for part in parts() {
            let fields: alloc::vec::Vec<&str> = part.notes.iter().map(|note| note.field).collect();
            assert_eq!(fields, NOTED_FIELDS, "{}", part.name);
            assert!(part.notes.iter().all(|note| !note.text.is_empty()), "{}", part.name);
        }
    }

    #[test]
    fn every_part_is_valid_and_found_by_its_name() {
        for part in parts() {
            part.validate().unwrap_or_else(|error| panic!("{}: {error}", part.name));
            assert!(core::ptr::eq(find(&part.name).unwrap(), part), "{} is there twice", part.name);
        }
        assert!(find("K9GAG08U0M").is_none(), "names are lower case");
    }

    #[test]
    fn the_mu_tree_papers_table_1() {
        let mlc = mlc_64m();
        assert_eq!(mlc.geometry.data_bytes(), 64 << 20);
        assert_eq!(
            (mlc.page_read_ns(), mlc.page_program_ns(), mlc.timing.erase_ns),
            (165_600, 905_800, 1_500_000)
        );
        let slc = find("slc-64m").unwrap();
        assert_eq!(slc.geometry.data_bytes(), 64 << 20);
        assert_eq!(
            (slc.page_read_ns(), slc.page_program_ns(), slc.timing.erase_ns),
            (77_800, 252_800, 1_500_000)
        );
        assert_eq!((mlc.geometry.programs_per_page_max, slc.geometry.programs_per_page_max), (1, 4));
    }
}
