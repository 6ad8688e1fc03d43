//! How a WPCB-tree is set up: its nodes, its buffer blocks, and what its full leaves do.

use crate::check::IndexError;
use crate::check::message;
use crate::ftl::tbm::{self, SPARE_BLOCKS_MIN, TbmSettings, VictimReads};
use crate::nand::Geometry;
use crate::ordered::bplus::{BPlusConfig, Overflow, Underflow};
use crate::ordered::{Options, RecordFormat, Settings};
use crate::store::PageStore;

/// Options that the tree takes besides those of the B+-tree: name and meaning.
pub const OPTIONS: [(&str, &str); 6] = [
    (
        "tbm_blocks",
        "buffer blocks at most, C of the paper; as many pages are written atomically (default: an eighth of the chip, \
         128 at most, what the largest operation writes at least)",
    ),
    (
        "tbm_spare_blocks",
        "blocks of the TBM beside the buffer blocks, 2 or more, for those that fail (default: 2 and 1 for each 32)",
    ),
    (
        "whole_from",
        "newest pages of a buffer block from which on all pages of the logical block are converted; 0 for never (default)",
    ),
    (
        "victim_reads",
        "pages of a buffer block that its conversion reads: kept (default), those that it writes; every, as the paper has it",
    ),
    (
        "full_nodes",
        "a leaf that becomes full and will stay whole goes to the buffer: buffered (default), or to the FTL at once: direct",
    ),
    (
        "overflow",
        "a full leaf stays whole if its keys are contiguous (default), if the new key is beyond them: ascending, or \
         never: split",
    ),
];

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
    pub tbm: TbmSettings,
    /// Blocks of the TBM beside the buffer blocks.
    pub spare_blocks: u32,
    /// Where full leaves are written.
    pub full_nodes: FullNodes,
}

impl WpcbConfig {
    /// As the paper recommends: 128 buffer blocks; contiguous leaves stay whole.
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
            tbm: TbmSettings::new(blocks),
            spare_blocks: default_spare_blocks(blocks),
            full_nodes: FullNodes::Buffered,
        }
    }

    /// The same with so many buffer blocks.
    #[must_use]
    pub const fn with_tbm_blocks(self, blocks: u32) -> WpcbConfig {
        WpcbConfig::with_tree(self.tree, blocks)
    }

    /// From settings, with the [`OPTIONS`] and those of the B+-tree, for a chip that FTL and TBM divide.
    pub fn from_settings(settings: &Settings, chip: Geometry) -> Result<WpcbConfig, IndexError> {
        let options = &settings.options;
        let overflow = match options.choice("overflow", &["contiguous", "ascending", "split"])? {
            "split" => Overflow::Split,
            "ascending" => Overflow::KeepAscending,
            _ => Overflow::KeepContiguous,
        };
        let tree =
            BPlusConfig { overflow, underflow: Underflow::Expel, ..BPlusConfig::from_settings(settings)? };
        let usual_blocks = default_blocks(&tree, chip)?;
        let (tbm, spare_blocks) = buffer_from_options(options, chip, usual_blocks)?;
        let full_nodes = match options.choice("full_nodes", &["buffered", "direct"])? {
            "direct" => FullNodes::Direct,
            _ => FullNodes::Buffered,
        };
        Ok(WpcbConfig { tree, tbm, spare_blocks, full_nodes })
    }

    /// The most RAM that tree and TBM need over this store, with buffer blocks on such a range; without a page cache.
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

/// The buffer blocks that options ask for, and the blocks of the TBM beside them, on a chip that it divides with the store below. The
/// options are those of [`OPTIONS`] that are about them; `usual_blocks` is C without any.
pub fn buffer_from_options(
    options: &Options,
    chip: Geometry,
    usual_blocks: u32,
) -> Result<(TbmSettings, u32), IndexError> {
    let number = |name| -> Result<Option<u32>, IndexError> {
        Ok(options.number(name, 0..=u64::from(chip.blocks.max(chip.pages_per_block)))?.map(|n| n as u32))
    };
    let refuse = |what| Err(IndexError::Unsupported(what));
    let blocks = number("tbm_blocks")?.unwrap_or(usual_blocks);
    let spare_blocks = number("tbm_spare_blocks")?.unwrap_or(default_spare_blocks(blocks));
    if blocks == 0 || spare_blocks < SPARE_BLOCKS_MIN {
        return refuse(message!(
            "tbm_blocks = {blocks}, tbm_spare_blocks = {spare_blocks}: 1 and {SPARE_BLOCKS_MIN} at least are possible"
        ));
    }
    let whole_from = number("whole_from")?.filter(|&pages| pages > 0);
    if let Some(pages) = whole_from.filter(|&pages| pages > chip.pages_per_block) {
        return refuse(message!("whole_from = {pages}: a block has {} pages", chip.pages_per_block));
    }
    let range_blocks = blocks.saturating_add(spare_blocks);
    if range_blocks >= chip.blocks {
        let all = chip.blocks;
        return refuse(message!("{range_blocks} blocks for the TBM leave none of {all} for the FTL"));
    }
    let victim_reads = match options.choice("victim_reads", &["kept", "every"])? {
        "every" => VictimReads::Every,
        _ => VictimReads::Kept,
    };
    Ok((TbmSettings { whole_from, victim_reads, ..TbmSettings::new(blocks) }, spare_blocks))
}

const fn default_spare_blocks(blocks: u32) -> u32 {
    SPARE_BLOCKS_MIN.saturating_add(blocks / 32)
}

/// An eighth of the chip, which is 128 on the paper's, and no more; as many as the largest operation writes pages at least.
fn default_blocks(tree: &BPlusConfig, chip: Geometry) -> Result<u32, IndexError> {
    let least = tree.group_pages_max(chip.page_bytes as usize, chip.pages())? as u32;
    Ok((chip.blocks / 8).min(128).max(least))
}
