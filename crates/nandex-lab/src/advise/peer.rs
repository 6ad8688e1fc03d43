//! Where a store of others may fit better: measured by `make peers`, told in `docs/peers.md`.

use nandex::nand::Part;

const NOTE: &str = "For some settings on NOR, for files, or in less than 8 KiB of RAM, sequential-storage or littlefs may fit \
     better: docs/peers.md has the figures.";

/// Bytes of RAM below which hardly any index runs.
const LITTLE_RAM: u64 = 8 << 10;

/// Bytes of data of a small store, such as the flash inside of a microcontroller has.
const SMALL_STORE: u64 = 128 << 10;

/// The note for a chip and an amount of RAM.
pub(super) fn peer(part: &Part, ram_bytes: u64) -> Option<&'static str> {
    let geometry = part.geometry;
    let is_theirs = geometry.overwrites() || geometry.data_bytes() <= SMALL_STORE || ram_bytes < LITTLE_RAM;
    is_theirs.then_some(NOTE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandex::nand::catalogue;

    #[test]
    fn nor_small_stores_and_little_ram_are_told() {
        assert!(peer(&catalogue::nor_2m(), 64 << 10).is_some());
        assert_eq!(peer(&catalogue::mlc_64m(), 8 << 10), None);
        assert!(peer(&catalogue::mlc_64m(), (8 << 10) - 1).is_some());
        let blocks = |blocks| catalogue::mlc_with(2048, 32, blocks);
        assert!(peer(&blocks(2), 64 << 10).is_some() && peer(&blocks(3), 64 << 10).is_none());
    }
}
