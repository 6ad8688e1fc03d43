//! One cell, as plain data.

use super::hash::Hash;
use super::outcome::CELL_SCHEMA;
use crate::bundle::Bundle;
use crate::compare::{Class, Comparison, Ordered, Source, TRACE_OPTIONS};
use crate::experiment::text::texts;
use crate::names::OptionInfo;
use crate::quantities;
use crate::registry::{self, IndexEntry};
use crate::runner::RunOptions;
use crate::trace::TraceOptions;
use crate::workload::workload;
use crate::{LabError, chip, input};
use nandex::ordered::RecordFormat;
use nandex_stacks::options::{Options, Settings};
use serde::de::{Deserializer, Error, Visitor};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// A request: one index on one chip over one workload or trace with one seed. All that decides the results is
/// in it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// The index, by its name in the registry.
    pub index: String,
    /// The chip: a part of the catalogue or a chip file.
    #[serde(default = "usual_chip")]
    pub chip: String,
    /// The generator of operations. Alternatively a trace is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    /// A trace: a file, or the name of a bundled one. Without trace and workload it is the bundled
    /// `kernel_compile`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// Number of operations in the measured part of a generator, or largest number taken from a trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ops: Option<u64>,
    /// Bytes of a key and of a value, such as `4/4`.
    #[serde(default = "usual_record")]
    pub record: String,
    /// RAM in bytes, tables included; text may have a unit, such as `64KiB`. Absent means no limit and no
    /// cache.
    #[serde(default, deserialize_with = "bytes_or_text", skip_serializing_if = "Option::is_none")]
    pub ram: Option<u64>,
    /// The durability class that the index must promise.
    #[serde(default = "usual_durability")]
    pub durability: String,
    /// Number of changes between two syncs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sync_every: Option<u64>,
    /// The FTL below the index, short for the option `ftl`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ftl: Option<String>,
    /// The seed of the workload. A trace does not use it.
    #[serde(default = "usual_seed")]
    pub seed: u64,
    /// Options of the workload and of the index.
    #[serde(default, deserialize_with = "texts", skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
}

pub(super) fn usual_chip() -> String {
    String::from("mlc-64m")
}

pub(super) fn usual_record() -> String {
    String::from("4/4")
}

pub(super) fn usual_durability() -> String {
    String::from("every-operation")
}

const fn usual_seed() -> u64 {
    1
}

struct BytesOrText;

impl Visitor<'_> for BytesOrText {
    type Value = Option<u64>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bytes, or text such as 64KiB")
    }

    fn visit_unit<E: Error>(self) -> Result<Option<u64>, E> {
        Ok(None)
    }

    fn visit_u64<E: Error>(self, bytes: u64) -> Result<Option<u64>, E> {
        Ok(Some(bytes))
    }

    fn visit_i64<E: Error>(self, bytes: i64) -> Result<Option<u64>, E> {
        u64::try_from(bytes).map(Some).map_err(|_| E::custom(format!("{bytes} is no number of bytes")))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Option<u64>, E> {
        quantities::bytes(text).map(|bytes| Some(bytes as u64)).map_err(E::custom)
    }
}

pub(super) fn bytes_or_text<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    from.deserialize_any(BytesOrText)
}

impl Request {
    /// A request for an index with defaults: the bundled trace, every operation durable, no cache.
    pub fn new(index: &str) -> Request {
        Request {
            index: index.to_string(),
            chip: usual_chip(),
            workload: None,
            trace: None,
            ops: None,
            record: usual_record(),
            ram: None,
            durability: usual_durability(),
            sync_every: None,
            ftl: None,
            seed: usual_seed(),
            options: BTreeMap::new(),
        }
    }

    /// Parses a request from JSON.
    pub fn from_json(json: &str) -> Result<Request, LabError> {
        let refused = |error: serde_json::Error| LabError::bad_option("request", json, error.to_string());
        serde_json::from_str(json).map_err(refused)
    }

    /// Comparison that runs this request alone, on one thread.
    pub fn comparison(&self) -> Result<Comparison<Ordered>, LabError> {
        let mut options = self.all_options();
        let record = self.record_format()?;
        let durability = *quantities::durability(&self.durability)?;
        let ram_bytes = self.ram.map(|bytes| bytes as usize);
        let source = self.source(&mut options)?;
        Ok(Comparison {
            part: chip::find(&self.chip)?,
            contest: Ordered {
                source,
                indexes: vec![self.entry()?],
                suits_chip: false,
                loads_at_once: false,
            },
            classes: vec![Class { durability, sync_every: self.sync_every }],
            settings: Settings { options, ram_bytes, durability, ..Settings::new(record) },
            seeds: vec![self.seed],
            run: RunOptions { sync_at_end: true, ..RunOptions::default() },
            threads: 1,
            command: String::new(),
        })
    }

    pub(super) fn entry(&self) -> Result<&'static IndexEntry, LabError> {
        Ok(registry::subject(&self.index)?)
    }

    fn record_format(&self) -> Result<RecordFormat, LabError> {
        quantities::record(&self.record).map_err(|why| LabError::bad_option("record", &self.record, why))
    }

    /// Options of the request, including the FTL.
    fn all_options(&self) -> Options {
        let mut options = Options::default();
        self.options.iter().for_each(|(name, value)| options.set(name, value));
        self.ftl.iter().for_each(|ftl| options.set("ftl", ftl));
        options
    }

    fn source(&self, options: &mut Options) -> Result<Source, LabError> {
        let trace = TraceOptions { operations: self.ops, ..TraceOptions::default() };
        let Some(name) = &self.workload else {
            let name = self.trace.as_deref().unwrap_or("kernel_compile");
            let bundle = Bundle::named(name).filter(|_| !Path::new(name).exists());
            return Ok(bundle.map_or_else(
                || Source::Trace(PathBuf::from(name), trace.clone()),
                |bundle| Source::Bundled(bundle, trace.clone()),
            ));
        };
        if self.trace.is_some() {
            return Err(LabError::bad_option("trace", name, "cannot be a workload at the same time"));
        }
        let entry = workload(name)?;
        if let Some(ops) = self.ops {
            if !entry.options.iter().any(|option| option.name == "operations") {
                let reason = format!("cannot be set for the workload {name}");
                return Err(LabError::bad_option("ops", &ops.to_string(), reason));
            }
            options.set("operations", &ops.to_string());
        }
        Ok(Source::Generator(entry))
    }

    pub(super) fn workload_options(&self) -> Result<&'static [OptionInfo], LabError> {
        self.workload.as_ref().map_or(Ok(TRACE_OPTIONS), |name| Ok(workload(name)?.options))
    }

    /// The request without parts that have no effect: options unknown to index and workload, an FTL below
    /// an index on raw NAND, the seed of a trace. Requests that run alike become equal.
    pub(super) fn only_what_counts(mut self) -> Result<Request, LabError> {
        let known = [self.entry()?.known(&self.all_options()), self.workload_options()?];
        let knows = |name: &str| known.iter().any(|options| options.iter().any(|option| option.name == name));
        self.options.retain(|name, _| knows(name));
        if !knows("ftl") {
            self.ftl = None;
        }
        if self.workload.is_none() {
            self.seed = 0;
        }
        Ok(self)
    }

    /// The hash, in hexadecimal, of everything that influences the results, contents of files included.
    pub fn key(&self) -> Result<String, LabError> {
        let setup = serde_json::json!({
            "schema": CELL_SCHEMA,
            "version": env!("CARGO_PKG_VERSION"),
            "request": self,
            "files": self.file_hashes()?,
        });
        Ok(Hash::of(setup.to_string().as_bytes()).hex())
    }

    /// Hashes of the files that the request names, so that a changed file gives another cell.
    fn file_hashes(&self) -> Result<Vec<String>, LabError> {
        let init = |path: &Path| crate::trace::init_of(path);
        let mut files = Vec::new();
        files.extend(Some(PathBuf::from(&self.chip)).filter(|path| path.is_file()));
        let trace = self.trace.as_ref().map(PathBuf::from).filter(|path| path.is_file());
        files.extend(trace.as_deref().and_then(init));
        files.extend(trace);
        files.iter().map(|file| hash_of_file(file)).collect()
    }
}

/// The hash of a file's contents. It is read again only if its size or time changes.
fn hash_of_file(file: &Path) -> Result<String, LabError> {
    type Known = BTreeMap<PathBuf, ((u64, Option<std::time::SystemTime>), String)>;
    static KNOWN: Mutex<Known> = Mutex::new(BTreeMap::new());
    let metadata = file.metadata().map_err(|error| LabError::io(file.display(), error))?;
    let stamp = (metadata.len(), metadata.modified().ok());
    let mut known = KNOWN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some((_, hash)) = known.get(file).filter(|(then, _)| *then == stamp) {
        return Ok(hash.clone());
    }
    let hash = Hash::of(&input::read(file, u64::MAX)?).hex();
    known.insert(file.to_path_buf(), (stamp, hash.clone()));
    Ok(hash)
}
