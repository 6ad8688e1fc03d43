//! Loading sorted records into an empty index: one program a page.

use super::Core;
use super::coder::{Builder, Expected};
use super::give::give;
use super::io::Target;
use super::level::Part;
use super::medium::Medium;
use super::page::{HEADER_BYTES, Header};
use crate::check::IndexError;
use crate::fault::IndexFault;
use crate::nand::Nand;
use crate::ordered::Records;
use alloc::vec::Vec;

/// Facts that the code of the next page is chosen from: a first and a last key, and the records between them.
#[derive(Debug, Default)]
struct Before {
    first: Vec<u8>,
    last: Vec<u8>,
    count: usize,
}

impl<N: Nand> Core<N> {
    /// True if the index has no records and no sweep is between two keys. Such a sweep would divide pages in
    /// the wrong place.
    pub(super) fn is_fresh(&self) -> bool {
        self.stock.memtable.len() == 0
            && self.stock.levels.iter().all(|level| level.pages() == 0 && level.cursor.is_empty())
    }

    /// Loads records whose keys ascend.
    pub(super) fn load_all(&mut self, records: Records<'_, '_>) -> Result<u64, IndexFault> {
        let loaded = self.load_pages(records);
        match loaded {
            Ok(_) => {
                self.stock.levels.iter_mut().for_each(|level| level.old = core::mem::take(&mut level.new));
                self.replan();
                self.commit_last(false)?;
            }
            Err(_) => self.forget_pages(),
        }
        loaded
    }

    /// Drops the pages of a load that failed: no commit page names them.
    fn forget_pages(&mut self) {
        let last = self.stock.levels.len() - 1;
        let dropped = core::mem::take(&mut self.stock.levels[last].new);
        let open = self.stock.levels[last].open.take().map(|(block, _)| block);
        self.stock.levels[last].records = 0;
        let of_extents = dropped.extents().map(|extent| self.stock.geometry.block_of(extent.first()));
        of_extents.chain(open).for_each(|block| self.stock.space.blocks.leave(block));
    }

    fn load_pages(&mut self, records: Records<'_, '_>) -> Result<u64, IndexFault> {
        let (mut loaded, mut builder) = (0, None::<Builder>);
        let mut before = Before::default();
        for (key, value) in records {
            self.medium.record.check(key, value)?;
            if loaded > 0 && key <= &before.last[..] {
                return Err(IndexError::NotSorted { position: loaded }.into());
            }
            let added = builder.as_mut().is_some_and(|builder| {
                builder.append(&mut self.medium.output[HEADER_BYTES..], key, Some(value))
            });
            if !added {
                if let Some(full) = builder {
                    before.count = full.count();
                    self.write_loaded(full.count())?;
                }
                let mut next = self.medium.begin_loaded(key, &before);
                next.append(&mut self.medium.output[HEADER_BYTES..], key, Some(value));
                builder = Some(next);
                before.first = key.to_vec();
            }
            before.last.clear();
            before.last.extend_from_slice(key);
            loaded += 1;
        }
        if let Some(rest) = builder {
            self.write_loaded(rest.count())?;
        }
        Ok(loaded)
    }

    fn write_loaded(&mut self, count: usize) -> Result<(), IndexFault> {
        give(self)?;
        if self.stock.space.blocks.free() <= self.stock.sweeps() || self.stock.levels.extents_left() == 0 {
            return Err(self.stock.no_room());
        }
        let last = self.stock.levels.len() - 1;
        let ppn = self.program(Target::Level(last), Header::run(count, false))?;
        self.adopt((last, Part::New), ppn, count, false);
        self.summarise_full(last)?;
        self.stock.levels[last].records += count;
        self.stock.levels.keep_short(&self.planner.shares);
        self.stock.commits.dirty = true;
        Ok(())
    }
}

impl<N: Nand> Medium<N> {
    /// Begins a page, with a code for gaps like those of the page before. The first page gets a code for as
    /// many records as a page can hold.
    fn begin_loaded(&mut self, key: &[u8], before: &Before) -> Builder {
        let body = &mut self.output[HEADER_BYTES..];
        // As far from this key as the page before reached.
        let expected = match before.count {
            0 => Expected {
                first: key,
                low: key,
                last: &alloc::vec![0xff; key.len()],
                count: body.len() / 2,
                tombstones: false,
            },
            // What refused the key may have been a gap as wide as that page.
            count => Expected { first: key, low: &before.first, last: key, count, tombstones: false },
        };
        Builder::begin(body, self.record, expected)
    }
}
