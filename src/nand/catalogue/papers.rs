//! The set-ups of the papers that are reproduced.

use super::{Numbers, assumed, paper, part, remembered};
use crate::nand::Part;

pub(super) const MLC_64M: Part = part(
    "mlc-64m",
    Numbers {
        page: (4096, 128),
        pages_per_block: 128,
        blocks: 128,
        nop: 1,
        random_order: false,
        latencies_ns: (60_000, 800_200, 1_500_000),
        transfer_ps: 25_000,
        endurance: 5_000,
        supply: (3300, 15),
    },
    &[
        paper(
            "organisation",
            "mu-Tree (EMSOFT 2007) Table 1: (4K+128) B pages, 128 per block; Samsung K9GAG08U0M",
        ),
        paper("blocks", "mu-Tree section 6: 64 MiB, hence 128 of the part's 4,096 blocks"),
        paper("nop", "mu-Tree Table 1"),
        paper("read", "mu-Tree Table 1: 165.6 us less 4,224 B x 25 ns = 60 us"),
        paper(
            "program",
            "mu-Tree Table 1: 905.8 us less 105.6 us of transfer = 800.2 us; 800 us would give 905.6, so the table has \
             0.2 us more than the arithmetic",
        ),
        paper("erase", "mu-Tree Table 1: 1,500 us"),
        paper("transfer", "25 ns per byte, the value that reconciles both columns of Table 1"),
        remembered("endurance", "5,000 to 10,000 erases for MLC of that generation; the lower one"),
        assumed("supply", "15 mA at 3.3 V, as its SLC sibling K9WAG08U1A"),
    ],
);

const SLC_64M: Part = part(
    "slc-64m",
    Numbers {
        page: (2048, 64),
        pages_per_block: 64,
        blocks: 512,
        nop: 4,
        random_order: false,
        latencies_ns: (25_000, 200_000, 1_500_000),
        transfer_ps: 25_000,
        endurance: 100_000,
        supply: (3300, 15),
    },
    &[
        paper(
            "organisation",
            "mu-Tree (EMSOFT 2007) Table 1: (2K+64) B pages, 64 per block; Samsung K9WAG08U1A",
        ),
        paper("blocks", "64 MiB as in mu-Tree section 6, hence 512 blocks"),
        paper("nop", "mu-Tree Table 1"),
        paper("read", "mu-Tree Table 1: 77.8 us less 2,112 B x 25 ns = 25 us"),
        paper("program", "mu-Tree Table 1: 252.8 us less 52.8 us of transfer = 200 us"),
        paper("erase", "mu-Tree Table 1: 1,500 us"),
        paper("transfer", "25 ns per byte, the value that reconciles both columns of Table 1"),
        remembered("endurance", "100,000 erases for SLC"),
        remembered("supply", "15 mA typical at 3.3 V"),
    ],
);

const ACCESS_TIME: Part = part(
    "access-time",
    Numbers {
        page: (512, 16),
        pages_per_block: 32,
        blocks: 256,
        nop: 1,
        random_order: true,
        latencies_ns: (35_900, 226_000, 2_000_000),
        transfer_ps: 0,
        endurance: 100_000,
        supply: (3300, 10),
    },
    &[
        paper(
            "organisation",
            "study of index access time: 32 sectors a block, 512 B of data and 16 B of spare area each",
        ),
        assumed("blocks", "256 blocks, 4 MiB: the paper names no capacity, and its trees need a tenth of it"),
        assumed("nop", "1: the trees write whole pages"),
        paper("read", "35.9 us for 512 bytes, transfer included"),
        paper("program", "226 us for 512 bytes, transfer included"),
        paper("erase", "2 ms for a block of 16 KB"),
        paper("transfer", "none of its own: read and program are given as a whole"),
        remembered("endurance", "100,000 erases for SLC"),
        assumed("supply", "10 mA at 3.3 V, as the K9F1208U0B of the same pages"),
    ],
);

pub(super) static PARTS: &[Part] = &[MLC_64M, SLC_64M, ACCESS_TIME];
