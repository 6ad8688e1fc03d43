//! Settings of a WPCB-tree: its nodes, its buffer blocks, and its rule for full leaves.

use crate::ftl::tbm::{self, SPARE_BLOCKS_MIN, TbmConfig};
use nandex::check::IndexError;
use nandex::nand::Geometry;
use nandex::ordered::RecordFormat;
use nandex::ordered::bplus::{BPlusConfig, Overflow, Underflow};
use nandex::store::PageStore;

/// Where a leaf is written when it becomes full and will stay whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FullNodes {
    /// The leaf's buffer block, as for any other node.
    #[default]
    Buffered,
    /// The FTL at once, as in section 6.2 of the paper.
    Direct,
}

/// The settings of a WPCB-tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WpcbConfig {
    /// The settings of the tree. Its empty nodes are expelled; nodes are not merged.
    pub tree: BPlusConfig,
    /// The settings of the buffer blocks.
    pub tbm: TbmConfig,
    /// Blocks of the TBM besides the buffer blocks.
    pub spare_blocks: u32,
    /// Where full leaves are written.
    pub full_nodes: FullNodes,
}

impl WpcbConfig {
    /// The paper's recommendation: 128 buffer blocks, and contiguous leaves stay whole.
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

    /// These settings with `blocks` buffer blocks.
    #[must_use]
    pub const fn with_tbm_blocks(self, blocks: u32) -> WpcbConfig {
        WpcbConfig::with_tree(self.tree, blocks)
    }

    /// Settings with buffer blocks for a chip that FTL and TBM share: an eighth of the chip but at most
    /// 128, which is an eighth of the paper's chip, and at least the pages of the largest operation. `tree`
    /// gives records, capacities, class and overflow rule.
    pub fn on_chip(tree: BPlusConfig, chip: Geometry) -> Result<WpcbConfig, IndexError> {
        let tree = BPlusConfig { underflow: Underflow::Expel, ..tree };
        let least = tree.group_pages_max(chip.page_bytes as usize, chip.pages())? as u32;
        Ok(WpcbConfig::with_tree(tree, (chip.blocks / 8).min(128).max(least)))
    }

    /// Blocks of the TBM besides its buffer blocks by default: 2, and 1 more for every 32 buffer blocks.
    pub const fn usual_spare_blocks(blocks: u32) -> u32 {
        SPARE_BLOCKS_MIN.saturating_add(blocks / 32)
    }

    /// Bytes of RAM that tree and TBM take at most over this store, with blocks on `range`. No page cache
    /// is counted.
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

    /// Blocks of the chip that the TBM takes. The store below has the others.
    pub const fn tbm_range_blocks(&self) -> u32 {
        self.tbm.blocks.saturating_add(self.spare_blocks)
    }
}
