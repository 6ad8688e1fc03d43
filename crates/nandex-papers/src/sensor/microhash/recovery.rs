//! Formatting and mounting.

use super::directory::Directory;
use super::layout::Ring;
use super::page::{self, Header, Kind, NONE, bounds, entry};
use super::{Free, MicroHash, MicroHashConfig, Pending, Segment};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec;
use alloc::vec::Vec;
use nandex::blocks::behind::Behind;
use nandex::blocks::erase_all;
use nandex::check::{IndexError, Invariant};
use nandex::codec::is_blank;
use nandex::nand::{Cause, Differs, Nand, NandError, Unfit};
use nandex::sort;
use nandex::store::StoreError;
use nandex::units::{Pbn, Ppn};

/// The contents of a block, by its first sound page.
enum Holds {
    Log(Header),
    Aside(Header),
    Nothing,
    /// No page of this chip, but a page that may belong to a chip with another number of blocks.
    OtherChip,
}

/// The knowledge that a mount has of the chip so far.
#[derive(Default)]
struct Seen {
    /// Blocks of the log by their number, each with its first sound page.
    log: BTreeMap<u64, (Pbn, Header)>,
    /// Blocks of partly filled pages, each with its first page.
    aside: Vec<(Header, Pbn)>,
    free: VecDeque<Free>,
    /// Number of the oldest block that is kept.
    oldest: u32,
    /// Whether a page may belong to a chip with another number of blocks.
    is_of_other_chip: bool,
}

/// The newest directory, and the first page that may hold readings without an entry on flash.
type Base = (Directory, u64);

/// Number of the newest block with readings, by the first pages of the blocks.
fn newest_with_readings(seen: &Seen, newest: &Pages) -> Option<u32> {
    let mut after = newest.last?.readings_up_to();
    for (&number, (_, first)) in seen.log.range(u64::from(seen.oldest)..).rev() {
        if after > first.readings {
            return u32::try_from(number).ok();
        }
        after = first.readings;
    }
    None
}

/// The result of reading a block of the log page by page.
struct Pages {
    /// Pages up to the last sound one.
    count: u32,
    last: Option<Header>,
    /// True if an unsound page precedes the newest page without a directory between them.
    gap: bool,
}

impl<N: Nand> MicroHash<N> {
    /// Erases the chip and makes an empty log on it.
    pub fn format(nand: N, settings: &MicroHashConfig) -> Result<MicroHash<N>, IndexError> {
        let mut log = MicroHash::assemble(nand, settings)?;
        let free = &mut log.ring.free;
        erase_all(&mut log.ring.nand, |block| free.push_back(Free { block, failed: false }))?;
        log.index.write_directory(&mut log.ring)?;
        crate::sensor::SensorLog::close(&mut log)?;
        Ok(log)
    }

    /// Opens the log on a chip. `values` and `buckets` of the settings are ignored: the chip has them.
    pub fn mount(nand: N, settings: &MicroHashConfig) -> Result<MicroHash<N>, IndexError> {
        let mut log = MicroHash::assemble(nand, settings)?;
        let mut seen = log.ring.look_around()?;
        let Some((&newest, &(block, _))) = seen.log.last_key_value() else {
            if seen.is_of_other_chip {
                let what = "the pages on the chip are of another number of blocks";
                return Err(IndexError::other(Differs::Geometry, what));
            }
            let found = nandex::nand::unfit(&mut log.ring.nand, "the chip holds no page of MicroHash")?;
            return Err(IndexError::NotFormatted(found));
        };
        let (pages, base) = log.ring.read_newest(newest, block, &mut seen)?;
        let Some(last) = pages.last else {
            return Err(IndexError::broken(Invariant::M2, "the newest block cannot be read now", newest));
        };
        let aside = log.ring.newest_aside(&mut seen)?;
        log.ring.adopt(seen, newest, &pages)?;
        log.ring.last = last.number;
        log.index.repartition_at = log.ring.last + log.ring.pages_per_block();
        log.ring.stored = last.readings_up_to();
        log.ring.stored_time = last.time;
        log.take_aside(aside)?;
        log.take_index(base, pages.gap)?;
        log.filling.newest = log.filling.count.checked_sub(1).map(|last| log.filling.reading(last));
        Ok(log)
    }

    /// Continues the newest partly filled page, unless a data page has followed it.
    fn take_aside(&mut self, aside: Option<(Header, Ppn)>) -> Result<(), IndexError> {
        let Some((header, ppn)) = aside else { return Ok(()) };
        // Its block stays out of use until another such page is programmed: the next one is torn, for all we
        // know.
        let block = self.ring.geometry.block_of(ppn);
        self.ring.free.retain(|free| free.block != block);
        self.ring.aside = Some((block, self.ring.geometry.pages_per_block));
        if header.number > self.ring.last || header.readings > self.ring.stored {
            return Err(IndexError::broken(
                Invariant::M2,
                "the newest pages of the log are missing",
                header.number,
            ));
        }
        if header.readings < self.ring.stored {
            return Ok(());
        }
        let is_read = self.ring.look(ppn, &mut self.filling.page)?;
        if !is_read || Header::decode(&self.filling.page, self.ring.spot(ppn)) != Some(header) {
            return Err(IndexError::broken(Invariant::M2, "a page reads otherwise now", ppn.0.into()));
        }
        self.filling.count = header.count.into();
        Ok(())
    }

    /// Takes over the directory and lists the readings without an entry on flash. Without a directory a new
    /// index begins.
    fn take_index(&mut self, base: Option<Base>, gap: bool) -> Result<(), IndexError> {
        let found = base.filter(|_| !gap);
        if let Some((directory, floor)) = found {
            self.index.directory = directory;
            let is_listed = self.list_from(floor.max(self.index.directory.indexed_from))?;
            if is_listed {
                return Ok(());
            }
        }
        self.index.pending.clear();
        let settings = self.index.settings;
        self.index.directory = Directory::equal_width(settings.buckets, settings.values, self.ring.last + 1);
        Ok(())
    }

    /// Lists the readings from page `floor` on that have no entry on flash. Returns false if a page cannot
    /// be read or the readings are too many for the list.
    fn list_from(&mut self, floor: u64) -> Result<bool, IndexError> {
        let mut next = self.ring.data_from(floor.max(self.ring.first_page()));
        while next <= self.ring.last {
            let header = match self.ring.read_page(next, Cause::Recovery) {
                Ok(header) => header,
                Err(
                    error @ IndexError::Store(StoreError::Nand(NandError::PowerLost | NandError::Device(_))),
                ) => return Err(error),
                Err(_) => return Ok(false),
            };
            for place in (0..header.count).filter(|_| header.kind == Kind::Data) {
                let value = page::reading(&self.ring.read, place.into()).value;
                let bucket = &self.index.directory.buckets[self.index.directory.bucket_of(value)];
                if (next, place) > bucket.cover {
                    if self.index.pending.len() == self.index.settings.entries {
                        return Ok(false);
                    }
                    self.index.pending.push(Pending { page: next, value, place });
                }
            }
            next = self.ring.at_or_after(next + 1);
        }
        Ok(true)
    }
}

impl<N: Nand> Ring<N> {
    fn look_around(&mut self) -> Result<Seen, IndexError> {
        let mut seen = Seen::default();
        for block in (0..self.geometry.blocks).map(Pbn) {
            if self.nand.is_bad(block)? {
                continue;
            }
            match self.look_at(block)? {
                Holds::Log(header) => {
                    let number = header.number / self.pages_per_block();
                    let twice = seen.log.insert(number, (block, header));
                    if twice.is_some() {
                        let what = "two blocks say they are this block of the log";
                        return Err(IndexError::broken(Invariant::M2, what, number));
                    }
                    seen.oldest = seen.oldest.max(header.oldest);
                }
                Holds::Aside(header) => {
                    seen.aside.push((header, block));
                    seen.free.push_back(Free { block, failed: false });
                }
                other => {
                    seen.is_of_other_chip |= matches!(other, Holds::OtherChip);
                    seen.free.push_back(Free { block, failed: false });
                }
            }
        }
        Ok(seen)
    }

    fn look_at(&mut self, block: Pbn) -> Result<Holds, IndexError> {
        let mut page = vec![0; self.geometry.page_bytes as usize];
        let (mut is_erased, mut stray, mut is_of_other_chip) = (true, None, false);
        for at in 0..self.geometry.pages_per_block {
            if at == 2 && is_erased {
                break;
            }
            let ppn = self.geometry.page_at(block, at);
            if !self.look(ppn, &mut page)? {
                is_erased = false;
                continue;
            }
            is_erased &= is_blank(&page);
            if let Some(version) = page::newer_version(&page, self.spot(ppn)) {
                return Err(IndexError::NotFormatted(Unfit::Newer { version }));
            }
            is_of_other_chip |= page::is_of_other_chip(&page, self.spot(ppn));
            stray = stray.or(self.is_stray(ppn, &page).then_some(ppn));
            match Header::decode(&page, self.spot(ppn)) {
                Some(header) if header.kind == Kind::Partial => return Ok(Holds::Aside(header)),
                Some(header) if header.number % self.pages_per_block() == u64::from(at) => {
                    return Ok(Holds::Log(header));
                }
                _ => {}
            }
        }
        match stray {
            Some(ppn) => Err(unsound(ppn)),
            None if is_of_other_chip => Ok(Holds::OtherChip),
            None => Ok(Holds::Nothing),
        }
    }

    /// Whether the page at `ppn` was programmed for another place of this chip.
    fn is_stray(&self, ppn: Ppn, page: &[u8]) -> bool {
        page::is_of_elsewhere(page, self.spot(ppn), self.geometry.pages())
    }

    /// Reads the pages of a block, and shows the sound ones that `fits` takes with their places. Ends at a
    /// blank page if `ends_at_blank`.
    fn each_sound(
        &mut self,
        block: Pbn,
        ends_at_blank: bool,
        fits: &dyn Fn(u32, &Header) -> bool,
        show: &mut dyn FnMut(u32, Header, &[u8]),
    ) -> Result<(), IndexError> {
        let mut page = vec![0; self.geometry.page_bytes as usize];
        let mut behind = Behind::default();
        for at in 0..self.geometry.pages_per_block {
            let ppn = self.geometry.page_at(block, at);
            let is_read = self.look(ppn, &mut page)?;
            let header = Header::decode(&page, self.spot(ppn)).filter(|header| is_read && fits(at, header));
            if let Some(header) = header {
                behind.sound();
                show(at, header, &page);
            } else if !is_read || !is_blank(&page) {
                behind.unsound(ppn, is_read && self.is_stray(ppn, &page));
            } else if ends_at_blank {
                break;
            }
        }
        behind.damage(self.nand.tears()).map_or(Ok(()), |ppn| Err(unsound(ppn)))
    }

    /// Reads every page of a block of the log, and shows the sound ones.
    fn look_through(
        &mut self,
        block: Pbn,
        number: u64,
        show: &mut dyn FnMut(Header, &[u8]),
    ) -> Result<Pages, IndexError> {
        let mut pages = Pages { count: 0, last: None, gap: false };
        let first = number * self.pages_per_block();
        let fits =
            |at: u32, header: &Header| header.kind != Kind::Partial && header.number == first + u64::from(at);
        self.each_sound(block, false, &fits, &mut |at, header, page| {
            // A directory says all that the pages before it did.
            pages.gap = (pages.gap || at > pages.count) && header.kind != Kind::Directory;
            pages.count = at + 1;
            pages.last = Some(header);
            show(header, page);
        })?;
        Ok(pages)
    }

    /// Reads the newest block of the log. Returns its pages, and the newest directory with the index pages
    /// written after it.
    fn read_newest(
        &mut self,
        newest: u64,
        block: Pbn,
        seen: &mut Seen,
    ) -> Result<(Pages, Option<Base>), IndexError> {
        let mut base: Option<Base> = None;
        let (mut oldest, mut is_lost) = (seen.oldest, false);
        let pages = self.look_through(block, newest, &mut |header, page| {
            oldest = oldest.max(header.oldest);
            match header.kind {
                Kind::Directory => {
                    let directory = Directory::decode(page, header.count.into(), header.links[1]);
                    base = directory.map(|directory| (directory, header.links[0]));
                    is_lost = false;
                }
                Kind::Index => {
                    is_lost |= !base.as_mut().is_some_and(|base| replay(&mut base.0, header, page));
                }
                Kind::Data | Kind::Partial => {}
            }
        })?;
        seen.oldest = oldest;
        Ok((pages, base.filter(|_| !is_lost)))
    }

    /// Finds the newest partly filled page. It lies in one of the two blocks for such pages begun last. If
    /// closes without readings between them began several blocks, their order is unknown, and all of these
    /// are searched.
    fn newest_aside(&mut self, seen: &mut Seen) -> Result<Option<(Header, Ppn)>, IndexError> {
        let age = |header: &Header| (header.readings + u64::from(header.count), header.number);
        sort::unstable_by_key(&mut seen.aside, |(header, _)| core::cmp::Reverse(age(header)));
        let (mut newest, mut said): (Option<(Header, Ppn)>, u32) = (None, 0);
        let begun_last = seen.aside.get(1).or(seen.aside.first()).map(|(header, _)| age(header));
        let blocks = seen.aside.iter().take_while(|(header, _)| Some(age(header)) >= begun_last);
        for (number, &(_, block)) in blocks.enumerate() {
            let (mut of_block, mut said_here): (Option<(Header, Ppn)>, u32) = (None, 0);
            let geometry = self.geometry;
            let fits = |_, header: &Header| header.kind == Kind::Partial;
            self.each_sound(block, number > 1, &fits, &mut |at, header, _| {
                said_here = said_here.max(header.oldest);
                if of_block.is_none_or(|(other, _)| age(&header) > age(&other)) {
                    of_block = Some((header, geometry.page_at(block, at)));
                }
            })?;
            let rank = |page: Option<(Header, Ppn)>, said| page.map(|(header, _)| (age(&header), said));
            if rank(of_block, said_here) > rank(newest, said) {
                (newest, said) = (of_block, said_here);
            }
        }
        // What other blocks say of given up ones may be gone with the next erase: it is of no account.
        seen.oldest = seen.oldest.max(said);
        Ok(newest)
    }

    /// Takes over the blocks of the log that are kept and the number of their pages. The others are free.
    fn adopt(&mut self, seen: Seen, newest: u64, pages: &Pages) -> Result<(), IndexError> {
        let oldest = u64::from(seen.oldest);
        if oldest > newest || newest - oldest >= u64::from(self.geometry.blocks) {
            return Err(IndexError::broken(Invariant::M2, "more blocks than the chip has", newest));
        }
        self.oldest = seen.oldest;
        self.newest_data = newest_with_readings(&seen, pages).unwrap_or(seen.oldest);
        self.free = seen.free;
        self.free.extend(seen.log.range(..oldest).map(|(_, block)| Free { block: block.0, failed: false }));
        let blocks = self.geometry.blocks as usize;
        self.free.reserve_exact(blocks - self.free.len());
        for number in oldest..=newest {
            let Some(&(block, _)) = seen.log.get(&number) else {
                self.kept.push_back(Segment {
                    block: None,
                    pages: self.geometry.pages_per_block as u16,
                    failed: false,
                });
                continue;
            };
            let (count, failed) = match seen.log.get(&(number + 1)).map(|next| next.1) {
                // The directory that a block begins with.
                Some(next) if next.number % self.pages_per_block() == 0 => {
                    (u32::from(next.previous).min(self.geometry.pages_per_block), next.previous_failed)
                }
                None if number == newest => (pages.count, false),
                next => (self.pages_before(block, number, next)?, false),
            };
            self.kept.push_back(Segment { block: Some(block), pages: count as u16, failed });
        }
        Ok(())
    }

    /// Pages of a block of the log, if the directory that would say it is missing. They are counted up to
    /// the last sound page, or as a full block if the readings of the next block do not continue from that
    /// page.
    fn pages_before(&mut self, block: Pbn, number: u64, next: Option<Header>) -> Result<u32, IndexError> {
        let pages = self.look_through(block, number, &mut |_, _| {})?;
        let readings = pages.last.map_or(0, |last| last.readings_up_to());
        let is_followed = next.is_none_or(|next| next.readings == readings);
        Ok(if is_followed { pages.count } else { self.geometry.pages_per_block })
    }
}

fn unsound(ppn: Ppn) -> IndexError {
    IndexError::broken(Invariant::M2, "a page is not sound", ppn.0.into())
}

/// Repeats on the directory the effect of writing an index page. Returns false if the page fits no bucket.
fn replay(directory: &mut Directory, header: Header, page: &[u8]) -> bool {
    let bucket = directory.bucket_of(bounds(page).0);
    if directory.bounds(bucket) != bounds(page) || header.count == 0 {
        return false;
    }
    let bucket = &mut directory.buckets[bucket];
    bucket.heads = [header.number, NONE];
    bucket.cover = entry(page, usize::from(header.count) - 1);
    true
}
