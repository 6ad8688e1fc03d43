//! Arrays: several chips on channels of their own, shown as one
//! ([`Geometry::channels`](crate::nand::Geometry)).

use super::{Numbers, assumed, paper, part, remembered};
use crate::nand::Part;

/// Returns the part of an array of `channels` such chips. All of them draw current when a row of blocks is
/// erased.
const fn array(mut part: Part, channels: u32) -> Part {
    part.geometry.channels = channels;
    part.supply.erase_ma *= channels;
    part
}

pub(super) static PARTS: &[Part] = &[array(
    part(
        "slc-array-8",
        Numbers {
            page: (2048, 64),
            pages_per_block: 512,
            blocks: 256,
            nop: 4,
            random_order: false,
            latencies_ns: (25_000, 200_000, 1_500_000),
            transfer_ps: 25_000,
            endurance: 100_000,
            supply: (3300, 15),
        },
        &[
            assumed(
                "organisation",
                "8 chips like slc-64m on 8 channels, a block being a row of 8 of theirs: 8 x 64 pages; our choice, for indexes that \
                 submit requests together (PIO B-tree); no paper gives such a chip",
            ),
            assumed("blocks", "256 rows, 256 MiB"),
            paper("nop", "as slc-64m"),
            paper("read", "as slc-64m"),
            paper("program", "as slc-64m"),
            paper("erase", "as slc-64m: the 8 blocks of a row are erased at the same time"),
            paper("transfer", "as slc-64m, on a bus for each chip"),
            remembered("endurance", "as slc-64m"),
            remembered("supply", "as slc-64m for each chip; 8 x 15 mA while a row is erased"),
        ],
    ),
    8,
)];
