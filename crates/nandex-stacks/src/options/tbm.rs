//! The Transit Buffer Manager, of the WPCB-tree or before an FTL.

use super::{Choice, Number, Options};
use crate::names::{OptionInfo, option};
use nandex::{Geometry, StoreError};
use nandex_papers::ftl::tbm::{SPARE_BLOCKS_MIN, TbmConfig, VictimReads};
use nandex_papers::ordered::wpcb::WpcbConfig;

const BLOCKS: Number<u32> = Number::new(
    option(
        "tbm_blocks",
        "an eighth of the chip, 128 at most",
        "C: buffer blocks at most; an operation writes as many pages at most",
    ),
    (0, u32::MAX),
);
const SPARE_BLOCKS: Number<u32> = Number::new(
    option(
        "tbm_spare_blocks",
        "2 and 1 for each 32",
        "blocks of the TBM beside the buffer blocks, 2 or more",
    ),
    (0, u32::MAX),
);
const WHOLE_FROM: Number<u32> = Number::new(
    option(
        "whole_from",
        "0",
        "newest pages of a buffer block from which on all pages of the logical block are converted; 0: never",
    ),
    (0, u32::MAX),
);
const VICTIM_READS: Choice<VictimReads> = Choice::new(
    "victim_reads",
    "pages of a buffer block that its conversion reads: kept, those that it writes; every, as published",
    &[("kept", VictimReads::Kept), ("every", VictimReads::Every)],
);

pub(crate) const OPTIONS: [OptionInfo; 4] =
    [BLOCKS.info, SPARE_BLOCKS.info, WHOLE_FROM.info, VICTIM_READS.info];

/// Configuration of the TBM, and the number of its blocks on a chip that it shares with the store below.
/// `usual_blocks` is the default of the paper's C.
pub fn config(options: &Options, chip: Geometry, usual_blocks: u32) -> Result<(TbmConfig, u32), StoreError> {
    let most = chip.blocks.max(chip.pages_per_block);
    let refuse = |what: String| Err(StoreError::Unsupported(what.into()));
    let blocks = BLOCKS.up_to(options, most)?.unwrap_or(usual_blocks);
    let spare_blocks = SPARE_BLOCKS.up_to(options, most)?.unwrap_or(WpcbConfig::usual_spare_blocks(blocks));
    if blocks == 0 || spare_blocks < SPARE_BLOCKS_MIN {
        return refuse(format!(
            "tbm_blocks = {blocks}, tbm_spare_blocks = {spare_blocks}: 1 and {SPARE_BLOCKS_MIN} at least are possible"
        ));
    }
    let whole_from = WHOLE_FROM.up_to(options, most)?.filter(|&pages| pages > 0);
    if let Some(pages) = whole_from.filter(|&pages| pages > chip.pages_per_block) {
        return refuse(format!("whole_from = {pages}: a block has {} pages", chip.pages_per_block));
    }
    let range_blocks = blocks.saturating_add(spare_blocks);
    if range_blocks >= chip.blocks {
        let all = chip.blocks;
        return refuse(format!("{range_blocks} blocks for the TBM leave none of {all} for the FTL"));
    }
    let victim_reads = VICTIM_READS.of(options)?;
    Ok((TbmConfig { whole_from, victim_reads, ..TbmConfig::new(blocks) }, spare_blocks))
}
