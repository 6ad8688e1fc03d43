//! Every index and FTL of Nandex by name: opened on any chip, with its options as text.
//!
//! [`registry`] lists the ordered indexes, stores of long values and of readings, and the FTLs, [`spatial`]
//! the spatial indexes, [`tbm`] the FTLs behind a Transit Buffer Manager. An entry makes its index on a fresh
//! chip or finds it again on a used one:
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

/// Defines a list of entries as a static. For the unit tests it is a constant, which costs nothing if it is
/// not used: all trees would be compiled a second time for the static. Tests that open something are in
/// `tests/`.
macro_rules! list {
    ($(#[$doc:meta])* $name:ident: $entry:ty = $entries:ident) => {
        $(#[$doc])*
        #[cfg(not(test))]
        pub static $name: &[$entry] = $entries;
        #[cfg(test)]
        pub const $name: &[$entry] = $entries;
    };
}

// Below the macro that they use.
mod entry;
pub mod fit;
pub mod forest;
mod ftls;
mod indexes;
pub mod lengths;
pub mod names;
pub mod needed;
pub mod options;
pub mod registry;
mod spare;
pub mod spatial;
pub mod stack;
mod stores;
pub mod tbm;
pub mod wrappers;
