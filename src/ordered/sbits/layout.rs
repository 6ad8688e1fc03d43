//! Programming, reading and checking pages.

use super::page::{Header, SINCE_MAX, entry};
use super::{NO_PAGE, Sbits, project};
use crate::check::{CheckReport, Invariant, message};
use crate::fault::IndexFault;
use crate::nand::{Cause, Nand, Reading, read_again};
use crate::sort;
use crate::units::Pbn;
use alloc::vec::Vec;

impl<N: Nand> Sbits<N> {
    /// Programs the page being filled, which must be full.
    pub(super) fn write_full(&mut self) -> Result<(), IndexFault> {
        debug_assert_eq!(self.filling.count, self.capacity, "S2: a page is full that is not");
        let number = self.blocks.full_pages;
        let since = (self.sequence + 1).saturating_sub(self.partial_sequence).min(u64::from(SINCE_MAX));
        self.stamp(Header { partial: false, count: since as u16, ..self.header() });
        let key = project(entry(&self.filling.page, self.record, 0).0);
        self.blocks.program_next(&mut self.nand, &self.filling.page, &mut self.read)?;
        self.spline.push(key, number);
        self.filling.clear();
        self.blocks.count_page(&mut self.nand)
    }

    fn header(&self) -> Header {
        Header {
            partial: true,
            closed: false,
            record: self.record,
            count: self.filling.count as u16,
            number: self.blocks.full_pages,
            oldest_block: self.blocks.oldest,
            sequence: self.sequence,
        }
    }

    fn stamp(&mut self, header: Header) {
        self.sequence += 1;
        Header { sequence: self.sequence, ..header }
            .encode(&mut self.filling.page, self.blocks.geometry.blocks);
    }

    /// Programs the page being filled as it is, at the side; if `elsewhere`, to another block than the one
    /// before.
    pub(super) fn write_partial(&mut self, closed: bool, elsewhere: bool) -> Result<(), IndexFault> {
        self.stamp(Header { closed, ..self.header() });
        self.blocks.program_aside(&mut self.nand, &self.filling.page, elsewhere)?;
        self.partial_sequence = self.sequence;
        self.counters.partial_programs += 1;
        self.filling.unsynced = 0;
        Ok(())
    }

    /// Reads full page `number` into the read buffer.
    pub(super) fn read_page(&mut self, number: u64, cause: Cause) -> Result<(), IndexFault> {
        if self.read.number == number {
            return Ok(());
        }
        self.read.number = NO_PAGE;
        let ppn = self.blocks.place_of(number)?;
        let (record, blocks) = (self.record, self.blocks.geometry.blocks);
        let is_sound = |page: &[u8], _: &[u8]| {
            Header::decode(page, blocks)
                .is_some_and(|header| !header.partial && header.number == number && header.record == record)
        };
        let reading = read_again(&mut self.nand, (ppn, cause), &mut self.read.page, &mut [], is_sound)?;
        if reading == Reading::Broken {
            return Err(IndexFault::broken_at(Invariant::S2, "this is not the page it should be", number));
        }
        if !matches!(cause, Cause::Check | Cause::Recovery) {
            self.blocks.weak.note(ppn, reading, ppn.0..ppn.0 + 1);
        }
        self.read.number = number;
        Ok(())
    }

    pub(super) fn check_all(&mut self) -> Result<CheckReport, IndexFault> {
        let mut report = CheckReport::default();
        let mut before: Option<Vec<u8>> = None;
        let keep = (core::mem::replace(&mut self.read.number, NO_PAGE), self.read.page.clone());
        for number in self.blocks.first_page()..=self.blocks.full_pages {
            let is_full = number < self.blocks.full_pages;
            if is_full {
                self.read_page(number, Cause::Check)?;
            }
            let (page, count) = if is_full {
                (&self.read.page, self.capacity)
            } else {
                (&self.filling.page, self.filling.count)
            };
            for i in 0..count {
                let key = entry(page, self.record, i).0;
                if before.as_deref().is_some_and(|before| key <= before) {
                    report.violation(Invariant::S1, number, message!("key {i} does not rise"));
                }
                before = Some(key.to_vec());
            }
            report.nodes += 1;
            report.records += count as u64;
        }
        if before.is_some() && before != self.filling.largest {
            let found = message!("the largest key is not {:?}", self.filling.largest);
            report.violation(Invariant::S1, self.blocks.full_pages, found);
        }
        let mut blocks: Vec<Pbn> = self.blocks.all().collect();
        sort::total(&mut blocks);
        if let Some(twice) = blocks.windows(2).find(|pair| pair[0] == pair[1]) {
            report.violation(Invariant::S3, u64::from(twice[0].0), message!("{} serves twice", twice[0]));
        }
        (self.read.number, self.read.page) = keep;
        Ok(report)
    }
}
