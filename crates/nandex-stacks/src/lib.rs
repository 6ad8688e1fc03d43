//! Every index and FTL of Nandex by name: opened on any chip, with its options as text.
//!
//! [`registry`] lists the ordered indexes and the FTLs, [`spatial`] the spatial indexes, [`tbm`] the FTLs
//! behind a Transit Buffer Manager. An entry makes its index on a fresh chip or finds it again on a used one:
//!
//! ```
//! use nandex::nand::{catalogue, sim::SimChip};
//! use nandex::ordered::RecordFormat;
//! use nandex_stacks::options::Settings;
//! use nandex_stacks::registry;
//!
//! let chip = SimChip::new(&catalogue::mlc_64m()).unwrap();
//! let settings = Settings::new(RecordFormat::new(8, 8)).with("ftl", "dftl");
//! let mut index = (registry::index("bplus")?.format)(Box::new(chip), &settings)?;
//! index.insert(&7u64.to_be_bytes(), &[1; 8])?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! All trees are compiled here, once: what stands on this crate links them and does not compile them again.

mod entry;
pub mod fit;
pub mod forest;
mod ftls;
pub mod names;
pub mod needed;
pub mod options;
pub mod registry;
mod spare;
pub mod spatial;
pub mod stack;
mod stores;
pub mod tbm;

#[cfg(test)]
mod testing {
    use nandex::Geometry;
    use nandex::nand::{Part, catalogue};

    /// A chip with pages and blocks of these sizes.
    pub(crate) fn part(page_bytes: u32, pages_per_block: u32, blocks: u32) -> Part {
        let mut part = catalogue::mlc_64m();
        part.geometry = Geometry::new(page_bytes, 64, pages_per_block, blocks);
        part
    }
}
