//! Serial NOR: a page is programmed any number of times, and each program only clears bits.

use super::{Numbers, assumed, datasheet, part, remembered};
use crate::nand::{Geometry, Part};

/// Constant, so that tests and examples can use the part.
pub(super) const AT45DB161E: Part = part(
    "at45db161e",
    Numbers {
        page: (512, 16),
        pages_per_block: 8,
        blocks: 512,
        nop: Geometry::ANY_PROGRAMS,
        random_order: true,
        latencies_ns: (0, 1_500_000, 25_000_000),
        transfer_ps: 11_765 * 8,
        endurance: 100_000,
        supply: (3300, 11),
    },
    &[
        datasheet(
            "organisation",
            "Adesto AT45DB161E, 16 Mbit DataFlash: pages of 528 B, 512+16 B here; block erase of 4 KB, hence 8 pages",
        ),
        datasheet("blocks", "4,096 pages, hence 512 blocks"),
        assumed(
            "nop",
            "programs through a buffer without erase take 1 to 528 bytes; any number of them, as long as bits are only \
             cleared. The sheet wants each page of a sector rewritten now and then: not modelled",
        ),
        assumed("read", "no array time: pages are read from the array as fast as the bus clocks"),
        remembered("program", "1.5 ms typical for a page"),
        remembered("erase", "25 ms typical for a block of 4 KB"),
        datasheet("transfer", "85 MHz on one line: eight clocks per byte, 528 B in 49.7 us"),
        datasheet("endurance", "100,000 program/erase cycles per page at least"),
        datasheet("supply", "11 mA active read current, typical; taken for everything, at an assumed 3.3 V"),
    ],
);

pub(super) static PARTS: &[Part] = &[AT45DB161E];
