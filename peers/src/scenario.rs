//! Who runs on which chip with which records.

use crate::nor::Nor;
use crate::store::{Load, Medium, Opened, Trouble};
use crate::stores::nandex::Way;
use crate::stores::sequential::Caches;
use crate::stores::{ekv, littlefs, redb, sequential, sqlite};
use nandex::Shared;
use nandex::nand::catalogue;
use nandex::nand::sim::SimChip;

/// A chip, records and a number of updates.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// Name in the results.
    pub name: &'static str,
    /// What it is in words.
    pub words: &'static str,
    /// The chip.
    pub chip: Chip,
    /// The records.
    pub load: Load,
    /// Durable updates measured.
    pub updates: u32,
    /// Whether a quick run has it.
    pub is_quick: bool,
}

/// A chip of a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chip {
    /// NOR of so many KiB.
    Nor(usize),
    /// A part of the catalogue.
    Nand(&'static str),
}

impl Chip {
    /// A new chip.
    pub fn make(self) -> Result<Medium, Trouble> {
        Ok(match self {
            Chip::Nor(kib) => Medium::Nor(Nor::new(kib << 10)),
            Chip::Nand(name) => {
                let part = catalogue::find(name).ok_or_else(|| Trouble::Failed(format!("no part {name}")))?;
                Medium::Nand(Shared::new(SimChip::new(part).map_err(Trouble::of)?))
            }
        })
    }
}

const fn load(keys: u32, key_bytes: u8, value_bytes: u8) -> Load {
    Load { keys, key_bytes, value_bytes }
}

/// All scenarios, in the order of the tables.
pub const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "nor-200",
        words: "NOR: 200 keys of 8 + 8 bytes in 64 KiB",
        chip: Chip::Nor(64),
        load: load(200, 8, 8),
        updates: 6000,
        is_quick: true,
    },
    Scenario {
        name: "nor-2000",
        words: "NOR: 2000 keys of 8 + 8 bytes in 1 MiB",
        chip: Chip::Nor(1024),
        load: load(2000, 8, 8),
        updates: 150_000,
        is_quick: false,
    },
    Scenario {
        name: "nor-10000",
        words: "NOR: 10000 keys of 8 + 8 bytes in 2 MiB",
        chip: Chip::Nor(2048),
        load: load(10_000, 8, 8),
        updates: 200_000,
        is_quick: false,
    },
    Scenario {
        name: "nor-long",
        words: "NOR: 1000 keys of 16 + 100 bytes in 1 MiB",
        chip: Chip::Nor(1024),
        load: load(1000, 16, 100),
        updates: 20_000,
        is_quick: false,
    },
    Scenario {
        name: "slc-10000",
        words: "NAND `slc-64m`: 10000 records of 8 + 8 bytes",
        chip: Chip::Nand("slc-64m"),
        load: load(10_000, 8, 8),
        updates: 60_000,
        is_quick: true,
    },
    Scenario {
        name: "slc-100000",
        words: "NAND `slc-64m`: 100000 records of 8 + 8 bytes",
        chip: Chip::Nand("slc-64m"),
        load: load(100_000, 8, 8),
        updates: 60_000,
        is_quick: false,
    },
    Scenario {
        name: "slc-long",
        words: "NAND `slc-64m`: 10000 records of 16 + 100 bytes",
        chip: Chip::Nand("slc-64m"),
        load: load(10_000, 16, 100),
        updates: 60_000,
        is_quick: false,
    },
    Scenario {
        name: "w25n-10000",
        words: "NAND `w25n01gv`: 10000 records of 8 + 8 bytes",
        chip: Chip::Nand("w25n01gv"),
        load: load(10_000, 8, 8),
        updates: 100_000,
        is_quick: false,
    },
    Scenario {
        name: "w25n-100000",
        words: "NAND `w25n01gv`: 100000 records of 8 + 8 bytes",
        chip: Chip::Nand("w25n01gv"),
        load: load(100_000, 8, 8),
        updates: 100_000,
        is_quick: false,
    },
];

/// A store with its settings.
#[derive(Clone, Copy)]
pub struct Contestant {
    /// Name in the results.
    pub name: &'static str,
    /// The settings in words.
    pub settings: &'static str,
    /// Most updates that are run, where a store takes too long for more.
    pub most_updates: u32,
    /// How it is made.
    pub maker: Maker,
}

/// How a store is made.
#[derive(Clone, Copy)]
pub enum Maker {
    /// Nandex.
    Ours(Way),
    /// A peer.
    Theirs(fn(&Medium, &Load) -> Opened),
}

impl Contestant {
    /// Makes the store on a new chip.
    pub fn open(&self, medium: &Medium, load: &Load) -> Opened {
        match self.maker {
            Maker::Ours(way) => way.open(medium, load),
            Maker::Theirs(open) => open(medium, load),
        }
    }

    /// Whether it is Nandex.
    pub fn is_ours(&self) -> bool {
        matches!(self.maker, Maker::Ours(_))
    }
}

const fn ours(name: &'static str, settings: &'static str, way: Way) -> Contestant {
    Contestant { name, settings, most_updates: u32::MAX, maker: Maker::Ours(way) }
}

const ON_NOR: &[Contestant] = &[
    ours(
        "furrow",
        "RAM as the records need; pages of 496 + 16 (long records: 1008 + 16); blocks of a sector",
        Way::new("furrow", 0).in_large_pages(),
    ),
    ours(
        "plow",
        "64 KiB of RAM; pages of 496 + 16 (long records: 1008 + 16); blocks of a sector",
        Way::new("plow", 64).in_large_pages(),
    ),
    ours(
        "plow in blocks of 64 KiB",
        "64 KiB of RAM; the same pages; blocks of 64 KiB",
        Way::new("plow", 64).in_large_pages().in_blocks(),
    ),
    ours(
        "plow with 8 KiB",
        "8 KiB of RAM; the same pages; blocks of a sector",
        Way::new("plow", 8).in_large_pages(),
    ),
    ours(
        "vmtree-ow",
        "64 KiB of RAM; pages of 240 + 16 (long records: 496 + 16); blocks of a sector",
        Way::new("vmtree-ow", 64),
    ),
    ours(
        "vmtree",
        "64 KiB of RAM; pages of 240 + 16 (long records: 496 + 16); blocks of a sector",
        Way::new("vmtree", 64),
    ),
    ours(
        "vmtree in blocks of 64 KiB",
        "64 KiB of RAM; the same pages; blocks of 64 KiB",
        Way::new("vmtree", 64).in_blocks(),
    ),
    ours(
        "bplus",
        "64 KiB of RAM; pages of 240 + 16 (long records: 496 + 16); blocks of a sector; FTL by page mapping",
        Way::new("bplus", 64),
    ),
    Contestant {
        name: "sequential-storage with key cache",
        settings: "pages of a sector; caches of page states; page pointers and all keys",
        most_updates: u32::MAX,
        maker: Maker::Theirs(|medium, load| sequential::open(Caches::Keys, medium, load)),
    },
    Contestant {
        name: "sequential-storage with page caches",
        settings: "pages of a sector; caches of page states and page pointers",
        most_updates: 6000,
        maker: Maker::Theirs(|medium, load| sequential::open(Caches::Pages, medium, load)),
    },
    Contestant {
        name: "sequential-storage",
        settings: "pages of a sector; no cache",
        most_updates: 6000,
        maker: Maker::Theirs(|medium, load| sequential::open(Caches::None, medium, load)),
    },
    Contestant {
        name: "littlefs",
        settings: "a file a key; 25 files a directory where there is room; prog and read size 1; caches 256; lookahead 64; block_cycles 500",
        most_updates: u32::MAX,
        maker: Maker::Theirs(littlefs::open),
    },
    Contestant {
        name: "ekv",
        settings: "align 1; crc; chunks and pages of 4096; 512 pages at most; an update a transaction",
        most_updates: 6000,
        maker: Maker::Theirs(ekv::open),
    },
];

const ON_NAND: &[Contestant] = &[
    ours("plow", "64 KiB of RAM", Way::new("plow", 64)),
    ours("plow with 512 KiB", "512 KiB of RAM", Way::new("plow", 512)),
    ours("vmtree", "64 KiB of RAM", Way::new("vmtree", 64)),
    ours("mu", "64 KiB of RAM", Way::new("mu", 64)),
    ours(
        "bplus with 512 KiB",
        "512 KiB of RAM; FTL by page mapping; DFTL where its table is too large",
        Way::new("bplus", 512),
    ),
    Contestant {
        name: "SQLite",
        settings: "nandex-sqlite on page mapping; INTEGER PRIMARY KEY; synchronous=FULL; locking_mode=EXCLUSIVE; cache 256 KiB",
        most_updates: u32::MAX,
        maker: Maker::Theirs(sqlite::open),
    },
    Contestant {
        name: "littlefs",
        settings: "a file a key; 25 files a directory where there is room; prog and read size and caches a page; lookahead 64; block_cycles 500; no bad blocks or ECC",
        most_updates: u32::MAX,
        maker: Maker::Theirs(littlefs::open),
    },
    Contestant {
        name: "redb",
        settings: "StorageBackend on StoreBytes on page mapping; cache 256 KiB; immediate durability",
        most_updates: u32::MAX,
        maker: Maker::Theirs(redb::open),
    },
];

/// Who runs in a scenario. Nobody asks for erase blocks of which the chip has hardly any.
pub fn contestants(chip: Chip) -> impl Iterator<Item = &'static Contestant> {
    let (all, is_small) = match chip {
        Chip::Nor(kib) => (ON_NOR, kib < 1024),
        Chip::Nand(_) => (ON_NAND, false),
    };
    all.iter().filter(move |one| !(is_small && matches!(one.maker, Maker::Ours(way) if way.in_blocks)))
}
