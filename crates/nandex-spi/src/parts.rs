//! The table of parts: identification, organisation, and the spare bytes that the ECC leaves free.
//!
//! Identifications, organisation, free spare bytes, ECC and lines are those of the drivers of Linux
//! (`drivers/mtd/nand/spi`). Times are the largest of the data sheets, rounded up, and only limit how long
//! the driver waits. No part was available for testing; only the model (feature `model`) was run.

use crate::ecc::Ecc;
use crate::feature;
use nandex::Geometry;

/// How to select one of the dies of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DieSelect {
    /// The part has one die.
    None,
    /// A command with the number of the die (Winbond).
    Command,
    /// Bit 6 of the register 0xD0 (Micron).
    Register,
}

/// How a read from the buffer of a part writes the column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// In two bytes, with a byte of nothing behind them.
    TwoBytes,
    /// In three bytes, the first of them zero (some parts of GigaDevice).
    ThreeBytes,
}

/// Transfers of a part that can go over four lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quad {
    /// No transfers over four lines, or unknown.
    None,
    /// Reads from its buffer.
    Reads,
    /// Reads and program loads over four lines. The flag tells if a bit of the configuration register must be
    /// set first.
    ReadsAndLoads {
        /// Whether there is such a bit.
        has_enable: bool,
    },
}

impl Quad {
    /// Bits of the configuration that turn four lines on.
    pub(crate) const fn enable(self) -> u8 {
        match self {
            Quad::ReadsAndLoads { has_enable: true } => feature::QUAD_ENABLED,
            _ => 0,
        }
    }

    pub(crate) const fn reads(self) -> bool {
        !matches!(self, Quad::None)
    }

    pub(crate) const fn loads(self) -> bool {
        matches!(self, Quad::ReadsAndLoads { .. })
    }
}

/// How long the array of a part takes at most, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// A page read, ECC included.
    pub read_us: u32,
    /// Longest time of a page program, in microseconds.
    pub program_us: u32,
    /// Longest time of a block erase, in microseconds.
    pub erase_us: u32,
}

impl Times {
    /// Times of the slowest parts.
    pub(crate) const SLOW: Times = Times { read_us: 400, program_us: 2_000, erase_us: 20_000 };
}

/// An SPI NAND part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpiPart {
    /// The maker's name of the part.
    pub name: &'static str,
    /// The identification: maker, then device.
    pub id: &'static [u8],
    /// Bytes of the data area of a page.
    pub page_bytes: u32,
    /// Bytes of its spare area.
    pub raw_spare_bytes: u32,
    /// Pages of a block.
    pub pages_per_block: u32,
    /// Blocks of a die.
    pub blocks: u32,
    /// Planes, between which blocks alternate: a column address names the plane.
    pub planes: u8,
    /// Number of dies.
    pub dies: u8,
    /// How a die is chosen.
    pub die_select: DieSelect,
    /// The spare bytes that are the user's and covered by the ECC: runs of offset and length, ascending,
    /// within the first 128.
    pub free: &'static [(u16, u16)],
    /// How the part reports corrected bits.
    pub ecc: Ecc,
    /// Bits of the configuration register to set, besides that of the ECC.
    pub set: u8,
    /// Bits of the configuration register that are cleared.
    pub clear: u8,
    /// Longest times of the operations.
    pub times: Times,
    /// How a read from the buffer writes the column.
    pub column: Column,
    /// Transfers that can go over four lines.
    pub quad: Quad,
}

/// The spare bytes that the driver looks at.
pub(crate) const SPARE_MAX: usize = 128;

impl SpiPart {
    /// Bytes of the spare area as the engine sees it: the place of the mark, and the user's.
    pub const fn spare_bytes(&self) -> u32 {
        let (mut bytes, mut run) = (1, 0);
        while run < self.free.len() {
            bytes += self.free[run].1 as u32;
            run += 1;
        }
        bytes
    }

    /// The chip as the engine sees it, all dies in a row. A page is programmed once: its ECC covers steps of
    /// 512 bytes, which a second program would spoil.
    pub const fn geometry(&self) -> Geometry {
        let blocks = self.blocks * self.dies as u32;
        Geometry::new(self.page_bytes, self.spare_bytes(), self.pages_per_block, blocks)
    }

    /// Pages of a die.
    pub(crate) const fn pages_per_die(&self) -> u32 {
        self.blocks * self.pages_per_block
    }
}

const WINBOND_BUFFERED: u8 = 0x08;
const MICRON_CONTINUOUS: u8 = 0x01;
const ENABLED: Quad = Quad::ReadsAndLoads { has_enable: true };
const FAST: Times = Times { read_us: 120, program_us: 700, erase_us: 10_000 };

const W25N: SpiPart = SpiPart {
    name: "W25N01GV",
    id: &[0xef, 0xaa, 0x21],
    page_bytes: 2048,
    raw_spare_bytes: 64,
    pages_per_block: 64,
    blocks: 1024,
    planes: 1,
    dies: 1,
    die_select: DieSelect::None,
    // Linux counts bytes 2 to 7 of each 16; the ECC covers 4 to 7.
    free: &[(4, 4), (20, 4), (36, 4), (52, 4)],
    ecc: Ecc::OneBit,
    set: WINBOND_BUFFERED,
    clear: 0,
    times: FAST,
    column: Column::TwoBytes,
    quad: Quad::ReadsAndLoads { has_enable: false },
};

/// Winbond W25N01GV: 1 Gbit, 16 spare bytes under ECC.
pub static W25N01GV: SpiPart = W25N;

const W25N_KV: SpiPart = SpiPart {
    name: "W25N02KV",
    id: &[0xef, 0xaa, 0x22],
    raw_spare_bytes: 128,
    blocks: 2048,
    free: &[(2, 14), (18, 14), (34, 14), (50, 14)],
    ecc: Ecc::Counted { strength: 8 },
    ..W25N
};

const GD5F: SpiPart = SpiPart {
    name: "GD5F1GQ4xA",
    id: &[0xc8, 0xf1],
    free: &[(1, 7), (16, 8), (32, 8), (48, 8)],
    ecc: Ecc::SevenOrEight,
    set: 0,
    quad: ENABLED,
    ..W25N
};

const GD5F_128: SpiPart = SpiPart {
    name: "GD5F1GQ4UE",
    id: &[0xc8, 0xd1],
    raw_spare_bytes: 128,
    free: &[(1, 63)],
    ecc: Ecc::FourToEight,
    ..GD5F
};

const MX35: SpiPart = SpiPart {
    name: "MX35LF1GE4AB",
    id: &[0xc2, 0x12],
    // The ECC has a place of its own.
    free: &[(2, 62)],
    ecc: Ecc::Asked { strength: 4 },
    set: 0,
    quad: ENABLED,
    ..W25N
};

const MT29F: SpiPart = SpiPart {
    name: "MT29F1G01ABAFD",
    id: &[0x2c, 0x14],
    raw_spare_bytes: 128,
    free: &[(2, 62)],
    ecc: Ecc::InSteps,
    set: 0,
    ..W25N
};

const TC58: SpiPart = SpiPart {
    name: "TC58CVG0S3HRAIJ",
    id: &[0x98, 0xe2],
    raw_spare_bytes: 128,
    free: &[(2, 62)],
    ecc: Ecc::Counted { strength: 8 },
    set: 0,
    quad: ENABLED,
    times: Times { read_us: 300, ..FAST },
    ..W25N
};

/// Every part. If two identifications begin alike, the longer one comes first.
pub static PARTS: &[SpiPart] = &[
    W25N,
    SpiPart { name: "W25N512GV", id: &[0xef, 0xaa, 0x20], blocks: 512, ..W25N },
    SpiPart { name: "W25N01GW", id: &[0xef, 0xba, 0x21], ..W25N },
    SpiPart { name: "W25M02GV", id: &[0xef, 0xab, 0x21], dies: 2, die_select: DieSelect::Command, ..W25N },
    SpiPart {
        name: "W25N01KV",
        id: &[0xef, 0xae, 0x21],
        raw_spare_bytes: 96,
        blocks: 1024,
        ecc: Ecc::Counted { strength: 4 },
        ..W25N_KV
    },
    W25N_KV,
    SpiPart { name: "W25N02KW", id: &[0xef, 0xba, 0x22], ..W25N_KV },
    SpiPart { name: "W25N04KV", id: &[0xef, 0xaa, 0x23], blocks: 4096, ..W25N_KV },
    SpiPart { name: "W25N04KW", id: &[0xef, 0xba, 0x23], blocks: 4096, ..W25N_KV },
    MX35,
    SpiPart {
        name: "MX35LF2GE4AB",
        id: &[0xc2, 0x22],
        blocks: 2048,
        planes: 2,
        ecc: Ecc::Unknown { strength: 4 },
        ..MX35
    },
    GD5F,
    SpiPart { name: "GD5F2GQ4xA", id: &[0xc8, 0xf2], blocks: 2048, ..GD5F },
    SpiPart { name: "GD5F4GQ4xA", id: &[0xc8, 0xf4], blocks: 4096, ..GD5F },
    SpiPart {
        name: "GD5F1GQ4UF",
        id: &[0xc8, 0xb1, 0x48],
        ecc: Ecc::ThreeToEight,
        column: Column::ThreeBytes,
        ..GD5F_128
    },
    GD5F_128,
    SpiPart { name: "GD5F2GQ4UE", id: &[0xc8, 0xd2], blocks: 2048, ..GD5F_128 },
    SpiPart { name: "GD5F1GQ5UE", id: &[0xc8, 0x51], ecc: Ecc::OneToFour, ..GD5F_128 },
    SpiPart { name: "GD5F2GQ5UE", id: &[0xc8, 0x52], blocks: 2048, ecc: Ecc::OneToFour, ..GD5F_128 },
    MT29F,
    SpiPart { name: "MT29F2G01ABAGD", id: &[0x2c, 0x24], blocks: 2048, planes: 2, ..MT29F },
    SpiPart {
        name: "MT29F4G01ADAGD",
        id: &[0x2c, 0x36],
        blocks: 2048,
        planes: 2,
        dies: 2,
        die_select: DieSelect::Register,
        ..MT29F
    },
    SpiPart {
        name: "MT29F4G01ABAFD",
        id: &[0x2c, 0x34],
        page_bytes: 4096,
        raw_spare_bytes: 256,
        blocks: 2048,
        free: &[(2, 126)],
        clear: MICRON_CONTINUOUS,
        ..MT29F
    },
    SpiPart { name: "TC58CVG0S3HRAIG", id: &[0x98, 0xc2], quad: Quad::Reads, ..TC58 },
    SpiPart { name: "TC58CVG1S3HRAIG", id: &[0x98, 0xcb], blocks: 2048, quad: Quad::Reads, ..TC58 },
    TC58,
    SpiPart { name: "TC58CVG1S3HRAIJ", id: &[0x98, 0xeb], blocks: 2048, ..TC58 },
    SpiPart {
        name: "TC58CVG2S0HRAIJ",
        id: &[0x98, 0xed],
        page_bytes: 4096,
        raw_spare_bytes: 256,
        blocks: 2048,
        free: &[(2, 126)],
        ..TC58
    },
];

/// The part with this identification.
pub fn find(id: &[u8]) -> Option<&'static SpiPart> {
    PARTS.iter().find(|part| id.starts_with(part.id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_possible_and_known_by_its_identification() {
        for part in PARTS {
            part.geometry().validate().unwrap_or_else(|error| panic!("{}: {error}", part.name));
            assert_eq!(find(part.id).map(|found| found.name), Some(part.name));
            let mut end = 1;
            for &(offset, length) in part.free {
                assert!(offset >= end && length > 0, "{}: runs ascend behind the mark", part.name);
                end = offset + length;
            }
            assert!(u32::from(end) <= part.raw_spare_bytes && usize::from(end) <= SPARE_MAX, "{}", part.name);
            assert_eq!(part.dies > 1, part.die_select != DieSelect::None, "{}", part.name);
            assert!(part.blocks.is_multiple_of(u32::from(part.planes)), "{}", part.name);
        }
        assert_eq!(find(&[0xff, 0xff, 0xff]), None);
        assert_eq!(W25N01GV.spare_bytes(), 17, "16 and the place of the mark");
    }
}
