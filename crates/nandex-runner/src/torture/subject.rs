//! The subject of a life: an index, a spatial index or an FTL, and the FTL below where one is named.

use crate::crash::Target;
use crate::error::LabError;
use crate::registry::{Holds, STORES, Stack, StoreEntry, subjects};
use crate::spatial::SPATIAL;
use crate::tbm;
use nandex::nand::Part;
use nandex::rng::split_mix;
use nandex_stacks::needed::ram_needed;
use nandex_stacks::options::Settings;
use std::fmt;
use std::str::FromStr;

/// A target that is tortured. Its text is its name; if the FTL below is not drawn from the seed, `@` and
/// the name of the FTL follow.
#[derive(Clone, Copy, Debug)]
pub struct Victim {
    /// The target in the registry.
    pub target: Target,
    /// The FTL below; `None` means that the seed chooses it, or raw NAND.
    pub ftl: Option<&'static StoreEntry>,
}

impl Victim {
    /// A number that follows from the name, so that no two victims live the same life.
    pub(super) fn fingerprint(&self) -> u64 {
        self.to_string().bytes().fold(1, |hash, byte| split_mix(hash ^ u64::from(byte)))
    }

    /// Whether the victim or its FTLs know an option.
    pub(super) fn knows(&self, name: &str, settings: &Settings) -> bool {
        let known = match self.target {
            Target::Index(entry) => entry.known(&settings.options),
            Target::Spatial(entry) => entry.options,
            Target::Store(entry) => entry.options,
        };
        known.iter().any(|option| option.name == name)
    }

    /// The least RAM with which an index runs with these settings; `None` for others, or if it cannot run.
    pub(super) fn least_ram(&self, part: &Part, settings: &Settings) -> Option<usize> {
        match self.target {
            Target::Index(entry) => ram_needed(entry, part, settings).ok(),
            _ => None,
        }
    }

    /// The settings of the victim on this FTL.
    pub(super) fn on(&self, ftl: Option<&'static StoreEntry>, settings: Settings) -> Settings {
        match (self.target, ftl) {
            (Target::Index(index), Some(_)) if index.holds == Holds::Readings => settings,
            (Target::Index(index), _) => Stack { index, ftl }.settings(settings),
            (Target::Spatial(_), Some(ftl)) => settings.with("ftl", ftl.name),
            _ => settings,
        }
    }
}

impl fmt::Display for Victim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ftl {
            Some(ftl) => write!(f, "{}@{}", self.target.name(), ftl.name),
            None => write!(f, "{}", self.target.name()),
        }
    }
}

impl FromStr for Victim {
    type Err = LabError;

    fn from_str(text: &str) -> Result<Victim, LabError> {
        let (name, ftl) = match text.split_once('@') {
            Some((name, ftl)) => (name, Some(crate::registry::store(ftl)?)),
            None => (text, None),
        };
        let index = subjects().find(|entry| entry.name == name).map(Target::Index);
        let spatial = || SPATIAL.iter().find(|entry| entry.name == name).map(Target::Spatial);
        let store = || tbm::find(name).ok().map(Target::Store);
        let target = index.or_else(spatial).or_else(store).ok_or_else(|| {
            let names = subjects().map(|entry| entry.name);
            let names = names.chain(SPATIAL.iter().map(|entry| entry.name));
            LabError::unknown("index or FTL", name, names.chain(STORES.iter().map(|entry| entry.name)))
        })?;
        Ok(Victim { target, ftl })
    }
}
