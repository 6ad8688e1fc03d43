//! The list of spatial indexes, and how each is made and found again on a chip or a disk, in two and three
//! dimensions.
//!
//! An entry opens an index for each type of coordinates and number of dimensions of [`Space`]; all of it
//! follows from one `SpatialTree` (`trees.rs`), so a new index is a line here.

use super::layers::{Below, EfindFramework, FastFramework, Rftl};
use super::trees::{self, ForTree, Hilbert, MrTree, RStar, RTree, SpatialTree};
use crate::indexes::{Ground, Open};
use crate::names::UnknownName;
use crate::names::{self, OptionInfo};
pub use crate::options::number::Number;
use crate::options::{Options, Settings, sharing};
use nandex::spatial::SpatialIndex;
use nandex::{IndexError, Nand};

/// Makes a spatial index, or mounts it.
pub type OpenSpatial<C, const D: usize> =
    fn(Ground, &Settings, Open) -> Result<Box<dyn SpatialIndex<C, D>>, IndexError>;

/// A spatial index that the lab can run.
#[derive(Clone, Copy, Debug)]
pub struct SpatialEntry {
    /// The index's name on the command line and in results.
    pub name: &'static str,
    /// The index in one line, for lists.
    pub summary: &'static str,
    /// The options of the index, with those of stores and caches.
    pub options: &'static [OptionInfo],
    /// Whether reading a node reads one page. On a layer it may read several pages or none.
    pub nodes_are_pages: bool,
    plane_i32: OpenSpatial<i32, 2>,
    plane_f64: OpenSpatial<f64, 2>,
    cube_i32: OpenSpatial<i32, 3>,
    cube_f64: OpenSpatial<f64, 3>,
}

list! {
    /// All spatial indexes.
    SPATIAL: SpatialEntry = ENTRIES
}

const ENTRIES: &[SpatialEntry] = &[
    entry::<RTree>(
        "r-tree",
        "R-tree (Guttman 1984): the child whose box grows least; linear or quadratic split",
    ),
    entry::<RStar>(
        "r-star",
        "R*-tree (Beckmann et al. 1990): overlaps and margins, outermost entries inserted again",
    ),
    entry::<MrTree>(
        "mr-tree",
        "MR-tree (Kim and Yun 2004): full leaves become parents; leaves on two neighbouring levels",
    ),
    entry::<ForTree>(
        "for-tree",
        "FOR-tree (Jin et al. 2015): full nodes go on in overflow nodes and are split when read often",
    ),
    entry::<Hilbert>(
        "hilbert",
        "Hilbert R-tree (Kamel and Faloutsos 1994): entries in the order of the curve, 2-to-3 splits",
    ),
    entry::<Rftl>(
        "rftl",
        "RFTL below a tree (Wu, Chang and Kuo 2003): changes of many nodes share pages, a table finds them",
    ),
    entry::<Below<FastFramework>>(
        "fast-framework",
        "FAST below a tree (Sarwat et al. 2011): changes wait in RAM with a log, units of nodes are flushed",
    ),
    entry::<Below<EfindFramework>>(
        "efind",
        "eFIND below a tree (Carniel et al. 2017): as FAST, with a read buffer and the order of the flushes",
    ),
];

const fn entry<T: SpatialTree>(name: &'static str, summary: &'static str) -> SpatialEntry {
    SpatialEntry {
        name,
        summary,
        options: T::OPTIONS,
        nodes_are_pages: T::NODES_ARE_PAGES,
        plane_i32: trees::open::<T, i32, 2>,
        plane_f64: trees::open::<T, f64, 2>,
        cube_i32: trees::open::<T, i32, 3>,
        cube_f64: trees::open::<T, f64, 3>,
    }
}

/// Coordinates in a number of dimensions that all spatial indexes support.
pub trait Space<const D: usize>: Number {
    /// The function of an entry that opens an index of this space.
    fn opener(entry: &SpatialEntry) -> OpenSpatial<Self, D>;
}

impl Space<2> for i32 {
    fn opener(entry: &SpatialEntry) -> OpenSpatial<i32, 2> {
        entry.plane_i32
    }
}

impl Space<3> for i32 {
    fn opener(entry: &SpatialEntry) -> OpenSpatial<i32, 3> {
        entry.cube_i32
    }
}

impl Space<2> for f64 {
    fn opener(entry: &SpatialEntry) -> OpenSpatial<f64, 2> {
        entry.plane_f64
    }
}

impl Space<3> for f64 {
    fn opener(entry: &SpatialEntry) -> OpenSpatial<f64, 3> {
        entry.cube_f64
    }
}

impl SpatialEntry {
    /// Makes an empty index on a chip whose contents are ignored.
    pub fn format<C: Space<D>, const D: usize>(
        &self,
        nand: Box<dyn Nand>,
        settings: &Settings,
    ) -> Result<Box<dyn SpatialIndex<C, D>>, IndexError> {
        C::opener(self)(Ground::Chip(nand), settings, Open::Format)
    }

    /// Mounts the index from a chip that holds one.
    pub fn mount<C: Space<D>, const D: usize>(
        &self,
        nand: Box<dyn Nand>,
        settings: &Settings,
    ) -> Result<Box<dyn SpatialIndex<C, D>>, IndexError> {
        C::opener(self)(Ground::Chip(nand), settings, Open::Mount)
    }

    /// Whether the index knows an option.
    pub fn knows(&self, name: &str) -> bool {
        self.options.iter().any(|option| option.name == name)
    }

    /// Refuses options that the index does not know.
    pub fn check_options(&self, options: &Options) -> Result<(), UnknownName> {
        sharing::resolve(self.options, options).map(drop)
    }
}

/// The spatial index with this name.
pub fn spatial(name: &str) -> Result<&'static SpatialEntry, UnknownName> {
    names::find("spatial index", name, SPATIAL, |e| e.name)
}

/// The storage below an index with these options: the FTL and the page cache, joined by "+".
pub fn storage(options: &Options) -> String {
    let text = |name: &str, default: &'static str| options.text(name).unwrap_or(default).to_string();
    format!("{}+{}", text("ftl", "page-map"), text("cache", "lru"))
}
