//! The ONFI parameter page: the description that a part gives of itself if the table does not have it.

use crate::ecc::Ecc;
use crate::parts::{Column, DieSelect, Quad, SpiPart, Times};

/// Bytes of a copy of the page.
pub(crate) const BYTES: usize = 256;
const CRC_AT: usize = 254;
/// Most correctable bits of any part.
const STRENGTH_MAX: u8 = 8;

/// Decodes a copy of the page. Returns `None` if the copy is damaged, or why the part cannot be used. Spare
/// bytes are not used: the page does not say which of them the ECC covers.
pub(crate) fn part(page: &[u8; BYTES]) -> Result<Option<SpiPart>, &'static str> {
    let word = |at: usize| u32::from(page[at]) | u32::from(page[at + 1]) << 8;
    let long = |at: usize| word(at) | word(at + 2) << 16;
    if &page[..4] != b"ONFI" || u32::from(crc(&page[..CRC_AT])) != word(CRC_AT) {
        return Ok(None);
    }
    let (page_bytes, spare_bytes, pages_per_block, blocks) = (long(80), word(84), long(92), long(96));
    if !(512..=16_384).contains(&page_bytes) || !page_bytes.is_power_of_two() {
        return Err("its pages");
    }
    if page[100] != 1 {
        return Err("more than one die");
    }
    if !(2..=512).contains(&pages_per_block) || !(4..=65_536).contains(&blocks) {
        return Err("its blocks");
    }
    Ok(Some(SpiPart {
        name: "ONFI",
        id: &[],
        page_bytes,
        raw_spare_bytes: spare_bytes,
        pages_per_block,
        blocks,
        planes: 1,
        dies: 1,
        die_select: DieSelect::None,
        free: &[],
        ecc: Ecc::Unknown { strength: strength(page[112]) },
        set: 0,
        clear: 0,
        times: Times::SLOW,
        column: Column::TwoBytes,
        quad: Quad::None,
    }))
}

/// Correctable bits, from the byte of the page that tells them. Parts with an ECC of their own may leave that
/// byte 0 (W25N01GV): their strength is unknown, so each correction counts as the last possible one.
fn strength(told: u8) -> u8 {
    if told == 0 { STRENGTH_MAX } else { told.min(STRENGTH_MAX) }
}

/// CRC-16 as ONFI has it: 0x8005, from 0x4F4E, most significant bit first.
pub(crate) fn crc(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0x4f4e, |crc: u16, &byte| {
        (0..8).fold(
            crc ^ u16::from(byte) << 8,
            |crc, _| {
                if crc & 0x8000 != 0 { crc << 1 ^ 0x8005 } else { crc << 1 }
            },
        )
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::ecc::Verdict;

    /// A page of a part of this shape.
    pub(crate) fn page(page_bytes: u32, spare: u16, pages: u32, blocks: u32) -> [u8; BYTES] {
        let mut page = [0; BYTES];
        page[..4].copy_from_slice(b"ONFI");
        page[80..84].copy_from_slice(&page_bytes.to_le_bytes());
        page[84..86].copy_from_slice(&spare.to_le_bytes());
        page[92..96].copy_from_slice(&pages.to_le_bytes());
        page[96..100].copy_from_slice(&blocks.to_le_bytes());
        (page[100], page[112]) = (1, 8);
        let crc = crc(&page[..CRC_AT]);
        page[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        page
    }

    #[test]
    fn a_whole_page_describes_a_part_and_a_damaged_one_none() {
        let mut page = page(4096, 256, 64, 2048);
        let found = part(&page).unwrap().unwrap();
        assert_eq!(
            (found.page_bytes, found.raw_spare_bytes, found.pages_per_block, found.blocks),
            (4096, 256, 64, 2048)
        );
        assert_eq!((found.spare_bytes(), found.ecc.strength()), (1, 8), "no spare byte but the mark's place");
        page[81] ^= 1;
        assert_eq!(part(&page), Ok(None));
    }

    #[test]
    fn an_ecc_that_does_not_tell_its_strength_warns_at_every_correction() {
        for (told, warns) in [(0, true), (1, false), (2, true), (4, true), (8, true), (60, true)] {
            let mut page = page(2048, 64, 64, 1024);
            page[112] = told;
            let crc = crc(&page[..CRC_AT]);
            page[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
            let ecc = part(&page).unwrap().unwrap().ecc;
            let Verdict::Corrected(bits) = ecc.verdict(0x10, 0) else { panic!("{told}: a lost page") };
            assert_eq!(bits >= ecc.weak_from(), warns, "strength {told}");
        }
    }

    #[test]
    fn a_part_that_cannot_be_used_is_refused() {
        assert!(part(&page(3000, 64, 64, 1024)).is_err());
        assert!(part(&page(2048, 64, 64, 2)).is_err());
    }
}
