//! Nandex' indexes by name.

use crate::nor::{BLOCK, SECTOR, Units};
use crate::store::{Load, Medium, Opened, Records, Store, Trouble};
use nandex::ordered::{Direction, OrderedIndex, RecordFormat};
use nandex::{IndexError, Nand, StoreError};
use nandex_embedded::{NorChip, Shape};
use nandex_stacks::options::Settings;
use nandex_stacks::registry;
use std::ops::{Bound, ControlFlow};

/// An index with its settings.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    /// Name of the index.
    pub index: &'static str,
    /// KiB of RAM. 0: as much as the records need.
    pub ram_kib: usize,
    /// Options by name.
    pub options: &'static [(&'static str, &'static str)],
    /// Whether blocks of NOR are erase blocks of 64 KiB and not sectors.
    pub in_blocks: bool,
    /// Pages of NOR with their spare areas, for short records and for long ones.
    pub pages: [(u32, u32); 2],
}

/// 16 pages in a sector, or 8 for records of which these would not take some.
const SMALL: [(u32, u32); 2] = [(240, 16), (496, 16)];
/// 8 pages in a sector, or 4.
const LARGE: [(u32, u32); 2] = [(496, 16), (1008, 16)];

impl Way {
    /// An index with so much RAM and default options.
    pub const fn new(index: &'static str, ram_kib: usize) -> Way {
        Way { index, ram_kib, options: &[], in_blocks: false, pages: SMALL }
    }

    /// The same in erase blocks of 64 KiB.
    pub const fn in_blocks(self) -> Way {
        Way { in_blocks: true, ..self }
    }

    /// The same with larger pages on NOR.
    pub const fn in_large_pages(self) -> Way {
        Way { pages: LARGE, ..self }
    }

    fn settings(&self, load: &Load) -> Settings {
        let mut settings = Settings::new(RecordFormat::new(load.key_bytes, load.value_bytes));
        settings.ram_bytes = Some(self.ram_kib << 10).filter(|&bytes| bytes > 0);
        self.options.iter().fold(settings, |settings, (name, value)| settings.with(name, value))
    }

    fn chip(&self, medium: &Medium, load: &Load) -> Result<Box<dyn Nand>, Trouble> {
        let (page_bytes, spare_bytes) = self.pages[usize::from(load.value_bytes > 24)];
        let shape = Shape::new(page_bytes, spare_bytes).with_overwrites(true).with_units_per_block(1);
        Ok(match medium {
            Medium::Nand(chip) => Box::new(chip.clone()),
            Medium::Nor(part) if self.in_blocks => {
                Box::new(NorChip::new(Units::<BLOCK>(part.clone()), shape).map_err(said)?)
            }
            Medium::Nor(part) => Box::new(NorChip::new(Units::<SECTOR>(part.clone()), shape).map_err(said)?),
        })
    }

    /// Makes the index.
    pub fn open(self, medium: &Medium, load: &Load) -> Opened {
        let entry = registry::index(self.index).map_err(Trouble::of)?;
        let mut last = Trouble::NoRoom;
        for settings in entry.fitting(&self.settings(load)) {
            match (entry.format)(self.chip(medium, load)?, &settings) {
                Ok(index) => {
                    let (medium, load) = (medium.clone(), *load);
                    return Ok(Box::new(Kept { index, settings, way: self, medium, load }));
                }
                Err(error @ IndexError::TooLittleRam { .. }) => last = trouble(error),
                Err(error) => return Err(trouble(error)),
            }
        }
        Err(last)
    }
}

struct Kept {
    index: Box<dyn OrderedIndex>,
    settings: Settings,
    way: Way,
    medium: Medium,
    load: Load,
}

fn said(error: impl std::fmt::Display) -> Trouble {
    Trouble::Failed(error.to_string())
}

fn trouble(error: IndexError) -> Trouble {
    match error {
        IndexError::Full(_) | IndexError::Store(StoreError::Full) => Trouble::NoRoom,
        error => said(error),
    }
}

impl Store for Kept {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Trouble> {
        self.index.put(key, value).map_err(trouble)
    }

    fn get(&mut self, key: &[u8], value: &mut [u8]) -> Result<bool, Trouble> {
        self.index.get(key, value).map_err(trouble)
    }

    fn range(&mut self, from: &[u8], count: usize) -> Result<Option<Records>, Trouble> {
        let mut records = Records::new();
        let mut visit = |key: &[u8], value: &[u8]| {
            records.push((key.to_vec(), value.to_vec()));
            if records.len() < count { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        let low = Bound::Included(from);
        self.index.range(low, Bound::Unbounded, Direction::Ascending, &mut visit).map_err(trouble)?;
        Ok(Some(records))
    }

    fn ram_bytes(&self) -> Option<usize> {
        Some(self.index.ram_bytes())
    }

    fn again(self: Box<Self>) -> Opened {
        let Kept { index, settings, way, medium, load } = *self;
        drop(index);
        let entry = registry::index(way.index).map_err(Trouble::of)?;
        let index = (entry.mount)(way.chip(&medium, &load)?, &settings).map_err(trouble)?;
        Ok(Box::new(Kept { index, settings, way, medium, load }))
    }
}
