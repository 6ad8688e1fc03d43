//! Checks the configuration that a C caller passes and converts it for the engine.

use crate::error::Failure;
use crate::ffi::codes::NANDEX_ERR_CONFIG;
use nandex::ordered::{Durability, RecordFormat};

/// The indexes, by their numbers in C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The mu-Tree.
    Mu,
    /// The wandering tree.
    Wandering,
    /// The VMTree.
    VmTree,
    /// The B+-tree on the page-mapping FTL.
    BPlus,
    /// The B+-tree on DFTL.
    BPlusDftl,
    /// SBITS.
    Sbits,
    /// plow.
    Plow,
}

/// Every index with its number and name.
pub(crate) const KINDS: [(u32, &core::ffi::CStr, Kind); 7] = [
    (1, c"mu", Kind::Mu),
    (2, c"wandering", Kind::Wandering),
    (3, c"vmtree", Kind::VmTree),
    (4, c"bplus", Kind::BPlus),
    (5, c"bplus-dftl", Kind::BPlusDftl),
    (6, c"sbits", Kind::Sbits),
    (7, c"plow", Kind::Plow),
];

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Numbers {
    pub(crate) index: u32,
    pub(crate) key_bytes: u32,
    pub(crate) value_bytes: u32,
    pub(crate) durability: u32,
    pub(crate) ram_bytes: usize,
    pub(crate) over_provisioning_ppm: u32,
    pub(crate) bad_blocks_ppm: u32,
    pub(crate) atomic_pages: u32,
    pub(crate) mapping_ram_bytes: u32,
}

/// A checked configuration.
#[derive(Clone, Debug)]
#[cfg_attr(
    not(all(feature = "bplus", feature = "bplus-dftl")),
    allow(dead_code, reason = "what the trees on FTLs take; they may be left out")
)]
pub(crate) struct Config {
    pub(crate) kind: Kind,
    pub(crate) record: RecordFormat,
    pub(crate) durability: Durability,
    pub(crate) ram_bytes: Option<usize>,
    /// Physical pages of the FTL beyond the logical ones, in millionths of the logical pages.
    pub(crate) over_provisioning_ppm: Option<u32>,
    pub(crate) bad_blocks_ppm: Option<u32>,
    pub(crate) atomic_pages: Option<u32>,
    pub(crate) mapping_ram_bytes: Option<u32>,
}

fn refused(words: &'static core::ffi::CStr) -> Failure {
    Failure::Code(NANDEX_ERR_CONFIG, words)
}

/// The number if it is at most `most`; `None` for 0, which stands for the default.
fn given(number: u32, most: u32, words: &'static core::ffi::CStr) -> Result<Option<u32>, Failure> {
    if number > most { Err(refused(words)) } else { Ok((number > 0).then_some(number)) }
}

impl Config {
    /// Checks the numbers of a configuration; an error names the wrong field.
    pub(crate) fn new(numbers: Numbers) -> Result<Config, Failure> {
        let known = KINDS.iter().find(|(number, ..)| *number == numbers.index);
        let (_, _, kind) = known.ok_or(refused(c"config.index: no index has this number"))?;
        let key_bytes = u8::try_from(numbers.key_bytes).ok().filter(|bytes| *bytes > 0);
        let key_bytes = key_bytes.ok_or(refused(c"config.key_bytes: a key has 1 to 255 bytes"))?;
        let value_bytes = u8::try_from(numbers.value_bytes)
            .map_err(|_| refused(c"config.value_bytes: a value has 0 to 255 bytes"))?;
        let durability = match numbers.durability {
            1 => Durability::EveryOperation,
            2 => Durability::EverySync,
            3 => Durability::None,
            _ => {
                return Err(refused(
                    c"config.durability: NANDEX_DURABLE_EVERY_OPERATION, _EVERY_SYNC or _NONE",
                ));
            }
        };
        Ok(Config {
            kind: *kind,
            record: RecordFormat::new(key_bytes, value_bytes),
            durability,
            ram_bytes: (numbers.ram_bytes > 0).then_some(numbers.ram_bytes),
            over_provisioning_ppm: given(
                numbers.over_provisioning_ppm,
                9_000_000,
                c"config.over_provisioning_ppm: at most 9,000,000",
            )?,
            bad_blocks_ppm: given(
                numbers.bad_blocks_ppm,
                500_000,
                c"config.bad_blocks_ppm: at most 500,000",
            )?,
            atomic_pages: given(numbers.atomic_pages, 256, c"config.atomic_pages: at most 256")?,
            mapping_ram_bytes: given(
                numbers.mapping_ram_bytes,
                1 << 30,
                c"config.mapping_ram_bytes: at most 2^30",
            )?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_out_of_its_bounds_is_named() {
        let right = Numbers { index: 1, key_bytes: 8, value_bytes: 8, durability: 1, ..Numbers::default() };
        assert!(Config::new(right).is_ok());
        let wrong = [
            (Numbers { index: 8, ..right }, "config.index"),
            (Numbers { key_bytes: 0, ..right }, "config.key_bytes"),
            (Numbers { key_bytes: 256, ..right }, "config.key_bytes"),
            (Numbers { value_bytes: 256, ..right }, "config.value_bytes"),
            (Numbers { durability: 0, ..right }, "config.durability"),
            (Numbers { over_provisioning_ppm: 9_000_001, ..right }, "config.over_provisioning_ppm"),
            (Numbers { bad_blocks_ppm: 500_001, ..right }, "config.bad_blocks_ppm"),
            (Numbers { atomic_pages: 257, ..right }, "config.atomic_pages"),
            (Numbers { mapping_ram_bytes: (1 << 30) + 1, ..right }, "config.mapping_ram_bytes"),
        ];
        for (numbers, field) in wrong {
            let failure = Config::new(numbers).unwrap_err();
            let Failure::Code(NANDEX_ERR_CONFIG, words) = failure else { panic!("{failure:?}") };
            assert!(words.to_str().unwrap().starts_with(field), "{words:?}");
        }
    }
}
