//! What ordered and spatial indexes have in common: durability classes, what they tell of themselves, and options by name.

use crate::check::IndexError;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// What an index promises about a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Durability {
    /// Nothing: mounting after a cut reports it instead of returning wrong data.
    None,
    /// The state at the last sync, or a later one that is a prefix of the history.
    EverySync,
    /// Acknowledged means durable.
    EveryOperation,
}

impl Durability {
    /// The name used in results.
    pub const fn name(self) -> &'static str {
        match self {
            Durability::None => "none",
            Durability::EverySync => "every sync",
            Durability::EveryOperation => "every operation",
        }
    }
}

/// One figure that an index tells about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Its name, in snake case, unit last.
    pub name: &'static str,
    /// Its value.
    pub value: u64,
}

/// What an index tells about itself without touching the medium.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexStats {
    /// Levels from leaf to root; a tree of one leaf has height 1.
    pub height: u32,
    /// Pages of the medium that hold live data.
    pub live_pages: u64,
    /// Cache hits, page granular; 0 where there is no cache.
    pub cache_hits: u64,
    /// Cache misses.
    pub cache_misses: u64,
    /// Garbage collections: victim blocks reclaimed.
    pub collections: u64,
    /// Figures of this index alone.
    pub metrics: Vec<Metric>,
}

impl IndexStats {
    /// Counts more under a name that is there already.
    pub(crate) fn count_more(&mut self, name: &str, more: u64) {
        for metric in self.metrics.iter_mut().filter(|metric| metric.name == name) {
            metric.value += more;
        }
    }
}

/// Options by name, as given with `--set name=value`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    values: BTreeMap<String, String>,
}

impl Options {
    /// Sets an option.
    pub fn set(&mut self, name: &str, value: &str) {
        self.values.insert(name.to_string(), value.to_string());
    }

    /// The text of an option, if set.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// A whole number, if set.
    pub fn number(&self, name: &str) -> Result<Option<u64>, IndexError> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let parsed = text.replace('_', "").parse();
        parsed
            .map(Some)
            .map_err(|_| IndexError::Unsupported(format!("option {name}: '{text}' is no whole number")))
    }

    /// One of some words; the first is the default.
    pub fn choice(&self, name: &str, words: &[&'static str]) -> Result<&'static str, IndexError> {
        let Some(text) = self.text(name) else { return Ok(words[0]) };
        words.iter().find(|w| **w == text).copied().ok_or_else(|| {
            IndexError::Unsupported(format!("option {name}: '{text}' is none of {}", words.join(", ")))
        })
    }

    /// Every option set, in name order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.values.iter().map(|(k, v)| (k.as_str(), v.as_str()))
    }
}

/// How full a bulk load leaves the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fill {
    percent: u8,
}

impl Fill {
    /// Full nodes: the fewest pages, for records that rarely change.
    pub const FULL: Fill = Fill { percent: 100 };

    /// Nodes full to 50 to 100 percent, which leaves the rest for insertions to come.
    pub fn percent(percent: u8) -> Result<Fill, IndexError> {
        match percent {
            50..=100 => Ok(Fill { percent }),
            _ => Err(IndexError::Unsupported(format!("nodes {percent} % full: 50 to 100 are possible"))),
        }
    }

    /// Entries of a node filled like this.
    pub fn of(self, capacity: usize) -> usize {
        (capacity * usize::from(self.percent) / 100).max(capacity.div_ceil(2))
    }
}
