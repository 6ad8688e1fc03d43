//! The subject of a run: a spatial index, or the B+-tree with a key for each entry.

use super::model::Answer;
use super::registry::{Space, SpatialEntry};
use super::runner::{Contestant, SpatialJob};
use crate::registry::{Ground, Open, bplus_on};
use nandex::index::Fill;
use nandex::ordered::{Durability, IndexStats, RecordFormat};
use nandex::rng::split_mix;
use nandex::spatial::{Packing, Rect, Relation, SpatialIndex};
use nandex::{CheckReport, IndexError, OrderedIndex};
use nandex_stacks::names::UnknownName;
use nandex_stacks::options::Settings;
use nandex_stacks::spatial::trees::{DOMAIN, text_of};
use std::ops::ControlFlow;

pub(super) enum Opened<C, const D: usize> {
    Spatial(Box<dyn SpatialIndex<C, D>>),
    Keys(Box<dyn OrderedIndex>),
}

/// The key of an entry by its number. The mapping is one to one and scatters the entries over all keys.
fn key_of(id: u64) -> [u8; 8] {
    split_mix(id).to_be_bytes()
}

/// The record sizes of the B+-tree.
const KEYED: RecordFormat = RecordFormat::new(8, 8);

impl<C: Space<D>, const D: usize> Opened<C, D> {
    pub(super) fn stats(&self) -> IndexStats {
        match self {
            Opened::Spatial(index) => index.stats(),
            Opened::Keys(index) => index.stats(),
        }
    }

    pub(super) fn durability(&self) -> Durability {
        match self {
            Opened::Spatial(index) => index.durability(),
            Opened::Keys(index) => index.durability(),
        }
    }

    pub(super) fn ram_bytes(&self) -> usize {
        match self {
            Opened::Spatial(index) => index.ram_bytes(),
            Opened::Keys(index) => index.ram_bytes(),
        }
    }

    pub(super) fn sync(&mut self) -> Result<(), IndexError> {
        match self {
            Opened::Spatial(index) => index.sync(),
            Opened::Keys(index) => index.sync(),
        }
    }

    pub(super) fn check(&mut self) -> Result<CheckReport, IndexError> {
        match self {
            Opened::Spatial(index) => index.check(),
            Opened::Keys(index) => index.check(),
        }
    }

    pub(super) fn insert(&mut self, (rect, id): &(Rect<C, D>, u64)) -> Result<(), IndexError> {
        match self {
            Opened::Spatial(index) => index.insert(rect, *id),
            Opened::Keys(index) => index.insert(&key_of(*id), &id.to_le_bytes()).map(drop),
        }
    }

    pub(super) fn remove(&mut self, (rect, id): &(Rect<C, D>, u64)) -> Result<bool, IndexError> {
        match self {
            Opened::Spatial(index) => index.remove(rect, *id),
            Opened::Keys(index) => index.remove(&key_of(*id)),
        }
    }

    /// Searches an entry; the search ends when the entry is found.
    pub(super) fn search(&mut self, (rect, id): &(Rect<C, D>, u64)) -> Result<bool, IndexError> {
        match self {
            Opened::Spatial(index) => {
                let mut is_found = false;
                index.window(rect, Relation::Covers, &mut |found, number| {
                    is_found = number == *id && found == rect;
                    if is_found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                })?;
                Ok(is_found)
            }
            Opened::Keys(index) => {
                let mut value = [0; 8];
                Ok(index.get(&key_of(*id), &mut value)? && value == id.to_le_bytes())
            }
        }
    }

    /// Loads many entries at once, packed in the way of the index.
    pub(super) fn load(&mut self, entries: &[(Rect<C, D>, u64)]) -> Result<u64, IndexError> {
        match self {
            Opened::Spatial(index) => load(index.as_mut(), entries),
            Opened::Keys(index) => {
                let mut records: Vec<([u8; 8], [u8; 8])> =
                    entries.iter().map(|(_, id)| (key_of(*id), id.to_le_bytes())).collect();
                records.sort_unstable();
                index.load(&mut records.iter().map(|(key, value)| (&key[..], &value[..])))
            }
        }
    }

    pub(super) fn spatial(&mut self) -> Result<&mut dyn SpatialIndex<C, D>, IndexError> {
        match self {
            Opened::Spatial(index) => Ok(index.as_mut()),
            Opened::Keys(_) => Err(IndexError::Unsupported("keys have no windows and no neighbours".into())),
        }
    }
}

pub(super) fn open_subject<C: Space<D>, const D: usize>(
    job: &SpatialJob<'_, C, D>,
    ground: Ground,
) -> Result<Opened<C, D>, IndexError> {
    let refused = |error: UnknownName| IndexError::Unsupported(error.to_string().into());
    match job.contestant {
        Contestant::Spatial(entry) => {
            entry.check_options(&job.settings.options).map_err(refused)?;
            let settings = with_domain(entry, &job.settings, job.workload.extent().as_ref());
            Ok(Opened::Spatial(C::opener(entry)(ground, &settings, Open::Format)?))
        }
        Contestant::BPlus(entry) => {
            entry.check_options(&job.settings.options).map_err(refused)?;
            let settings = Settings { record: KEYED, ..job.settings.clone() };
            Ok(Opened::Keys(bplus_on(ground, &settings, Open::Format)?))
        }
    }
}

/// Adds the extent of the data to the settings of an index that needs it for its curve, unless it is set
/// already.
pub fn with_domain<C: Space<D>, const D: usize>(
    entry: &SpatialEntry,
    settings: &Settings,
    extent: Option<&Rect<C, D>>,
) -> Settings {
    match extent {
        Some(extent) if entry.knows(DOMAIN) && settings.options.text(DOMAIN).is_none() => {
            settings.clone().with(DOMAIN, text_of(extent))
        }
        _ => settings.clone(),
    }
}

/// Loads many entries at once. They are tiled, or ordered along the curve if the index takes no other
/// order.
pub(super) fn load<C: Space<D>, const D: usize>(
    index: &mut dyn SpatialIndex<C, D>,
    entries: &[(Rect<C, D>, u64)],
) -> Result<u64, IndexError> {
    match index.load(&mut entries.iter().copied(), Packing::SortTileRecursive, Fill::FULL) {
        Err(IndexError::Unsupported(_)) => {
            index.load(&mut entries.iter().copied(), Packing::Hilbert, Fill::FULL)
        }
        loaded => loaded,
    }
}

/// Finds the entries that are in the relation to the window.
pub fn found_in<C: Space<D>, const D: usize>(
    index: &mut dyn SpatialIndex<C, D>,
    window: &Rect<C, D>,
    relation: Relation,
) -> Result<Answer<C, D>, IndexError> {
    let mut found = Vec::new();
    index.window(window, relation, &mut |rect, id| {
        found.push((*rect, id));
        ControlFlow::Continue(())
    })?;
    Ok(found)
}

/// Finds the `count` entries nearest to a point.
pub fn found_near<C: Space<D>, const D: usize>(
    index: &mut dyn SpatialIndex<C, D>,
    point: &[C; D],
    count: u32,
) -> Result<Answer<C, D>, IndexError> {
    let mut found = Vec::new();
    index.nearest(point, count as usize, &mut |rect, id, _| {
        found.push((*rect, id));
        ControlFlow::Continue(())
    })?;
    Ok(found)
}
