//! How an FTL behind a Transit Buffer Manager ([`nandex_stacks::tbm`]) and that manager divide a chip.

pub use nandex_stacks::tbm::{OPTIONS, TBM_STORES, find, unknown};

use crate::registry::StoreEntry;
use nandex::Geometry;
use nandex_papers::ftl::tbm::TbmConfig;
use nandex_stacks::options::Options;
use nandex_stacks::tbm::buffer;
use serde::Serialize;

/// The division of a chip between an FTL and a TBM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Division {
    /// Number of blocks of the FTL, which are the first ones of the chip.
    pub ftl_blocks: u32,
    /// Most buffer blocks, C.
    pub buffer_blocks: u32,
    /// Number of other blocks of the TBM.
    pub spare_blocks: u32,
    /// Number of newest pages in a buffer block from which on the whole logical block is converted; absent
    /// means never.
    pub whole_from: Option<u32>,
}

impl Division {
    /// The division of a chip by a store behind a TBM; `None` for other stores and invalid options.
    pub fn of(entry: &StoreEntry, options: &Options, chip: Geometry) -> Option<Division> {
        TBM_STORES.iter().find(|behind| behind.name == entry.name)?;
        let (settings, spare_blocks) = buffer(options, chip).ok()?;
        let TbmConfig { blocks: buffer_blocks, whole_from, .. } = settings;
        Some(Division {
            ftl_blocks: chip.blocks - buffer_blocks - spare_blocks,
            buffer_blocks,
            spare_blocks,
            whole_from,
        })
    }

    /// The division in words.
    pub fn words(&self) -> String {
        let Division { ftl_blocks, buffer_blocks, spare_blocks, whole_from } = self;
        let whole = match whole_from {
            None => String::from("the newest pages only"),
            Some(pages) => format!("the newest pages only, whole logical blocks from {pages} of them on"),
        };
        format!(
            "the first {ftl_blocks} blocks of the chip are the FTL's, the others the TBM's: {buffer_blocks} buffer blocks and \
             {spare_blocks} to spare; converted are {whole}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_division_is_told() {
        let chip = nandex::nand::catalogue::mlc_with(2048, 64, 64).geometry;
        let mut options = Options::default();
        options.set("whole_from", "32");
        let division = Division::of(find("tbm+bast").unwrap(), &options, chip).unwrap();
        assert_eq!((division.ftl_blocks, division.buffer_blocks, division.spare_blocks), (54, 8, 2));
        let words = division.words();
        assert!(words.contains("54 blocks") && words.contains("from 32 of them on"), "{words}");
        assert_eq!(Division::of(find("bast").unwrap(), &options, chip), None);
    }
}
