//! An MTD device in RAM for tests. It answers like nandsim and ages on demand.

#![allow(clippy::unwrap_used)]

use crate::geometry::RawGeometry;
use crate::io::{Facts, MtdIo, OobMode, ReadStats};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};

/// A device whose cells are ANDed by a program, and which refuses nothing that a real one does not refuse.
pub(crate) struct Model {
    facts: Facts,
    /// Data and out-of-band bytes of each page, in the order of the chip.
    pub(crate) pages: Vec<Vec<u8>>,
    pub(crate) bad: BTreeSet<u32>,
    /// Wrong bits in one ECC step, by page.
    pub(crate) flips: BTreeMap<u32, u32>,
    /// Pages whose programs fail.
    pub(crate) weak_pages: BTreeSet<u32>,
    /// Blocks whose erases fail.
    pub(crate) weak_blocks: BTreeSet<u32>,
    /// Requests that are still answered before the device is gone.
    pub(crate) left: Option<u32>,
    /// Requests of each kind: reads, programs, erases.
    pub(crate) asked: [u64; 3],
}

impl Model {
    /// A device with an ECC of four bits a step.
    pub(crate) fn new(raw: &str, free: &str, blocks: u32) -> Model {
        let raw: RawGeometry = raw.parse().unwrap();
        let layout = free.parse().unwrap();
        let pages = vec![vec![0xff; raw.raw_page_bytes() as usize]; (blocks * raw.pages_per_block) as usize];
        Model {
            facts: Facts { raw, blocks, layout, ecc_strength: 4, name: "model".to_string() },
            pages,
            bad: BTreeSet::new(),
            flips: BTreeMap::new(),
            weak_pages: BTreeSet::new(),
            weak_blocks: BTreeSet::new(),
            left: None,
            asked: [0; 3],
        }
    }

    fn alive(&mut self) -> Result<(), Errno> {
        match &mut self.left {
            Some(0) => Err(Errno::NODEV),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// The page of a place.
    fn page(&self, at: u64) -> u32 {
        assert!(at.is_multiple_of(u64::from(self.facts.raw.page_bytes)), "{at} is no page");
        (at / u64::from(self.facts.raw.page_bytes)) as u32
    }

    /// The block of a place.
    fn block(&self, at: u64) -> u32 {
        assert!(at.is_multiple_of(self.facts.raw.block_bytes()), "{at} is no block");
        (at / self.facts.raw.block_bytes()) as u32
    }
}

impl MtdIo for Model {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn read(
        &mut self,
        at: u64,
        mode: OobMode,
        (data, oob): (&mut [u8], &mut [u8]),
    ) -> (ReadStats, Result<(), Errno>) {
        self.asked[0] += 1;
        if let Err(errno) = self.alive() {
            return (ReadStats::default(), Err(errno));
        }
        let page = self.page(at);
        let (stored, area) = self.pages[page as usize].split_at(self.facts.raw.page_bytes as usize);
        data.copy_from_slice(&stored[..data.len()]);
        match mode {
            OobMode::Auto => self.facts.layout.gather(area, oob),
            OobMode::Place | OobMode::Raw => oob.copy_from_slice(&area[..oob.len()]),
        }
        let wrong = self.flips.get(&page).copied().unwrap_or(0);
        if mode == OobMode::Raw || wrong > self.facts.ecc_strength {
            (0..wrong as usize).for_each(|bit| data[bit] ^= 1);
        }
        match wrong {
            0 => (ReadStats::default(), Ok(())),
            _ if mode == OobMode::Raw => (ReadStats::default(), Ok(())),
            n if n <= self.facts.ecc_strength => {
                (ReadStats { corrected: n, uncorrectable: 0 }, Err(Errno::UCLEAN))
            }
            _ => (ReadStats { corrected: 0, uncorrectable: 1 }, Err(Errno::BADMSG)),
        }
    }

    fn write(&mut self, at: u64, mode: OobMode, (data, oob): (&[u8], &[u8])) -> Result<(), Errno> {
        self.asked[1] += 1;
        self.alive()?;
        let page = self.page(at);
        if self.weak_pages.contains(&page) {
            return Err(Errno::IO);
        }
        let mut area = vec![0xff; self.facts.raw.oob_bytes as usize];
        match mode {
            OobMode::Auto => self.facts.layout.scatter(oob, &mut area),
            OobMode::Place | OobMode::Raw => area[..oob.len()].copy_from_slice(oob),
        }
        for (cell, byte) in self.pages[page as usize].iter_mut().zip(data.iter().chain(&area)) {
            *cell &= byte;
        }
        Ok(())
    }

    fn erase(&mut self, at: u64) -> Result<(), Errno> {
        self.asked[2] += 1;
        self.alive()?;
        let block = self.block(at);
        if self.bad.contains(&block) || self.weak_blocks.contains(&block) {
            return Err(Errno::IO);
        }
        let pages = self.facts.raw.pages_per_block;
        for page in block * pages..(block + 1) * pages {
            self.pages[page as usize].fill(0xff);
        }
        Ok(())
    }

    fn is_bad(&mut self, at: u64) -> Result<bool, Errno> {
        self.alive()?;
        let block = self.block(at);
        Ok(self.bad.contains(&block))
    }

    fn mark_bad(&mut self, at: u64) -> Result<(), Errno> {
        self.alive()?;
        let block = self.block(at);
        self.bad.insert(block);
        let (first, mark) = (block * self.facts.raw.pages_per_block, self.facts.raw.mark_at());
        self.pages[first as usize][self.facts.raw.page_bytes as usize + mark] = 0;
        Ok(())
    }

    fn ecc_totals(&mut self) -> Result<ReadStats, Errno> {
        Ok(ReadStats::default())
    }
}
