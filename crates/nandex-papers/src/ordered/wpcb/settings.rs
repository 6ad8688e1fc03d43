//! How a WPCB-tree is set up: its nodes, its buffer blocks, and what its full leaves do.

use crate::ftl::tbm::{self, SPARE_BLOCKS_MIN, TbmConfig};
use nandex::check::IndexError;
use nandex::nand::Geometry;
use nandex::ordered::RecordFormat;
use nandex::ordered::bplus::{BPlusConfig, Overflow, Underflow};
use nandex::store::PageStore;

/// Where a leaf is written that becomes full and will stay whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FullNodes {
    /// To its buffer block, like any other node.
    #[default]
    Buffered,
    /// To the FTL at once, as in section 6.2 of the paper.
    Direct,
}

/// How a WPCB-tree is formatted and mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WpcbConfig {
    /// The tree. Its nodes are expelled, not merged.
    pub tree: BPlusConfig,
    /// The buffer blocks.
    pub tbm: TbmConfig,
    /// Blocks of the TBM beside the buffer blocks.
    pub spare_blocks: u32,
    /// Where full leaves are written.
    pub full_nodes: FullNodes,
}

impl WpcbConfig {
    /// The paper's recommendation: 128 buffer blocks; contiguous leaves stay whole.
    pub const fn new(record: RecordFormat) -> WpcbConfig {
        let tree = BPlusConfig {
            overflow: Overflow::KeepContiguous,
            underflow: Underflow::Expel,
            ..BPlusConfig::new(record)
        };
        WpcbConfig::with_tree(tree, 128)
    }

    const fn with_tree(tree: BPlusConfig, blocks: u32) -> WpcbConfig {
        WpcbConfig {
            tree,
            tbm: TbmConfig::new(blocks),
            spare_blocks: WpcbConfig::usual_spare_blocks(blocks),
            full_nodes: FullNodes::Buffered,
        }
    }

    /// This configuration with so many buffer blocks.
    #[must_use]
    pub const fn with_tbm_blocks(self, blocks: u32) -> WpcbConfig {
        WpcbConfig::with_tree(self.tree, blocks)
    }

    /// This tree with as many buffer blocks as suit a chip that FTL and TBM divide: an eighth of it, which is
    /// 128 on the paper's, and no more; as many as the largest operation writes pages at least. `tree` says
    /// records, capacities, class and what a full leaf does.
    pub fn on_chip(tree: BPlusConfig, chip: Geometry) -> Result<WpcbConfig, IndexError> {
        let tree = BPlusConfig { underflow: Underflow::Expel, ..tree };
        let least = tree.group_pages_max(chip.page_bytes as usize, chip.pages())? as u32;
        Ok(WpcbConfig::with_tree(tree, (chip.blocks / 8).min(128).max(least)))
    }

    /// Blocks of the TBM beside so many buffer blocks, unless told: 2 and 1 for each 32.
    pub const fn usual_spare_blocks(blocks: u32) -> u32 {
        SPARE_BLOCKS_MIN.saturating_add(blocks / 32)
    }

    /// The most RAM that tree and TBM need over this store, with buffer blocks on such a range; without a
    /// page cache.
    pub fn ram_bytes_max(
        &self,
        store: &(impl PageStore + ?Sized),
        range: Geometry,
    ) -> Result<usize, IndexError> {
        let rule = match self.full_nodes {
            FullNodes::Buffered => 0,
            FullNodes::Direct => tbm::RULE_BYTES + size_of::<usize>(),
        };
        Ok(self.tree.ram_bytes_max(store)? + self.tbm.ram_bytes_max(range) + rule)
    }

    /// Blocks of the chip that the TBM takes; the store below has the others.
    pub const fn tbm_range_blocks(&self) -> u32 {
        self.tbm.blocks.saturating_add(self.spare_blocks)
    }
}
