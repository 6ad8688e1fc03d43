//! Serial NAND, at its fastest bus.

use super::{Numbers, assumed, datasheet, part, remembered, simulator};
use crate::nand::Part;

pub(super) static PARTS: &[Part] = &[
    part(
        "mt29f1g01abafd",
        Numbers {
            page: (2048, 128),
            pages_per_block: 64,
            blocks: 1024,
            nop: 4,
            random_order: false,
            latencies_ns: (25_000, 200_000, 2_000_000),
            transfer_ps: 15_038,
            endurance: 100_000,
            supply: (3300, 25),
        },
        &[
            datasheet("organisation", "Micron MT29F1G01ABAFD, 1 Gbit SPI NAND: 2,048+128 B, 64 pages; its ECC leaves 62 spare bytes and the mark (Linux driver)"),
            datasheet("blocks", "1 Gbit, hence 1,024 blocks; at most 20 bad ones"),
            assumed("nop", "4 partial programs, as W25N01GV"),
            datasheet("read", "25 us without the on-chip ECC (70 us at most with it)"),
            datasheet("program", "200 us typical without ECC (220 us with it)"),
            datasheet("erase", "2 ms typical"),
            datasheet("transfer", "133 MHz on 4 lines: two clocks per byte, 2,176 B in 32.7 us"),
            datasheet("endurance", "100,000 erases"),
            assumed("supply", "25 mA at 3.3 V"),
        ],
    )
    .leaving(63),
    part(
        "mt29f1g01aaadd",
        Numbers {
            page: (2048, 64),
            pages_per_block: 64,
            blocks: 1024,
            nop: 4,
            random_order: false,
            latencies_ns: (70_000, 220_000, 700_000),
            transfer_ps: 40_000,
            endurance: 100_000,
            supply: (3300, 25),
        },
        &[
            datasheet(
                "organisation",
                "Micron MT29F1G01AAADD, 1 Gbit SPI NAND: 2,048+64 B, 64 pages; its ECC leaves 30 spare bytes and the mark (Linux driver, of its sibling MT29F2G01AAAED)",
            ),
            datasheet("blocks", "1 Gbit, hence 1,024 blocks"),
            assumed("nop", "4 partial programs, as W25N01GV"),
            datasheet("read", "70 us at most in revision L (100 us in revision B)"),
            datasheet("program", "220 us in revision L (400 us in revision B)"),
            datasheet("erase", "0.7 ms in revision L (4 ms in revision B)"),
            datasheet("transfer", "50 MHz; on 4 lines, two clocks per byte"),
            assumed("endurance", "100,000 erases, as other SLC parts"),
            assumed("supply", "25 mA at 3.3 V"),
        ],
    )
    .leaving(31),
    part(
        "w25n01gv",
        Numbers {
            page: (2048, 64),
            pages_per_block: 64,
            blocks: 1024,
            nop: 4,
            random_order: false,
            latencies_ns: (60_000, 250_000, 2_000_000),
            transfer_ps: 19_231,
            endurance: 100_000,
            supply: (3300, 25),
        },
        &[
            datasheet("organisation", "Winbond W25N01GV, 1 Gbit SPI NAND: 2,048+64 B, 64 pages; its ECC covers 16 of the 24 spare bytes that it leaves (bytes 4 to 7 of each 16; Linux driver), and there is the mark"),
            datasheet("blocks", "1 Gbit, hence 1,024 blocks; at most 20 bad ones"),
            datasheet("nop", "4 partial programs"),
            datasheet("read", "60 us at most with ECC"),
            datasheet("program", "250 us typical, 700 us at most"),
            datasheet("erase", "2 ms typical, 10 ms at most"),
            datasheet("transfer", "104 MHz on 4 lines: two clocks per byte, 2,112 B in 40.6 us"),
            datasheet("endurance", "100,000 erases"),
            remembered("supply", "25 mA typical, 35 mA at most, at 3.3 V"),
        ],
    )
    .leaving(17),
    part(
        "gd5f1gq4uayig",
        Numbers {
            page: (2048, 64),
            pages_per_block: 64,
            blocks: 1024,
            nop: 4,
            random_order: false,
            latencies_ns: (120_000, 400_000, 3_000_000),
            transfer_ps: 18_519,
            endurance: 100_000,
            supply: (3300, 40),
        },
        &[
            datasheet("organisation", "GigaDevice GD5F1GQ4UAYIG, 1 Gbit SPI NAND: 2,048+64 B, 64 pages; its ECC leaves 31 spare bytes and the mark (Linux driver)"),
            datasheet("blocks", "1 Gbit, hence 1,024 blocks"),
            assumed("nop", "4 partial programs, as W25N01GV"),
            datasheet("read", "120 us at most with ECC"),
            datasheet("program", "400 us typical"),
            datasheet("erase", "3 ms typical"),
            datasheet("transfer", "108 MHz; on 4 lines, two clocks per byte"),
            assumed("endurance", "100,000 erases, as other SLC parts"),
            datasheet(
                "supply",
                "40 mA at most, so the energy is an upper bound; the voltage of 3.3 V is assumed",
            ),
        ],
    )
    .leaving(32),
    part(
        "gd5f1gq5",
        Numbers {
            page: (2048, 128),
            pages_per_block: 64,
            blocks: 1024,
            nop: 4,
            random_order: false,
            latencies_ns: (120_000, 400_000, 3_000_000),
            transfer_ps: 18_519,
            endurance: 100_000,
            supply: (3300, 40),
        },
        &[
            simulator(
                "organisation",
                "Linux driver of GigaDevice GD5F1GQ5: 2,048+128 B, of which the ECC leaves 63 and the mark; 64 pages are assumed",
            ),
            assumed("blocks", "1 Gbit, hence 1,024 blocks"),
            assumed("nop", "4 partial programs, as W25N01GV"),
            assumed("read", "120 us, as GD5F1GQ4"),
            assumed("program", "400 us, as GD5F1GQ4"),
            assumed("erase", "3 ms, as GD5F1GQ4"),
            assumed("transfer", "108 MHz on 4 lines, as GD5F1GQ4"),
            assumed("endurance", "100,000 erases, as other SLC parts"),
            assumed("supply", "40 mA at 3.3 V, as GD5F1GQ4"),
        ],
    )
    .leaving(64),
];
