//! Loading sorted records into an empty index: one program a page.

use super::Core;
use super::coder::{Builder, Expected};
use super::fences::Run;
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

impl Core<dyn Nand + '_> {
    /// Whether nothing is there, and no sweep stands between keys: it would part pages in the wrong place.
    pub(super) fn is_fresh(&self) -> bool {
        self.memtable.len() == 0
            && self.levels.iter().all(|level| level.pages() == 0 && level.cursor.is_empty())
    }

    /// Loads records whose keys ascend.
    pub(super) fn load_all(&mut self, records: Records<'_, '_>) -> Result<u64, IndexFault> {
        let loaded = self.load_pages(records);
        match loaded {
            Ok(_) => {
                self.levels.iter_mut().for_each(|level| level.old = core::mem::take(&mut level.new));
                self.replan();
                self.commit_last(false)?;
            }
            Err(_) => self.forget_pages(),
        }
        loaded
    }

    /// Takes back what a load wrote: no commit page names it.
    fn forget_pages(&mut self) {
        let last = self.levels.len() - 1;
        let blocks = self.levels[last].blocks(self.levels.pages_per_block);
        self.levels[last].new = Run::default();
        (self.levels[last].open, self.levels[last].records) = (None, 0);
        blocks.into_iter().for_each(|block| self.space.blocks.leave(block));
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
        if self.space.blocks.free() <= self.stock().sweeps() {
            return Err(self.stock().no_room());
        }
        let last = self.levels.len() - 1;
        let ppn = self.program(Target::Level(last), Header::run(count, false))?;
        self.adopt((last, Part::New), ppn, count, false);
        self.summarise_full(last)?;
        self.levels[last].records += count;
        self.levels.keep_short(&self.planner.shares);
        self.commits.dirty = true;
        Ok(())
    }
}

impl Medium<dyn Nand + '_> {
    /// Begins a page, coded for gaps like those of the page before; of the first one, for as many as a page
    /// may hold.
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
