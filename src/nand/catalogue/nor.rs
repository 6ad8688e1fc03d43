//! NOR: serial parts, and the flash inside of microcontrollers.
//!
//! NOR has no pages with spare areas: they are our cut, as `NorChip` of `nandex-embedded` makes it. A page of
//! 512 bytes, 448 and 64 spare ones, divides every erase unit, and its spare area suffices for every index
//! on blocks of up to 216 pages. Half of that makes updates 1.7 times faster (plow, 391 us for 658), but a
//! mu-Tree on 16 MiB then holds 25 records and plow 31,000; twice of it makes them 1.7 times slower and lets
//! plow fill the part: docs/porting.md. Blocks are as the erases of the part: 64 KiB of a serial part take a
//! fifth of the time of 16 erases of 4 KiB.

use super::{Numbers, assumed, datasheet, part, remembered};
use crate::nand::{Geometry, Note, Part, WordTiming};

/// A part that programs words: its numbers, the bytes of a word, and the time of words.
const fn nor(
    name: &'static str,
    numbers: Numbers,
    append_bytes: u16,
    words: WordTiming,
    notes: &'static [Note; 9],
) -> Part {
    let mut part = part(name, numbers, notes);
    part.geometry.append_bytes = append_bytes;
    part.with_words(words)
}

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

/// Pages of 512 bytes, spare area included: see above.
const PAGE: (u32, u32) = (448, 64);

/// Bytes of a W25Q: 30 us, 2.5 us for each further one, 0.4 ms for a program page of 256.
const W25Q_WORDS: WordTiming = WordTiming::new(30_000, 2_500, 256, 400_000);

/// The numbers of a W25Q whose blocks have so many erase units of 4 KiB.
const fn w25q(blocks: u32, units: u32, erase_ns: u64) -> Numbers {
    Numbers {
        page: PAGE,
        pages_per_block: units * 8,
        blocks,
        nop: Geometry::ANY_PROGRAMS,
        random_order: true,
        latencies_ns: (1_000, 0, erase_ns),
        transfer_ps: 40_000,
        endurance: 100_000,
        supply: (3300, 20),
    }
}

const W25Q_NOP: Note = assumed(
    "nop",
    "single bytes are programmed, any number of times as long as bits are only cleared, as drivers do; the sheet does not forbid it",
);
const W25Q_READ: Note =
    assumed("read", "1 us for command, address and dummy clocks; the array is as fast as the bus");
const W25Q_PROGRAM: Note = datasheet(
    "program",
    "30 us typical for the first byte, 2.5 us for each further one, 0.4 ms typical for a page of 256 B",
);
const W25Q_ERASE_64: Note =
    datasheet("erase", "150 ms typical for a block of 64 KB; 45 ms for a sector of 4 KB");
const W25Q_TRANSFER: Note = assumed("transfer", "50 MHz on 4 lines: two clocks per byte");
const W25Q_ENDURANCE: Note = remembered("endurance", "100,000 program/erase cycles per sector at least");
const W25Q_SUPPLY: Note =
    remembered("supply", "20 mA, typical of a program or an erase; taken for everything");

/// Pages of 256 bytes, spare area included, where the erase unit is 2 KiB.
const SMALL_PAGE: (u32, u32) = (240, 16);

/// The numbers of the flash inside of a microcontroller: blocks, pages of a block, and the time of an erase.
const fn internal(blocks: u32, pages_per_block: u32, erase_ns: u64) -> Numbers {
    Numbers {
        page: PAGE,
        pages_per_block,
        blocks,
        nop: 1,
        random_order: false,
        latencies_ns: (100, 0, erase_ns),
        transfer_ps: 6_000,
        endurance: 10_000,
        supply: (3300, 12),
    }
}

const INTERNAL_READ: Note = assumed("read", "0.1 us for the call; the flash is mapped to addresses");
const INTERNAL_ENDURANCE: Note = remembered("endurance", "10,000 cycles at least");
const INTERNAL_TRANSFER: Note = assumed("transfer", "a copy by the processor, some clocks for four bytes");

pub(super) static PARTS: &[Part] = &[
    AT45DB161E,
    nor(
        "w25q128",
        w25q(256, 16, 150_000_000),
        1,
        W25Q_WORDS,
        &[
            assumed(
                "organisation",
                "Winbond W25Q128JV, 128 Mbit: pages of 448+64 B, eight in a sector of 4 KB, in blocks of 64 KB: our cut of 512 B",
            ),
            datasheet("blocks", "16 MiB, hence 256 blocks of 64 KB"),
            W25Q_NOP,
            W25Q_READ,
            W25Q_PROGRAM,
            W25Q_ERASE_64,
            W25Q_TRANSFER,
            W25Q_ENDURANCE,
            W25Q_SUPPLY,
        ],
    ),
    nor(
        "w25q32",
        w25q(64, 16, 150_000_000),
        1,
        W25Q_WORDS,
        &[
            assumed("organisation", "Winbond W25Q32JV, 32 Mbit: cut as w25q128"),
            datasheet("blocks", "4 MiB, hence 64 blocks of 64 KB"),
            W25Q_NOP,
            W25Q_READ,
            remembered("program", "as W25Q128JV"),
            remembered("erase", "as W25Q128JV"),
            W25Q_TRANSFER,
            W25Q_ENDURANCE,
            W25Q_SUPPLY,
        ],
    ),
    nor(
        "rp2040",
        w25q(128, 4, 180_000_000),
        1,
        WordTiming::new(400_000, 0, 256, 400_000),
        &[
            assumed(
                "organisation",
                "W25Q16JV of a Raspberry Pi Pico, 16 Mbit: pages of 448+64 B, eight in a sector of 4 KB, in blocks of four sectors: our cut of 512 B",
            ),
            datasheet("blocks", "2 MiB, hence 512 sectors, 128 blocks; the program keeps some of them"),
            W25Q_NOP,
            W25Q_READ,
            remembered(
                "program",
                "flash_range_program of pico-sdk writes whole pages of 256 B, 0.4 ms typical each, however many bytes are not 0xFF",
            ),
            remembered("erase", "45 ms typical for a sector, of which flash_range_erase takes four"),
            W25Q_TRANSFER,
            W25Q_ENDURANCE,
            W25Q_SUPPLY,
        ],
    ),
    nor(
        "nrf52",
        Numbers { transfer_ps: 15_000, supply: (3000, 5), ..internal(256, 8, 85_000_000) },
        4,
        WordTiming::each(41_000),
        &[
            remembered(
                "organisation",
                "Nordic nRF52840: pages of 4 KB, words of 4 B; 448+64 B, eight to a page of the part: our cut of 512 B",
            ),
            remembered("blocks", "1 MiB, hence 256 pages of the part; the program keeps some of them"),
            remembered("nop", "a word takes two writes between erases; the second is not used"),
            INTERNAL_READ,
            remembered("program", "41 us for a word of 4 B"),
            remembered("erase", "85 ms for a page of 4 KB"),
            INTERNAL_TRANSFER,
            INTERNAL_ENDURANCE,
            assumed("supply", "5 mA at 3 V"),
        ],
    ),
    nor(
        "stm32f4",
        Numbers { nop: Geometry::ANY_PROGRAMS, random_order: true, ..internal(7, 256, 1_000_000_000) },
        4,
        WordTiming::each(16_000),
        &[
            remembered(
                "organisation",
                "ST STM32F405: the sectors of 128 KB, those of 16 and 64 KB keep the program; 448+64 B, 256 to a sector: our cut of 512 B",
            ),
            remembered(
                "blocks",
                "1 MiB: four sectors of 16 KB, one of 64, seven of 128; these seven. Most indexes want eight blocks",
            ),
            datasheet(
                "nop",
                "RM0090: successive writes without an erase, as long as bits are only cleared; no ECC",
            ),
            INTERNAL_READ,
            remembered("program", "16 us typical for a word of 4 B, at 2.7 V and more (x32)"),
            remembered("erase", "1 s typical for a sector of 128 KB (x32)"),
            INTERNAL_TRANSFER,
            INTERNAL_ENDURANCE,
            remembered("supply", "12 mA for programs and erases (x32), at an assumed 3.3 V"),
        ],
    ),
    nor(
        "stm32g4",
        Numbers { page: SMALL_PAGE, supply: (3300, 4), ..internal(256, 8, 22_000_000) },
        8,
        WordTiming::each(82_000),
        &[
            remembered(
                "organisation",
                "ST STM32G474 with two banks: pages of 2 KB; 240+16 B, eight to a page of the part: our cut of 256 B",
            ),
            remembered("blocks", "512 KiB, hence 256 pages of the part; the program keeps some of them"),
            datasheet(
                "nop",
                "RM0440, quoted in the forum of ST: a double word of 8 B with its ECC is programmed once between two erases",
            ),
            INTERNAL_READ,
            remembered("program", "82 us typical for a double word"),
            remembered("erase", "22 ms typical for a page of 2 KB"),
            INTERNAL_TRANSFER,
            INTERNAL_ENDURANCE,
            remembered("supply", "3.5 mA for programs and erases, at an assumed 3.3 V"),
        ],
    ),
    nor(
        "stm32h7",
        Numbers { transfer_ps: 3_000, supply: (3300, 20), ..internal(8, 256, 1_100_000_000) },
        32,
        WordTiming::each(130_000),
        &[
            remembered(
                "organisation",
                "ST STM32H743: sectors of 128 KB, words of 32 B; 448+64 B, 256 to a sector: our cut of 512 B",
            ),
            datasheet("blocks", "two banks of eight sectors of 128 KB; the one without the program"),
            datasheet(
                "nop",
                "forum of ST: a flash word of 32 B with its ECC is programmed once between two erases",
            ),
            INTERNAL_READ,
            remembered("program", "130 us typical for a flash word of 32 B (x32)"),
            datasheet("erase", "1.1 s typical for a sector of 128 KB (x32)"),
            INTERNAL_TRANSFER,
            INTERNAL_ENDURANCE,
            remembered("supply", "20 mA for programs and erases (x32), at an assumed 3.3 V"),
        ],
    ),
];
