//! The subjects of the corpus, each as a set of records: opened on a chip, changed, read whole by scan and by
//! look-up.

use super::history::{Op, Records, Shape, padded};
use super::image::{Image, Kind};
use nandex::nand::{BlockRange, Nand};
use nandex::ordered::value_log::{self, ValueLog};
use nandex::ordered::variable::Variable;
use nandex::ordered::{Direction, OrderedIndex, check_with_look_ups};
use nandex::spatial::{Rect, Relation, SpatialIndex};
use nandex::{Cause, IndexError, Lpn, PageStore, Shared};
use nandex_papers::sensor::microhash::{MicroHash, MicroHashConfig as SensorConfig};
use nandex_papers::sensor::{Reading, SensorLog};
use nandex_stacks::registry::{self, store};
use nandex_stacks::spatial::registry::spatial;
use std::ops::{Bound, ControlFlow};

/// Blocks of the log of a [`ValueLog`] in the corpus; the index has the others.
const LOG_BLOCKS: u32 = 16;

/// A subject on a chip of the corpus: index, spatial index, store or log.
pub(crate) trait Subject {
    fn step(&mut self, op: &Op) -> Result<(), IndexError>;

    /// All records, read by a scan.
    fn scan(&mut self) -> Result<Records, IndexError>;

    /// The value of a key, by looking it up.
    fn look_up(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, IndexError>;

    fn close(&mut self) -> Result<(), IndexError>;

    /// The first finding of a check.
    fn broken(&mut self) -> Result<Option<String>, IndexError>;

    /// The promise about a power cut, as the list writes it.
    fn class(&self) -> nandex::Durability;
}

/// How a subject is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    Format,
    Mount,
}

/// Opens the subject of an image on a chip.
pub(crate) fn open(image: &Image, nand: Box<dyn Nand>, how: How) -> Result<Box<dyn Subject>, IndexError> {
    let settings = image.settings();
    let opened = |name: &str, nand: Box<dyn Nand>| -> Result<Boxed, IndexError> {
        let entry = registry::index(name).unwrap();
        let open = if how == How::Format { entry.format } else { entry.mount };
        open(nand, &settings)
    };
    Ok(match image.kind {
        Kind::Index => Box::new(Index(opened(&image.subject, nand)?)),
        Kind::Ftl => {
            let entry = store(&image.subject).unwrap();
            let open = if how == How::Format { entry.format } else { entry.mount };
            let store = open(nand, &settings)?;
            Box::new(Pages { page: vec![0; store.page_bytes()], keys: image.history().keys, store })
        }
        Kind::Spatial => {
            let entry = spatial(&image.subject).unwrap();
            Box::new(Places(match how {
                How::Format => entry.format::<f64, 2>(nand, &settings)?,
                How::Mount => entry.mount::<f64, 2>(nand, &settings)?,
            }))
        }
        Kind::Sensor => {
            let settings = SensorConfig {
                values: (0, 70_000),
                buckets: 4,
                entries: 78,
                horizon: 8,
                ..SensorConfig::default()
            };
            Box::new(Sensor(match how {
                How::Format => MicroHash::format(nand, &settings)?,
                How::Mount => MicroHash::mount(nand, &settings)?,
            }))
        }
        Kind::Variable => {
            let Shape::Varied(_, value) = image.shape else { unreachable!("{image:?}") };
            Box::new(Varied(Variable::new(opened(&image.subject, nand)?, value)?))
        }
        Kind::ValueLog => {
            let Shape::Varied(_, value) = image.shape else { unreachable!("{image:?}") };
            let [log, keys] = BlockRange::divide(nand, LOG_BLOCKS);
            let index = opened(&image.subject, Box::new(keys))?;
            Box::new(Logged(ValueLog::new(index, log, value)?))
        }
    })
}

type Boxed = Box<dyn OrderedIndex>;

fn first_broken(report: &nandex::CheckReport) -> Option<String> {
    (!report.is_sound()).then(|| format!("{report:?}"))
}

struct Index(Boxed);

impl Subject for Index {
    fn step(&mut self, op: &Op) -> Result<(), IndexError> {
        match op {
            Op::Put(key, value) => self.0.insert(key, value).map(drop),
            Op::Remove(key) => self.0.remove(key).map(drop),
            Op::Sync => self.0.sync(),
        }
    }

    fn scan(&mut self) -> Result<Records, IndexError> {
        let mut records = Records::new();
        self.0.range(Bound::Unbounded, Bound::Unbounded, Direction::Ascending, &mut |key, value| {
            assert!(records.last_key_value().is_none_or(|(last, _)| &last[..] < key), "keys do not ascend");
            records.insert(key.to_vec(), value.to_vec());
            ControlFlow::Continue(())
        })?;
        Ok(records)
    }

    fn look_up(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, IndexError> {
        let mut value = vec![0; usize::from(self.0.record().value_bytes)];
        Ok(self.0.get(key, &mut value)?.then_some(value))
    }

    fn close(&mut self) -> Result<(), IndexError> {
        self.0.close()
    }

    fn broken(&mut self) -> Result<Option<String>, IndexError> {
        Ok(first_broken(&check_with_look_ups(&mut self.0)?))
    }

    fn class(&self) -> nandex::Durability {
        self.0.durability()
    }
}

/// The pages of an FTL. A page of zeros counts as absent.
struct Pages {
    store: Box<dyn PageStore>,
    page: Vec<u8>,
    keys: u64,
}

fn lpn_of(key: &[u8]) -> Lpn {
    Lpn(u32::from_be_bytes(key.try_into().unwrap()))
}

impl Subject for Pages {
    fn step(&mut self, op: &Op) -> Result<(), IndexError> {
        match op {
            Op::Put(key, page) => self.store.write(lpn_of(key), Cause::Host, page)?,
            Op::Remove(key) => self.store.trim(lpn_of(key))?,
            Op::Sync => self.store.sync()?,
        }
        Ok(())
    }

    fn scan(&mut self) -> Result<Records, IndexError> {
        let mut records = Records::new();
        for number in 0..self.keys {
            let key = padded(number, 4);
            if let Some(page) = self.look_up(&key)? {
                records.insert(key, page);
            }
        }
        Ok(records)
    }

    fn look_up(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, IndexError> {
        self.store.read(lpn_of(key), Cause::Host, &mut self.page)?;
        Ok(self.page.iter().any(|byte| *byte != 0).then(|| self.page.clone()))
    }

    fn close(&mut self) -> Result<(), IndexError> {
        Ok(self.store.checkpoint()?)
    }

    fn broken(&mut self) -> Result<Option<String>, IndexError> {
        Ok(None)
    }

    fn class(&self) -> nandex::Durability {
        nandex::Durability::on(&*self.store, 1)
    }
}

/// A spatial index as records: each key is a place, and its value is the identifier there.
struct Places(Box<dyn SpatialIndex<f64, 2>>);

fn rect_of(key: &[u8]) -> Rect<f64, 2> {
    let place = |at: usize| f64::from(u32::from_be_bytes(key[at..at + 4].try_into().unwrap()));
    let [x, y] = [place(0), place(4)];
    Rect::new([x, y], [x + 5.0, y + 2.0]).unwrap()
}

impl Places {
    fn found(&mut self, key: &[u8]) -> Result<Option<u64>, IndexError> {
        let (rect, mut found) = (rect_of(key), None);
        self.0.window(&rect, Relation::Covers, &mut |entry, id| {
            if *entry == rect {
                assert!(found.replace(id).is_none(), "twice at one place");
            }
            ControlFlow::Continue(())
        })?;
        Ok(found)
    }
}

impl Subject for Places {
    fn step(&mut self, op: &Op) -> Result<(), IndexError> {
        match op {
            // A place that is taken keeps its identifier.
            Op::Put(key, _) if self.found(key)?.is_some() => Ok(()),
            Op::Put(key, value) => {
                self.0.insert(&rect_of(key), u64::from_be_bytes(value[..].try_into().unwrap()))
            }
            Op::Remove(key) => match self.found(key)? {
                Some(id) => self.0.remove(&rect_of(key), id).map(|was_there| assert!(was_there)),
                None => Ok(()),
            },
            Op::Sync => self.0.sync(),
        }
    }

    /// Finds all records by their places: the corners of a rectangle belong to one key only.
    fn scan(&mut self) -> Result<Records, IndexError> {
        let everywhere = Rect::new([-1.0, -1.0], [1e6, 1e6]).unwrap();
        let mut records = Records::new();
        self.0.window(&everywhere, Relation::Intersects, &mut |rect, id| {
            let corner = rect.low().map(|c| (c as u32).to_be_bytes());
            assert!(records.insert(corner.concat(), id.to_be_bytes().to_vec()).is_none(), "twice");
            ControlFlow::Continue(())
        })?;
        Ok(records)
    }

    fn look_up(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, IndexError> {
        Ok(self.found(key)?.map(|id| id.to_be_bytes().to_vec()))
    }

    fn close(&mut self) -> Result<(), IndexError> {
        self.0.close()
    }

    fn broken(&mut self) -> Result<Option<String>, IndexError> {
        Ok(first_broken(&self.0.check()?))
    }

    fn class(&self) -> nandex::Durability {
        self.0.durability()
    }
}

/// A log of readings: the time is the key, the measured value the value.
struct Sensor(MicroHash<Box<dyn Nand>>);

fn reading_of(key: &[u8], value: &[u8]) -> Reading {
    let time = u64::from_be_bytes(key.try_into().unwrap());
    Reading { time, value: i32::from(u16::from_be_bytes([value[0], value[1]])) }
}

impl Sensor {
    fn between(&mut self, from: u64, to: u64) -> Result<Records, IndexError> {
        let mut records = Records::new();
        self.0.by_time(from..=to, &mut |Reading { time, value }| {
            let value = (value as u16).to_be_bytes().to_vec();
            assert!(records.insert(time.to_be_bytes().to_vec(), value).is_none(), "twice");
            ControlFlow::Continue(())
        })?;
        Ok(records)
    }
}

impl Subject for Sensor {
    fn step(&mut self, op: &Op) -> Result<(), IndexError> {
        match op {
            Op::Put(key, value) => self.0.append(reading_of(key, value)),
            Op::Remove(_) => unreachable!("readings stay"),
            Op::Sync => self.0.sync(),
        }
    }

    fn scan(&mut self) -> Result<Records, IndexError> {
        self.between(0, u64::MAX)
    }

    /// By time, and by value: both have to lead there.
    fn look_up(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, IndexError> {
        let time = u64::from_be_bytes(key.try_into().unwrap());
        let Some((_, value)) = self.between(time, time)?.pop_first() else { return Ok(None) };
        let (reading, mut is_found) = (reading_of(key, &value), false);
        self.0.by_value(reading.value..=reading.value, &mut |found| {
            is_found |= found == reading;
            ControlFlow::Continue(())
        })?;
        assert!(is_found, "{reading:?} is not found by its value");
        Ok(Some(value))
    }

    fn close(&mut self) -> Result<(), IndexError> {
        self.0.close()
    }

    fn broken(&mut self) -> Result<Option<String>, IndexError> {
        Ok(first_broken(&self.0.check()?))
    }

    fn class(&self) -> nandex::Durability {
        nandex::Durability::EverySync
    }
}

/// Records of any length.
struct Varied(Variable<Boxed>);

impl Subject for Varied {
    fn step(&mut self, op: &Op) -> Result<(), IndexError> {
        match op {
            Op::Put(key, value) => self.0.put(key, value),
            Op::Remove(key) => self.0.remove(key).map(drop),
            Op::Sync => self.0.sync(),
        }
    }

    fn scan(&mut self) -> Result<Records, IndexError> {
        let mut records = Records::new();
        self.0.range(Bound::Unbounded, Bound::Unbounded, Direction::Ascending, &mut |key, value| {
            assert!(records.insert(key.to_vec(), value.to_vec()).is_none(), "twice");
            ControlFlow::Continue(())
        })?;
        Ok(records)
    }

    fn look_up(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, IndexError> {
        self.0.get(key)
    }

    fn close(&mut self) -> Result<(), IndexError> {
        self.0.close()
    }

    fn broken(&mut self) -> Result<Option<String>, IndexError> {
        Ok(first_broken(&self.0.check()?))
    }

    fn class(&self) -> nandex::Durability {
        self.0.durability()
    }
}

/// Long values in a log of their own.
struct Logged(ValueLog<Boxed, BlockRange<Shared<Box<dyn Nand>>>>);

impl Subject for Logged {
    fn step(&mut self, op: &Op) -> Result<(), IndexError> {
        match op {
            Op::Put(key, value) => self.0.put(key, value),
            Op::Remove(key) => self.0.remove(key).map(drop),
            Op::Sync => self.0.sync(),
        }
    }

    fn scan(&mut self) -> Result<Records, IndexError> {
        let mut records = Records::new();
        self.0.range(Bound::Unbounded, Bound::Unbounded, Direction::Ascending, &mut |key, value| {
            assert!(records.insert(key.to_vec(), value.to_vec()).is_none(), "twice");
            ControlFlow::Continue(())
        })?;
        Ok(records)
    }

    fn look_up(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, IndexError> {
        self.0.get(key)
    }

    fn close(&mut self) -> Result<(), IndexError> {
        self.0.close()
    }

    fn broken(&mut self) -> Result<Option<String>, IndexError> {
        Ok(first_broken(&self.0.check()?))
    }

    fn class(&self) -> nandex::Durability {
        self.0.durability()
    }
}

/// The records of the index below a [`ValueLog`] of the corpus.
pub(crate) const fn logged_record() -> nandex::RecordFormat {
    value_log::record(12, 20)
}
