//! An index with bytes as keys and values.

use crate::errors::{InUseError, RequestError, StorageError, of_index, of_lab};
use crate::place::{Image, Place};
use nandex::nand::Cause;
use nandex::nand::sim::{CutWhen, PowerCut, TornModel};
use nandex::ordered::{Direction, Durability, RecordFormat, check_with_look_ups};
use nandex::{IndexError, OrderedIndex};
use nandex_lab::options::{Options, Settings};
use nandex_lab::registry::{self, IndexEntry};
use nandex_lab::{LabError, quantities};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde_json::json;
use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// An open index, and the chip or file below.
struct Session {
    index: Option<Box<dyn OrderedIndex>>,
    entry: &'static IndexEntry,
    settings: Settings,
    place: Place,
}

/// An index with bytes as keys and values; `nandex.Index` is what people use.
#[pyclass(frozen, module = "nandex._native")]
pub(crate) struct RawIndex {
    session: Mutex<Session>,
    /// Id of the process that opened the index, if only that process may use the chip below.
    owner: Option<u32>,
}

/// A record of an index.
type Record = (Vec<u8>, Vec<u8>);

impl Session {
    /// Opens the index. With `format` it is formatted, which replaces an existing one if `overwrite` allows.
    /// Without `format` an existing index is mounted, and a blank chip is formatted.
    fn open(&mut self, format: Option<bool>, overwrite: bool) -> PyResult<()> {
        self.index = None;
        self.place.take_again()?;
        let mut nand = self.place.nand()?;
        if format == Some(true) && !overwrite {
            self.place.require_empty(&mut *nand)?;
        }
        let open = if format == Some(true) { self.entry.format } else { self.entry.mount };
        let opened = match open(nand, &self.settings) {
            Err(error) if format.is_none() && error.is_blank() => {
                (self.entry.format)(self.place.nand()?, &self.settings)
            }
            other => other,
        };
        self.index = Some(opened.map_err(|error| of_index(&error))?);
        Ok(())
    }

    fn index(&mut self) -> PyResult<&mut Box<dyn OrderedIndex>> {
        self.index.as_mut().ok_or_else(|| StorageError::new_err("the index is closed"))
    }
}

impl RawIndex {
    /// The session; fails in a process forked from the one that opened it.
    fn session(&self) -> PyResult<MutexGuard<'_, Session>> {
        match self.owner {
            Some(owner) if owner != std::process::id() => Err(InUseError::new_err(format!(
                "process {owner} opened this index, and it cannot be used after a fork: open it anew"
            ))),
            _ => Ok(self.session.lock().unwrap_or_else(PoisonError::into_inner)),
        }
    }

    /// Work with the index, without the interpreter.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut dyn OrderedIndex) -> Result<T, IndexError> + Send,
    ) -> PyResult<T> {
        py.detach(|| {
            let mut session = self.session()?;
            work(&mut **session.index()?).map_err(|error| of_index(&error))
        })
    }
}

fn bound(key: &Option<(Vec<u8>, bool)>) -> Bound<&[u8]> {
    match key {
        None => Bound::Unbounded,
        Some((key, true)) => Bound::Included(key),
        Some((key, false)) => Bound::Excluded(key),
    }
}

fn word<T: Copy>(what: &'static str, name: &str, known: &[(&'static str, T)]) -> PyResult<T> {
    let found = known.iter().find(|(known, _)| *known == name);
    let unknown = || of_lab(LabError::unknown(what, name, known.iter().map(|(known, _)| *known)));
    found.map(|(_, value)| *value).ok_or_else(unknown)
}

/// Arguments of Python that tell where an index is opened.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Where {
    chip: Option<String>,
    blocks: Option<u32>,
    image: Option<PathBuf>,
    device: Option<PathBuf>,
    page_bytes: usize,
    format: Option<bool>,
    overwrite: bool,
}

impl Where {
    /// The place, whether to format (`None` if not said), and whether to overwrite.
    fn open(self) -> PyResult<(Place, Option<bool>, bool)> {
        let Where { chip, blocks, image, device, page_bytes, format, overwrite } = self;
        if let Some(device) = device {
            let place = Place::Device(device, page_bytes);
            return Ok((place, format, overwrite));
        }
        let image = match image {
            Some(path) => {
                let image = Image::lock(path.clone())?;
                let replaces = format == Some(true) && overwrite;
                if !image.is_empty() && !replaces {
                    if format == Some(true) {
                        let why = "something is there; allow it with overwrite=True";
                        return Err(RequestError::new_err(format!("{}: {why}", path.display())));
                    }
                    return Ok((Place::image(image)?, Some(false), false));
                }
                Some(image)
            }
            None => None,
        };
        if format == Some(false) {
            return Err(RequestError::new_err("there is nothing to mount: a new chip is formatted"));
        }
        Ok((Place::fresh(chip.as_deref().unwrap_or("mlc-64m"), blocks, image)?, Some(true), overwrite))
    }
}

#[pymethods]
impl RawIndex {
    /// Opens an index of this name. `place` says where, `record` the bytes of key and value.
    #[new]
    #[pyo3(signature = (name, place, record, ram, durability, options))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        name: &str,
        place: Where,
        record: (u8, u8),
        ram: Option<&str>,
        durability: &str,
        options: BTreeMap<String, String>,
    ) -> PyResult<RawIndex> {
        if record.0 == 0 {
            return Err(RequestError::new_err("a key has at least one byte"));
        }
        let entry = registry::index(name).map_err(|error| of_lab(error.into()))?;
        let mut set = Options::default();
        options.iter().for_each(|(name, value)| set.set(name, value));
        entry.check_options(&set).map_err(|error| of_lab(error.into()))?;
        let ram = ram.map(|text| {
            quantities::bytes(text).map_err(|why| of_lab(LabError::bad_option("ram", text, why)))
        });
        let class: Durability = *quantities::durability(durability).map_err(of_lab)?;
        let format = RecordFormat::new(record.0, record.1);
        let settings =
            Settings { record: format, ram_bytes: ram.transpose()?, durability: class, options: set };
        let (place, format, overwrite) = place.open()?;
        let owner = place.has_owner().then(std::process::id);
        let mut session = Session { index: None, entry, settings, place };
        py.detach(|| session.open(format, overwrite))?;
        Ok(RawIndex { session: Mutex::new(session), owner })
    }

    /// Looks a key up.
    fn get<'py>(&self, py: Python<'py>, key: &[u8]) -> PyResult<Option<pyo3::Bound<'py, PyBytes>>> {
        let found = self.with(py, |index| {
            let mut value = vec![0; usize::from(index.record().value_bytes)];
            Ok(index.get(key, &mut value)?.then_some(value))
        })?;
        Ok(found.map(|value| PyBytes::new(py, &value)))
    }

    /// Inserts a record or gives a key a new value; whether the key was there.
    fn insert(&self, py: Python<'_>, key: &[u8], value: &[u8]) -> PyResult<bool> {
        self.with(py, |index| index.insert(key, value))
    }

    /// Removes a key; whether it was there.
    fn remove(&self, py: Python<'_>, key: &[u8]) -> PyResult<bool> {
        self.with(py, |index| index.remove(key))
    }

    /// At most so many records between two keys, each a key and whether it belongs to the range.
    #[pyo3(signature = (low, high, descending, limit))]
    #[allow(clippy::too_many_arguments, reason = "called from Python, which names them")]
    fn range<'py>(
        &self,
        py: Python<'py>,
        low: Option<(Vec<u8>, bool)>,
        high: Option<(Vec<u8>, bool)>,
        descending: bool,
        limit: usize,
    ) -> PyResult<Vec<(pyo3::Bound<'py, PyBytes>, pyo3::Bound<'py, PyBytes>)>> {
        let direction = if descending { Direction::Descending } else { Direction::Ascending };
        let records = self.with(py, |index| {
            let mut records: Vec<Record> = Vec::new();
            index.range(bound(&low), bound(&high), direction, &mut |key, value| {
                records.push((key.to_vec(), value.to_vec()));
                if records.len() < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })?;
            Ok(records)
        })?;
        Ok(records.iter().map(|(key, value)| (PyBytes::new(py, key), PyBytes::new(py, value))).collect())
    }

    /// How many records there are, by walking over all.
    fn count(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |index| {
            let mut count = 0;
            index.range(Bound::Unbounded, Bound::Unbounded, Direction::Ascending, &mut |_, _| {
                count += 1;
                ControlFlow::Continue(())
            })?;
            Ok(count)
        })
    }

    /// Makes every change before survive a power cut.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |index| index.sync())
    }

    /// Syncs, leaves the chip so that the next mount is cheapest, writes the image; once is enough.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| {
            let mut session = self.session()?;
            let Some(mut index) = session.index.take() else { return Ok(()) };
            let closed = index.close().map_err(|error| of_index(&error));
            drop(index);
            let done = closed.and_then(|()| session.place.save());
            session.place.let_go();
            done
        })
    }

    /// Drops the index as it is and finds it again on the chip, whose power is switched on.
    fn mount(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| {
            let mut session = self.session()?;
            session.index = None;
            if let Place::Sim(chip, _) = &session.place {
                chip.lock().power_on();
            }
            session.open(Some(false), false)
        })
    }

    /// Switches the simulated chip off: every operation is refused.
    fn power_off(&self) -> PyResult<()> {
        self.session()?.place.sim()?.lock().power_off();
        Ok(())
    }

    /// Plans a power cut at the `after`-th change of the chip from now on, counted from 0.
    fn cut(&self, after: u64, when: &str, torn: &str, seed: u64) -> PyResult<()> {
        let moments = [("before", CutWhen::Before), ("inside", CutWhen::Inside), ("after", CutWhen::After)];
        let models = TornModel::ALL.map(|model| (model.name(), model));
        let (when, torn) = (word("moment", when, &moments)?, word("torn page", torn, &models)?);
        let session = self.session()?;
        let mut chip = session.place.sim()?.lock();
        let at_operation = chip.operations().saturating_add(after);
        chip.plan_power_cut(PowerCut { at_operation, when, torn, seed });
        Ok(())
    }

    /// Writes the image now, as the chip is.
    fn save(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.session()?.place.save())
    }

    /// The counters of the simulated chip so far, in JSON.
    fn costs(&self) -> PyResult<String> {
        let session = self.session()?;
        let chip = session.place.sim()?.lock();
        let counters = chip.counters();
        let causes: serde_json::Map<String, serde_json::Value> = Cause::COUNTED
            .iter()
            .enumerate()
            .map(|(i, cause)| {
                let counts = json!({
                    "page_reads": counters.page_reads[i],
                    "page_programs": counters.page_programs[i],
                    "block_erases": counters.block_erases[i],
                });
                (cause.name().to_string(), counts)
            })
            .collect();
        Ok(json!({
            "page_reads": counters.page_reads_total(),
            "page_programs": counters.page_programs_total(),
            "block_erases": counters.block_erases_total(),
            "flash_time_ns": chip.time().0,
            "energy_nj": chip.energy_pj() / 1000,
            "wear_max_erases": chip.wear().iter().max(),
            "changes": chip.operations(),
            "causes": causes,
        })
        .to_string())
    }

    /// Figures of the index, in JSON.
    fn stats(&self, py: Python<'_>) -> PyResult<String> {
        self.with(py, |index| {
            let stats = index.stats();
            let metrics: serde_json::Map<String, serde_json::Value> =
                stats.metrics.iter().map(|metric| (metric.name.to_string(), metric.value.into())).collect();
            Ok(json!({
                "height_levels": stats.height,
                "live_pages": stats.live_pages,
                "cache_hits": stats.cache_hits,
                "cache_misses": stats.cache_misses,
                "collections": stats.collections,
                "ram_bytes": index.ram_bytes(),
                "durability": index.durability().name(),
                "metrics": metrics,
            })
            .to_string())
        })
    }

    /// Walks over the whole index, checks its invariants and looks each record up; the broken ones in words.
    fn check(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.with(py, |index| {
            let report = check_with_look_ups(index)?;
            Ok(report.violations.iter().map(ToString::to_string).collect())
        })
    }

    /// Whether it was closed.
    #[getter]
    fn closed(&self) -> PyResult<bool> {
        Ok(self.session()?.index.is_none())
    }
}
