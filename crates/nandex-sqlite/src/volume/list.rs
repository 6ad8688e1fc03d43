//! The list of a large commit: for each page its home, and the store page aside or the record that makes it.
//!
//! ```text
//! a page of the list   magic 4 | crc 4 of all that follows | next page 4 | entries 4 | sequence of the directory 8 |
//!                      entries of (place 4, page 4, crc 4), and more of them where the page is none:
//!   `NO_PAGE`          bytes 2 | pieces of the page in its place
//!   `SEVERAL`          bytes 2 | pages 1 | how far behind its place each is 4 .. | pieces of all these
//! ```
//!
//! A home is the *place* of this table, a store page its *page*. Three magics tell the kinds of list pages:
//! entries without records, entries with records, and entries compressed with zstd because they take more
//! than a page (their bytes 4, and a frame). In compressed entries each home is stored as its distance from
//! the one before. Pages of one table change alike, so that the records of forty pages may compress to the
//! size of ten.

use super::directory::NO_PAGE;

const MAGIC: &[u8; 4] = b"NDXR";
const MAGIC_PIECES: &[u8; 4] = b"NDXP";
const MAGIC_ZSTD: &[u8; 4] = b"NDXZ";

/// Stands in an entry for the store page: the page is made by a record that copies from several homes.
const SEVERAL: u32 = NO_PAGE - 1;

const HEADER_BYTES: usize = 24;
const ENTRY_BYTES: usize = 12;

/// Most bytes of entries compressed into one page of the list.
pub(super) const RAW_BYTES_MAX: usize = 1 << 16;

/// Most bytes of a record that fits a page of the list with its entry.
pub(super) const fn record_bytes_max(page_bytes: usize) -> usize {
    page_bytes.saturating_sub(HEADER_BYTES + ENTRY_BYTES + 2)
}

/// An entry of the list: one page of the commit.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) home: u32,
    pub(super) crc: u32,
    pub(super) aside: Aside,
}

/// Where the list finds a page of the commit.
#[derive(Debug)]
pub(super) enum Aside {
    /// Whole, in this store page.
    Page(u32),
    /// Made by this record.
    Made(Record),
}

/// A record: the encoded pieces of one page, and the other homes from which they copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    bytes: Box<[u8]>,
    is_of_several: bool,
}

impl Record {
    /// Encodes the record of the page at `home`, which copies from `others` too.
    pub(super) fn new(home: u32, others: &[u32], pieces: &[u8]) -> Record {
        let mut bytes = Vec::with_capacity(Record::bytes_beside(others.len()) + pieces.len());
        if !others.is_empty() {
            bytes.push(others.len() as u8);
            others.iter().for_each(|other| bytes.extend(other.wrapping_sub(home).to_le_bytes()));
        }
        bytes.extend(pieces);
        Record { bytes: bytes.into_boxed_slice(), is_of_several: !others.is_empty() }
    }

    /// Bytes of a record without its pieces.
    pub(super) const fn bytes_beside(others: usize) -> usize {
        if others == 0 { 0 } else { 1 + 4 * others }
    }

    pub(super) const fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Decodes the record of the page at `home`: the other homes, and the pieces.
    pub(super) fn parts(&self, home: u32) -> Option<(Vec<u32>, &[u8])> {
        if !self.is_of_several {
            return Some((Vec::new(), &self.bytes));
        }
        let (&count, bytes) = self.bytes.split_first()?;
        let (others, pieces) = bytes.split_at_checked(4 * usize::from(count))?;
        let far = others.chunks(4).filter_map(|number| number_at(number, 0));
        Some((far.map(|far| home.wrapping_add(far)).collect(), pieces))
    }

    /// Appends the record to `out` and returns where it is there.
    pub(super) fn added_to(&self, out: &mut Vec<u8>) -> Made {
        let made =
            Made { at: out.len() as u32, bytes: self.bytes.len() as u32, is_of_several: self.is_of_several };
        out.extend(&self.bytes);
        made
    }
}

/// Where a page of a large commit is: whole in the store page `lpn`, or as a record in the list page `lpn`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) lpn: u32,
    pub(super) crc: u32,
    pub(super) made: Option<Made>,
}

/// The range of bytes where a record is, in a list page or a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Made {
    at: u32,
    bytes: u32,
    is_of_several: bool,
}

impl Made {
    /// Length of the record in bytes.
    pub(super) const fn bytes(self) -> usize {
        self.bytes as usize
    }

    /// Copies the record out of the bytes of its list page or bundle.
    pub(super) fn of(self, all: &[u8]) -> Option<Record> {
        let bytes = all.get(self.at as usize..)?.get(..self.bytes as usize)?;
        Some(Record { bytes: bytes.into(), is_of_several: self.is_of_several })
    }
}

impl Entry {
    pub(super) fn bytes(&self) -> usize {
        match &self.aside {
            Aside::Page(_) => ENTRY_BYTES,
            Aside::Made(record) => ENTRY_BYTES + 2 + record.bytes.len(),
        }
    }

    /// Appends the entry to `out`, its home as the distance from `before`.
    fn encode(&self, before: u32, out: &mut Vec<u8>) {
        let page = match &self.aside {
            Aside::Page(lpn) => *lpn,
            Aside::Made(record) if record.is_of_several => SEVERAL,
            Aside::Made(_) => NO_PAGE,
        };
        for number in [self.home.wrapping_sub(before), page, self.crc] {
            out.extend(number.to_le_bytes());
        }
        if let Aside::Made(record) = &self.aside {
            out.extend((record.bytes.len() as u16).to_le_bytes());
            out.extend(&record.bytes);
        }
    }
}

/// How hard the compressor tries.
#[derive(Clone, Copy, Debug)]
pub(super) enum Effort {
    Little,
    Much,
}

impl Effort {
    /// Compresses bytes. Returns the length of the frame and then the frame.
    pub(super) fn pack(self, bytes: &[u8]) -> Vec<u8> {
        let level = match self {
            Effort::Little => 3,
            Effort::Much => 15,
        };
        // None is refused: the room is what the library asks for.
        let frame = zstd::bulk::compress(bytes, level).unwrap_or_default();
        [&(frame.len() as u32).to_le_bytes(), frame.as_slice()].concat()
    }
}

/// Uncompresses a frame with its length; `None` if it is damaged or has more than `most` bytes.
pub(super) fn unpack(packed: &[u8], most: usize) -> Option<Vec<u8>> {
    let frame = packed.get(4..)?.get(..number_at(packed, 0)? as usize)?;
    zstd::bulk::decompress(frame, most).ok()
}

/// Entries encoded for one page of the list.
#[derive(Debug)]
pub(super) struct Filled {
    pub(super) entries: usize,
    magic: &'static [u8; 4],
    body: Vec<u8>,
}

impl Filled {
    /// Encodes as many of the first entries as fit a page, at least one.
    pub(super) fn with(entries: &[Entry], page_bytes: usize, effort: Effort) -> Filled {
        let room = page_bytes - HEADER_BYTES;
        // The entries, as a page has them that are packed and that are not, and where each of them ends.
        let (mut plain, mut raw, mut ends, mut before) = (Vec::new(), Vec::new(), Vec::new(), 0);
        for entry in entries {
            entry.encode(0, &mut plain);
            entry.encode(before, &mut raw);
            if raw.len() > room.max(RAW_BYTES_MAX) {
                break;
            }
            ends.push(raw.len());
            before = entry.home;
        }
        let has_pieces = entries[..ends.len()].iter().any(|entry| matches!(entry.aside, Aside::Made(_)));
        let fit = ends.partition_point(|&end| end <= room);
        let magic = if has_pieces { MAGIC_PIECES } else { MAGIC };
        let mut filled = Filled { entries: fit, magic, body: plain[..ends[fit - 1]].to_vec() };
        // Twice as many until they do not fit, then the middle of what does and what does not.
        let (mut most, mut has_met) = (ends.len(), false);
        while has_pieces && filled.entries < most {
            let more = if has_met { (most - filled.entries).div_ceil(2) } else { filled.entries };
            let tried = (filled.entries + more).min(most);
            let body = effort.pack(&raw[..ends[tried - 1]]);
            if body.len() <= room {
                filled = Filled { entries: tried, magic: MAGIC_ZSTD, body };
            } else {
                (most, has_met) = (tried - 1, true);
            }
        }
        filled
    }

    /// Encodes the page of the list, with the store page of the next one and the directory's sequence number.
    pub(super) fn encode(&self, next: u32, sequence: u64, page_bytes: usize) -> Vec<u8> {
        let mut body = Vec::with_capacity(page_bytes);
        body.extend(next.to_le_bytes());
        body.extend((self.entries as u32).to_le_bytes());
        body.extend(sequence.to_le_bytes());
        body.extend(&self.body);
        body.resize(page_bytes - 8, 0);
        let mut page = Vec::from(self.magic.as_slice());
        page.extend(crc32fast::hash(&body).to_le_bytes());
        page.extend(body);
        page
    }
}

/// A page of the list as read.
#[derive(Debug)]
pub(super) struct ListPage {
    pub(super) next: u32,
    count: u32,
    has_pieces: bool,
    /// True if each home is stored as its distance from the one before.
    is_relative: bool,
    pub(super) entries: Vec<u8>,
}

impl ListPage {
    /// Decodes a page of the list; `None` if it is something else.
    pub(super) fn decode(page: &[u8]) -> Option<ListPage> {
        let magic = page.get(..4)?;
        if number_at(page, 4)? != crc32fast::hash(page.get(8..)?) {
            return None;
        }
        let body = page.get(HEADER_BYTES..)?;
        let entries = match magic.first_chunk()? {
            MAGIC | MAGIC_PIECES => body.to_vec(),
            MAGIC_ZSTD => unpack(body, RAW_BYTES_MAX.max(body.len()))?,
            _ => return None,
        };
        let (next, count) = (number_at(page, 8)?, number_at(page, 12)?);
        let (has_pieces, is_relative) = (magic != MAGIC, magic == MAGIC_ZSTD);
        (count > 0).then_some(ListPage { next, count, has_pieces, is_relative, entries })
    }

    /// The homes in this page of the list, and where the page of each is. `lpn` is this page; `None` if it is
    /// damaged.
    pub(super) fn places(&self, lpn: u32) -> Option<Vec<(u32, Place)>> {
        let (mut pages, mut at, mut before) = (Vec::new(), 0, 0u32);
        for _ in 0..self.count {
            let number = |at: usize| number_at(&self.entries, at);
            let (home, aside, crc) = (number(at)?.wrapping_add(before), number(at + 4)?, number(at + 8)?);
            before = if self.is_relative { home } else { 0 };
            at += ENTRY_BYTES;
            let place = if self.has_pieces && aside >= SEVERAL {
                let bytes = u16::from_le_bytes(*self.entries.get(at..)?.first_chunk()?).into();
                let made = Made { at: at as u32 + 2, bytes, is_of_several: aside == SEVERAL };
                at += 2 + bytes as usize;
                Place { lpn, crc, made: Some(made) }
            } else {
                Place { lpn: aside, crc, made: None }
            };
            pages.push((home, place));
        }
        (at <= self.entries.len()).then_some(pages)
    }
}

fn number_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|number| u32::from_le_bytes(*number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandex::rng::Rng;
    use std::collections::BTreeMap;

    /// Decodes the entries of the list page `lpn`.
    fn read(page: &[u8], lpn: u32) -> Option<BTreeMap<u32, (Place, Option<Record>)>> {
        let list = ListPage::decode(page)?;
        let read = |(home, place): (u32, Place)| match place.made {
            None => Some((home, (place, None))),
            Some(made) => made.of(&list.entries).map(|record| (home, (place, Some(record)))),
        };
        list.places(lpn)?.into_iter().map(read).collect()
    }

    fn drawn(home: u32, rng: &mut Rng, kinds: u64, shape: &[u8]) -> Entry {
        let mut pieces = shape[..rng.below(40) as usize].to_vec();
        pieces.extend(home.to_le_bytes());
        let others: Vec<u32> = (0..rng.below(4) as u32).map(|i| home + i).collect();
        let aside = match rng.below(kinds) {
            0 => Aside::Page(7),
            1 => Aside::Made(Record::new(home, &[], &pieces)),
            _ => Aside::Made(Record::new(home, &others, &pieces)),
        };
        Entry { home, crc: !home, aside }
    }

    #[test]
    fn a_page_of_the_list_is_read_as_written_or_not_at_all() {
        let mut rng = Rng::new(1);
        let (mut zipped, mut several) = (0, 0);
        for round in 0..200 {
            let page_bytes = [128, 512, 2048][round % 3];
            let mut shape = [0; 40];
            rng.fill(&mut shape);
            let kinds = 1 + round as u64 % 3;
            let entries: Vec<Entry> = (0..300).map(|home| drawn(home, &mut rng, kinds, &shape)).collect();
            let mut rest = entries.as_slice();
            while !rest.is_empty() {
                let filled = Filled::with(rest, page_bytes, [Effort::Little, Effort::Much][round / 3 % 2]);
                let page = filled.encode(55, 3, page_bytes);
                assert_eq!(page.len(), page_bytes);
                zipped += u32::from(page.starts_with(MAGIC_ZSTD));
                let pages = read(&page, 54).unwrap();
                assert_eq!(pages.len(), filled.entries);
                for entry in &rest[..filled.entries] {
                    let (place, made) = &pages[&entry.home];
                    assert_eq!(place.crc, entry.crc);
                    match &entry.aside {
                        Aside::Page(lpn) => assert_eq!((place.lpn, made), (*lpn, &None)),
                        Aside::Made(record) => {
                            several += u32::from(record.is_of_several);
                            assert_eq!((place.lpn, made.as_ref()), (54, Some(record)));
                            let parts = made.as_ref().and_then(|made| made.parts(entry.home));
                            assert_eq!(parts, record.parts(entry.home));
                        }
                    }
                }
                let place = rng.below(page_bytes as u64) as usize;
                let mut torn = page;
                torn[place] ^= 1;
                assert_eq!(read(&torn, 54), None, "byte {place}");
                rest = &rest[filled.entries..];
            }
        }
        assert!(zipped > 200 && several > 200, "{zipped} zipped, {several} of several");
    }

    #[test]
    fn the_largest_record_has_room_in_a_page() {
        for page_bytes in 128..300 {
            let pieces = vec![5; record_bytes_max(page_bytes)];
            let entry = Entry { home: 3, crc: 4, aside: Aside::Made(Record::new(3, &[], &pieces)) };
            assert_eq!(Filled::with(&[entry], page_bytes, Effort::Little).entries, 1, "{page_bytes} bytes");
        }
    }

    #[test]
    fn the_entries_of_no_list_are_refused() {
        let mut rng = Rng::new(2);
        for _ in 0..20_000 {
            let mut page = vec![0; 256];
            rng.fill(&mut page);
            page[..4].copy_from_slice([MAGIC, MAGIC_PIECES, MAGIC_ZSTD][rng.below(3) as usize]);
            page[12..16].copy_from_slice(&(1 + rng.below(9) as u32).to_le_bytes());
            let crc = crc32fast::hash(&page[8..]).to_le_bytes();
            page[4..8].copy_from_slice(&crc);
            let _ = read(&page, 9);
        }
    }
}
