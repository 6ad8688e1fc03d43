//! Rollback journals in RAM, which only the process that wrote them can need.
//!
//! A journal is kept in *parts* ([`Piece`]). SQLite saves each page as the last commit left it, in a *journal
//! record*: page number, page, checksum. If RAM is short, the page of such a record is dropped from RAM and
//! read again from the database's home. The home stays unchanged until the commit, and nobody reads the
//! journal afterwards.

use super::{File, Medium};
use nandex::StoreError;
use std::collections::BTreeMap;

/// Bytes of RAM of a part, not counting its contents.
const PIECE_BYTES: usize = 48;

/// Bytes of a journal header, then of an integer in it.
const HEADER_BYTES: usize = 28;
const WORD: u32 = 4;

/// A part of a journal.
#[derive(Debug)]
enum Piece {
    Bytes(Box<[u8]>),
    /// A journal record without its page, which is read from the database.
    Record {
        number: u32,
        page_bytes: u32,
        sum: u32,
    },
}

impl Piece {
    fn len(&self) -> usize {
        match self {
            Piece::Bytes(bytes) => bytes.len(),
            Piece::Record { page_bytes, .. } => (page_bytes + 2 * WORD) as usize,
        }
    }

    fn ram_bytes(&self) -> usize {
        PIECE_BYTES + if let Piece::Bytes(bytes) = self { bytes.len() } else { 0 }
    }
}

/// The journal record to be examined next: its offset, and the sector and page bytes of its header.
#[derive(Clone, Copy, Debug)]
struct Next {
    at: u64,
    sector: u64,
    page_bytes: u32,
}

impl Next {
    /// The first journal record after the header at offset `at`; `None` if the bytes are no header.
    fn after(header: &[u8], at: u64) -> Option<Next> {
        let number = |from: usize| Some(u32::from_be_bytes(header.get(from..from + 4)?.try_into().ok()?));
        let (sector, page_bytes) = (number(20)?, number(24)?);
        let is_header = sector.is_power_of_two() && (32..=1 << 16).contains(&sector);
        let is_page = page_bytes.is_power_of_two() && (512..=1 << 16).contains(&page_bytes);
        let sector = u64::from(sector);
        (is_header && is_page).then(|| Next { at: at + sector, sector, page_bytes })
    }
}

/// The database from which dropped pages are read again.
pub(super) struct Saved<'a> {
    pub(super) database: Option<&'a File>,
    pub(super) medium: &'a mut Medium,
}

/// The parts of a journal by their first offset. No two overlap.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    pieces: BTreeMap<u64, Piece>,
    ram_bytes: usize,
    next: Option<Next>,
}

impl Pieces {
    /// Bytes of RAM of all parts.
    pub(super) fn ram_bytes(&self) -> usize {
        self.ram_bytes
    }

    fn insert(&mut self, at: u64, piece: Piece) {
        self.remove(at);
        self.ram_bytes += piece.ram_bytes();
        self.pieces.insert(at, piece);
    }

    fn remove(&mut self, at: u64) -> Option<Piece> {
        let piece = self.pieces.remove(&at)?;
        self.ram_bytes -= piece.ram_bytes();
        Some(piece)
    }

    /// First offsets of the parts that overlap a range.
    fn within(&self, from: u64, to: u64) -> Vec<u64> {
        let first = self.pieces.range(..from).next_back();
        let first = first.filter(|(at, piece)| *at + piece.len() as u64 > from).map(|(at, _)| *at);
        first.into_iter().chain(self.pieces.range(from..to).map(|(at, _)| *at)).collect()
    }

    /// Forgets the next journal record if the journal changed before it.
    fn look_again_from(&mut self, place: u64) {
        if self.next.is_some_and(|next| place < next.at) {
            self.next = None;
        }
    }

    /// Puts a journal record over parts of plain bytes, whose other bytes stay.
    fn put_record(&mut self, from: u64, record: Piece) {
        let to = from + record.len() as u64;
        for at in self.within(from, to) {
            let Some(Piece::Bytes(bytes)) = self.remove(at) else { continue };
            let end = at + bytes.len() as u64;
            if at < from {
                self.insert(at, Piece::Bytes(bytes[..(from - at) as usize].into()));
            }
            if end > to {
                self.insert(to, Piece::Bytes(bytes[(to - at) as usize..].into()));
            }
        }
        self.insert(from, record);
    }

    pub(super) fn write(
        &mut self,
        offset: u64,
        data: &[u8],
        saved: &mut Saved<'_>,
    ) -> Result<(), StoreError> {
        let end = offset + data.len() as u64;
        let within = self.within(offset, end);
        let (mut from, mut whole) = (offset, Vec::new());
        if within.iter().any(|at| *at != offset || self.pieces[at].len() != data.len()) {
            from = within.iter().copied().min().unwrap_or(offset).min(offset);
            let last = within.iter().map(|at| at + self.pieces[at].len() as u64).max();
            whole.resize((last.unwrap_or(end).max(end) - from) as usize, 0);
            self.read(from, &mut whole, saved)?;
            let place = (offset - from) as usize;
            whole[place..place + data.len()].copy_from_slice(data);
        }
        let bytes = if whole.is_empty() { data } else { &whole };
        within.iter().for_each(|&at| drop(self.remove(at)));
        self.insert(from, Piece::Bytes(bytes.into()));
        self.look_again_from(from);
        Ok(())
    }

    /// Drops from RAM the saved pages that equal the committed database. The journal has `size` bytes.
    pub(super) fn let_go(&mut self, size: u64, saved: &mut Saved<'_>) {
        let Some(database) = saved.database else { return };
        while let Some(next) = self.next_record(saved) {
            let page_bytes = next.page_bytes as usize;
            let mut record = vec![0; page_bytes + 2 * WORD as usize];
            let at = next.at + record.len() as u64;
            if at > size || self.read(next.at, &mut record, saved).is_err() {
                return;
            }
            let word = |from: usize| record[from..].first_chunk().map_or(0, |word| u32::from_be_bytes(*word));
            let (number, sum) = (word(0), word(page_bytes + WORD as usize));
            let mut committed = vec![0; page_bytes];
            let place = u64::from(number.saturating_sub(1)) * page_bytes as u64;
            let read = database.read_committed(place, &mut committed, saved.medium);
            if number > 0 && read.is_ok() && record[WORD as usize..][..page_bytes] == *committed {
                self.put_record(next.at, Piece::Record { number, page_bytes: next.page_bytes, sum });
            }
            self.next = Some(Next { at, ..next });
        }
    }

    /// Finds the journal record to be examined next.
    fn next_record(&mut self, saved: &mut Saved<'_>) -> Option<Next> {
        let next = self.next;
        let at = next.map_or(0, |next| next.at.next_multiple_of(next.sector));
        let mut header = [0; HEADER_BYTES];
        self.read(at, &mut header, saved).ok()?;
        let follows = Next::after(&header, at);
        // SQLite begins a new header at a sector, and fills the rest of the one before with nothing.
        let is_header = next.is_none_or(|next| {
            follows
                .is_some_and(|follows| (follows.sector, follows.page_bytes) == (next.sector, next.page_bytes))
        });
        self.next = if is_header { follows } else { next };
        self.next
    }

    /// Reads from an offset on. Bytes never written are zeros.
    pub(super) fn read(&self, offset: u64, data: &mut [u8], saved: &mut Saved<'_>) -> Result<(), StoreError> {
        data.fill(0);
        let end = offset + data.len() as u64;
        for at in self.within(offset, end) {
            let Some(piece) = self.pieces.get(&at) else { continue };
            let (from, to) = (at.max(offset), (at + piece.len() as u64).min(end));
            let target = &mut data[(from - offset) as usize..(to - offset) as usize];
            let part = (from - at) as usize..(to - at) as usize;
            match *piece {
                Piece::Bytes(ref bytes) => target.copy_from_slice(&bytes[part]),
                Piece::Record { number, page_bytes, sum } => {
                    let lost = StoreError::Corrupted { what: "a journal has lost its database", at };
                    let mut record = Vec::from(number.to_be_bytes());
                    record.resize((WORD + page_bytes) as usize, 0);
                    let place = u64::from(number - 1) * u64::from(page_bytes);
                    let database = saved.database.ok_or(lost)?;
                    database.read_committed(place, &mut record[WORD as usize..], saved.medium)?;
                    record.extend(sum.to_be_bytes());
                    target.copy_from_slice(&record[part]);
                }
            }
        }
        Ok(())
    }

    /// Drops the bytes from `size` on.
    pub(super) fn truncate(&mut self, size: u64, saved: &mut Saved<'_>) -> Result<(), StoreError> {
        let gone = self.within(size, u64::MAX);
        let first = gone.first().copied().filter(|first| *first < size);
        let mut left = vec![0; first.map_or(0, |first| (size - first) as usize)];
        if let Some(first) = first {
            self.read(first, &mut left, saved)?;
        }
        gone.iter().for_each(|&at| drop(self.remove(at)));
        self.look_again_from(size);
        if let Some(first) = first {
            self.insert(first, Piece::Bytes(left.into_boxed_slice()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::medium;
    use super::super::{FileId, Purpose, Volume};
    use super::*;
    use crate::settings::VolumeConfig;
    use nandex::rng::Rng;

    /// Returns a volume with a database of random bytes and its journal.
    fn volume(pages: u64, rng: &mut Rng) -> (Volume, FileId, Vec<u8>) {
        let settings = VolumeConfig { ram_bytes: 1 << 16, ..VolumeConfig::default() };
        let mut volume = Volume::open(medium().store, settings).unwrap();
        let database = volume.open_file(Some("a"), Purpose::Main, true).unwrap();
        let mut bytes = vec![0; pages as usize * 512];
        rng.fill(&mut bytes);
        volume.write(database, 0, &bytes).unwrap();
        volume.commit(&[database]).unwrap();
        let journal = volume.open_file(Some("a-journal"), Purpose::Journal, true).unwrap();
        volume.write(journal, 0, &header()).unwrap();
        (volume, journal, bytes)
    }

    /// A journal header of 512 bytes, for pages of 512 bytes.
    fn header() -> Vec<u8> {
        let mut header = vec![0; 512];
        header[20..24].copy_from_slice(&512u32.to_be_bytes());
        header[24..28].copy_from_slice(&512u32.to_be_bytes());
        header
    }

    fn record(number: usize, database: &[u8]) -> Vec<u8> {
        let mut record = Vec::from((number as u32 + 1).to_be_bytes());
        record.extend(&database[number * 512..][..512]);
        record.extend([9; 4]);
        record
    }

    #[test]
    fn a_journal_reads_as_written() {
        let mut rng = Rng::new(5);
        let (mut volume, journal, database) = volume(100, &mut rng);
        let mut model = header();
        for round in 0..4_000 {
            let mut at = rng.below(40_000);
            let data = match rng.below(40) {
                0 => {
                    volume.truncate(journal, at).unwrap();
                    model.resize(at as usize, 0);
                    continue;
                }
                1 => {
                    at = 0;
                    header()
                }
                2..=35 => {
                    at = 512 + at / 520 * 520;
                    record(rng.below(100) as usize, &database)
                }
                _ => {
                    let mut data = vec![0; 1 + rng.below(1_200) as usize];
                    rng.fill(&mut data);
                    data
                }
            };
            // SQLite writes a record in three pieces, or in pieces of any size.
            let mut left = &*data;
            while let Some(part) =
                left.split_off(..left.len().min(1 + rng.below(600) as usize)).filter(|p| !p.is_empty())
            {
                volume.write(journal, at + (data.len() - left.len() - part.len()) as u64, part).unwrap();
            }
            model.resize(model.len().max(at as usize + data.len()), 0);
            model[at as usize..][..data.len()].copy_from_slice(&data);
            if rng.chance(1, 2) {
                volume.files.let_go(journal, &mut volume.medium);
            }
            assert_eq!(volume.size(journal), model.len() as u64, "round {round}");
            let mut found = vec![1; model.len()];
            volume.read(journal, 0, &mut found).unwrap();
            assert!(found == model, "round {round}");
            let from = rng.below(model.len() as u64 + 1) as usize;
            let mut part = vec![1; (model.len() - from).min(700)];
            volume.read(journal, from as u64, &mut part).unwrap();
            assert!(part == model[from..][..part.len()], "round {round}");
        }
        assert!(volume.files.used > 0);
        volume.truncate(journal, 0).unwrap();
        assert_eq!(volume.files.used, 0, "all is given back");
    }

    #[test]
    fn saved_pages_take_no_ram_where_it_is_short() {
        let mut rng = Rng::new(6);
        let (mut volume, journal, database) = volume(300, &mut rng);
        let most = volume.files.pages(journal, &mut volume.medium).unwrap().room.most;
        for number in 0..300 {
            let at = 512 + number as u64 * 520;
            for (at, part) in (at..).step_by(260).zip(record(number, &database).chunks(260)) {
                volume.write(journal, at, part).unwrap();
                assert!(volume.files.used <= most);
            }
        }
        assert!(300 * 512 > 2 * most);
        // Another page, which nobody committed, has no place to be read from.
        let refused =
            (0..200).find_map(|number| volume.write(journal, 200_000 + number * 512, &[1; 512]).err());
        assert_eq!(refused, Some(StoreError::Full));
        for (number, page) in database.chunks(512).enumerate() {
            let mut saved = [0; 512];
            volume.read(journal, number as u64 * 520 + 516, &mut saved).unwrap();
            assert!(saved == *page);
        }
    }
}
