//! ekv: an LSM tree on NOR.

use crate::nor::{Nor, NorFault, SECTOR};
use crate::store::{Load, Medium, Opened, Records, Store, Trouble, block_on};
use ekv::flash::{Flash, PageID};
use ekv::{CommitError, Config, Database, ReadError, WriteError};
use embassy_sync::blocking_mutex::raw::NoopRawMutex;

struct Pages(Nor);

impl Flash for Pages {
    type Error = NorFault;

    fn page_count(&self) -> usize {
        (self.0.bytes() / SECTOR).min(ekv::config::MAX_PAGE_COUNT)
    }

    async fn erase(&mut self, page: PageID) -> Result<(), NorFault> {
        let from = page.index() * SECTOR;
        self.0.erase(from, from + SECTOR)
    }

    async fn read(&mut self, page: PageID, offset: usize, bytes: &mut [u8]) -> Result<(), NorFault> {
        self.0.read(page.index() * SECTOR + offset, bytes)
    }

    async fn write(&mut self, page: PageID, offset: usize, bytes: &[u8]) -> Result<(), NorFault> {
        self.0.program(page.index() * SECTOR + offset, bytes)
    }
}

type Inner = Database<Pages, NoopRawMutex>;

struct Ekv {
    database: Inner,
    part: Nor,
}

fn new(part: &Nor) -> Inner {
    let mut config = Config::default();
    config.random_seed = 7;
    Database::new(Pages(part.clone()), config)
}

/// Makes the database.
pub fn open(medium: &Medium, _: &Load) -> Opened {
    let part = medium.nor()?;
    let database = new(&part);
    block_on(database.format()).map_err(Trouble::of)?;
    Ok(Box::new(Ekv { database, part }))
}

fn written<T, E: std::fmt::Debug>(result: Result<T, WriteError<E>>) -> Result<T, Trouble> {
    result
        .map_err(|error| if matches!(error, WriteError::Full) { Trouble::NoRoom } else { Trouble::of(error) })
}

impl Store for Ekv {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Trouble> {
        block_on(async {
            let mut change = self.database.write_transaction().await;
            written(change.write(key, value).await)?;
            let done: Result<(), CommitError<NorFault>> = change.commit().await;
            done.map_err(Trouble::of)
        })
    }

    fn get(&mut self, key: &[u8], value: &mut [u8]) -> Result<bool, Trouble> {
        block_on(async {
            match self.database.read_transaction().await.read(key, value).await {
                Ok(count) => Ok(count == value.len()),
                Err(ReadError::KeyNotFound) => Ok(false),
                Err(error) => Err(Trouble::of(error)),
            }
        })
    }

    fn range(&mut self, from: &[u8], count: usize) -> Result<Option<Records>, Trouble> {
        block_on(async {
            let view = self.database.read_transaction().await;
            let mut cursor = view.read_range(from..).await.map_err(Trouble::of)?;
            let (mut records, mut key, mut value) = (Records::new(), [0; 16], [0; 128]);
            while records.len() < count {
                let Some((k, v)) = cursor.next(&mut key, &mut value).await.map_err(Trouble::of)? else {
                    break;
                };
                records.push((key[..k].to_vec(), value[..v].to_vec()));
            }
            Ok(Some(records))
        })
    }

    fn ram_bytes(&self) -> Option<usize> {
        Some(size_of::<Inner>())
    }

    fn again(self: Box<Self>) -> Opened {
        let database = new(&self.part);
        block_on(database.mount()).map_err(Trouble::of)?;
        Ok(Box::new(Ekv { database, part: self.part }))
    }
}
