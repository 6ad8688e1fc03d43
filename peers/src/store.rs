//! A store as the run sees it, and the chip below it.

use crate::nor::Nor;
use nandex::Shared;
use nandex::nand::sim::SimChip;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// Why a store did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// It says that it has no room.
    NoRoom,
    /// It refused or failed.
    Failed(String),
    /// Nobody waits for it.
    NotRun(&'static str),
}

impl Trouble {
    /// A failure in the words of a store.
    pub fn of(error: impl std::fmt::Debug) -> Trouble {
        Trouble::Failed(format!("{error:?}"))
    }
}

/// A store that was made or mounted.
pub type Opened = Result<Box<dyn Store>, Trouble>;

/// A store of records of one size.
pub trait Store {
    /// Gives a key a value, durable when it returns.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Trouble>;

    /// Reads the value of a key; false if it is not there.
    fn get(&mut self, key: &[u8], value: &mut [u8]) -> Result<bool, Trouble>;

    /// So many records from a key on, in the order of keys; `None` if the store keeps no order.
    fn range(&mut self, from: &[u8], count: usize) -> Result<Option<Records>, Trouble>;

    /// Bytes of RAM that the store's settings give it; `None` if they do not say.
    fn ram_bytes(&self) -> Option<usize>;

    /// Forgets all that is in RAM, as a power cut between two operations does, and mounts.
    fn again(self: Box<Self>) -> Opened;
}

/// Keys and values.
pub type Records = Vec<(Vec<u8>, Vec<u8>)>;

/// What a store is made for.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Records kept.
    pub keys: u32,
    /// Bytes of a key.
    pub key_bytes: u8,
    /// Bytes of a value.
    pub value_bytes: u8,
}

/// A chip, shared by the store on it and by who watches it.
#[derive(Clone)]
pub enum Medium {
    /// NOR.
    Nor(Nor),
    /// NAND.
    Nand(Shared<SimChip>),
}

impl Medium {
    /// The NOR part.
    pub fn nor(&self) -> Result<Nor, Trouble> {
        match self {
            Medium::Nor(part) => Ok(part.clone()),
            Medium::Nand(_) => Err(Trouble::Failed("runs on NOR alone".into())),
        }
    }

    /// The NAND chip.
    pub fn nand(&self) -> Result<Shared<SimChip>, Trouble> {
        match self {
            Medium::Nand(chip) => Ok(chip.clone()),
            Medium::Nor(_) => Err(Trouble::Failed("is run on NAND alone".into())),
        }
    }

    /// What was done to the chip so far.
    pub fn counts(&self) -> Counts {
        match self {
            Medium::Nor(part) => {
                Counts { time_ns: part.time_ns(), programmed: part.programmed(), erases: part.erases() }
            }
            Medium::Nand(chip) => {
                let chip = chip.lock();
                let page = u64::from(chip.part().geometry.page_bytes);
                let counters = chip.counters();
                Counts {
                    time_ns: chip.time().0,
                    programmed: counters.page_programs_total() * page,
                    erases: counters.block_erases_total(),
                }
            }
        }
    }

    /// Erases of each sector or block.
    pub fn wear(&self) -> Vec<u32> {
        match self {
            Medium::Nor(part) => part.wear(),
            Medium::Nand(chip) => chip.lock().wear().to_vec(),
        }
    }
}

/// What was done to a chip.
#[derive(Clone, Copy, Debug)]
pub struct Counts {
    /// Nanoseconds that it was busy.
    pub time_ns: u64,
    /// Bytes programmed.
    pub programmed: u64,
    /// Erases.
    pub erases: u64,
}

/// Waits for a future that never has to wait, since its flash answers at once.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
    }
}
