//! sequential-storage: a log of items, with caches in RAM or without.

use crate::nor::{Nor, SECTOR, Units};
use crate::store::{Load, Medium, Opened, Records, Store, Trouble, block_on};
use sequential_storage::Error;
use sequential_storage::cache::key_pointers::HeapKeyPointers;
use sequential_storage::cache::page_pointers::HeapPagePointers;
use sequential_storage::cache::page_states::HeapPageStates;
use sequential_storage::cache::{Cache, CacheImpl, Uncached};
use sequential_storage::map::{Key, MapConfig, MapStorage};

/// What is kept in RAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caches {
    /// Nothing.
    None,
    /// State and first and last item of each page.
    Pages,
    /// These, and the place of each key.
    Keys,
}

type Part = Units<SECTOR>;

struct Log<K: Key, C: CacheImpl<K>> {
    map: MapStorage<K, Part, C>,
    part: Nor,
    load: Load,
    caches: Caches,
    buffer: [u8; 256],
}

/// Makes the log.
pub fn open(caches: Caches, medium: &Medium, load: &Load) -> Opened {
    let part = medium.nor()?;
    match load.key_bytes {
        8 => of::<8>(caches, part, *load),
        16 => of::<16>(caches, part, *load),
        other => Err(Trouble::Failed(format!("no key of {other} bytes is in the list"))),
    }
}

fn of<const N: usize>(caches: Caches, part: Nor, load: Load) -> Opened {
    let pages = part.bytes() / SECTOR;
    let keys = load.keys as usize;
    let (states, pointers) = (HeapPageStates::new(pages), HeapPagePointers::new(pages));
    match caches {
        Caches::None => log::<[u8; N], _>(caches, part, load, Cache::new_uncached()),
        Caches::Pages => log::<[u8; N], _>(caches, part, load, Cache::new(states, pointers, Uncached)),
        Caches::Keys => {
            let places = HeapKeyPointers::<[u8; N]>::new(keys);
            log(caches, part, load, Cache::new(states, pointers, places))
        }
    }
}

fn log<K: Key + for<'k> TryFrom<&'k [u8]> + 'static, C: CacheImpl<K> + 'static>(
    caches: Caches,
    part: Nor,
    load: Load,
    cache: C,
) -> Opened {
    let config = MapConfig::new(0..part.bytes() as u32);
    let map = MapStorage::new(Units(part.clone()), config, cache);
    Ok(Box::new(Log { map, part, load, caches, buffer: [0; 256] }))
}

fn trouble<E: std::fmt::Debug>(error: Error<E>) -> Trouble {
    if matches!(error, Error::FullStorage) { Trouble::NoRoom } else { Trouble::of(error) }
}

fn key_of<K: for<'k> TryFrom<&'k [u8]>>(key: &[u8]) -> Result<K, Trouble> {
    K::try_from(key).map_err(|_| Trouble::Failed("a key of another size".into()))
}

impl<K, C> Store for Log<K, C>
where
    K: Key + for<'k> TryFrom<&'k [u8]> + 'static,
    C: CacheImpl<K> + 'static,
{
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Trouble> {
        let key: K = key_of(key)?;
        block_on(self.map.store_item(&mut self.buffer, &key, &value)).map_err(trouble)
    }

    fn get(&mut self, key: &[u8], value: &mut [u8]) -> Result<bool, Trouble> {
        let key: K = key_of(key)?;
        let found = block_on(self.map.fetch_item::<&[u8]>(&mut self.buffer, &key)).map_err(trouble)?;
        let Some(found) = found.filter(|found| found.len() == value.len()) else { return Ok(false) };
        value.copy_from_slice(found);
        Ok(true)
    }

    fn range(&mut self, _: &[u8], _: usize) -> Result<Option<Records>, Trouble> {
        Ok(None)
    }

    fn ram_bytes(&self) -> Option<usize> {
        let (pages, keys) = (self.part.bytes() / SECTOR, self.load.keys as usize);
        // As its page says: a byte and eight a page, and a key and a place of four bytes for each.
        let of_pages = if self.caches == Caches::None { 0 } else { 9 * pages };
        let of_keys =
            if self.caches == Caches::Keys { keys * (usize::from(self.load.key_bytes) + 4) } else { 0 };
        Some(of_pages + of_keys + self.buffer.len())
    }

    fn again(self: Box<Self>) -> Opened {
        match self.load.key_bytes {
            8 => of::<8>(self.caches, self.part, self.load),
            _ => of::<16>(self.caches, self.part, self.load),
        }
    }
}
