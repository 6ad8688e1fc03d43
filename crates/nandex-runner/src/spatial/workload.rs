//! Spatial workloads: operations on entries, in named phases, made only from data and a seed.
//!
//! A workload has a table of entries (rectangles with numbers). Its operations refer to entries by their
//! index in the table, or are queries. The same data, options and seed give the same operations on every
//! machine.

use super::data::Dataset;
use super::registry::Number;
use crate::error::LabError;
use crate::names::{OptionInfo, option};
use nandex::rng::{Rng, split_mix};
use nandex::spatial::{Rect, Relation};
use nandex_stacks::options::Options;
use nandex_stacks::options::whole_number;
use std::collections::BTreeMap;

/// An operation of a spatial workload. Entries are given by their place in the table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SpatialOp<C, const D: usize> {
    /// Inserts an entry that is absent.
    Insert(u32),
    /// Removes an entry.
    Remove(u32),
    /// Searches an entry, which may be absent, by its rectangle and number.
    Search(u32),
    /// Finds the entries that are in a relation to a window.
    Window(Rect<C, D>, Relation),
    /// Finds a number of entries nearest to a point.
    Nearest([C; D], u32),
    /// Makes all earlier operations durable.
    Sync,
}

impl<C, const D: usize> SpatialOp<C, D> {
    /// The operation's name in results.
    pub const fn name(&self) -> &'static str {
        match self {
            SpatialOp::Insert(_) => "insert",
            SpatialOp::Remove(_) => "remove",
            SpatialOp::Search(_) => "search",
            SpatialOp::Window(..) => "window",
            SpatialOp::Nearest(..) => "nearest",
            SpatialOp::Sync => "sync",
        }
    }

    /// Whether the operation changes the entries of the index.
    pub const fn changes(&self) -> bool {
        matches!(self, SpatialOp::Insert(_) | SpatialOp::Remove(_))
    }
}

/// A phase of a workload, with figures of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct SpatialPhase<C, const D: usize> {
    /// The phase's name in results.
    pub name: String,
    /// Whether the phase counts in the totals. A load usually does not.
    pub measured: bool,
    /// Whether the phase loads an empty index: all operations are insertions, and the index gets them at
    /// once to pack them its own way.
    pub is_bulk: bool,
    /// The operations in order.
    pub ops: Vec<SpatialOp<C, D>>,
}

/// A spatial workload: a table of entries, and operations on them.
#[derive(Clone, Debug, PartialEq)]
pub struct SpatialWorkload<C, const D: usize> {
    /// The workload's name in results.
    pub name: String,
    /// The seed that the workload was made from.
    pub seed: u64,
    /// All options with the values used.
    pub options: BTreeMap<String, String>,
    /// The entries, each with a number of its own.
    pub entries: Vec<(Rect<C, D>, u64)>,
    /// The phases, in the order in which they run.
    pub phases: Vec<SpatialPhase<C, D>>,
}

impl<C: Number, const D: usize> SpatialWorkload<C, D> {
    /// Number of operations of all phases.
    pub fn operations(&self) -> u64 {
        self.phases.iter().map(|phase| phase.ops.len() as u64).sum()
    }

    /// The box around all entries; `None` without entries.
    pub fn extent(&self) -> Option<Rect<C, D>> {
        Rect::around(self.entries.iter().map(|(rect, _)| rect))
    }
}

/// The options of the general workload.
pub const OPTIONS: &[OptionInfo] = &[
    option("load", "insert", "how the entries come in: insert, one by one; bulk, at once and packed"),
    option("queries", "1000", "windows, and as many searches for the nearest"),
    option("changes", "1000", "removals, and as many insertions of entries kept back"),
    option("relation", "intersects", "what a window finds: intersects, within, covers"),
    option("order", "shuffled", "the order in which entries come in: shuffled, or file, as the data have it"),
];

/// The sizes of the queries of the general workload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Queries {
    /// Area of a window as a share of the area of the data's extent.
    pub window: f64,
    /// Number of entries that a nearest search asks for.
    pub nearest: u32,
}

/// Makes the general workload over a dataset: load, windows, nearest searches, removals, insertions.
///
/// A window has the given share of the extent's area and the shape of the extent. Windows and nearest
/// searches are centred on entries drawn at random, so that they lie where the data are. A tenth of the
/// entries, but at most `changes`, is kept back for the insertions at the end.
pub fn general<C: Number, const D: usize>(
    data: &Dataset<C, D>,
    queries: Queries,
    seed: u64,
    set: &Options,
) -> Result<SpatialWorkload<C, D>, LabError> {
    let mut options = nandex_stacks::options::sharing::resolve(OPTIONS, set)?;
    let plan = Plan::of(&options)?;
    let entries = data.entries.clone();
    let Some(extent) = Rect::around(entries.iter().map(|(rect, _)| rect)) else {
        return Err(LabError::bad_option("--places", &data.name, "has no entries"));
    };
    let rng = |purpose: u64| Rng::new(seed ^ split_mix(purpose));
    let mut order: Vec<u32> = (0..entries.len() as u32).collect();
    if plan.is_shuffled {
        rng(0).shuffle(&mut order);
    }
    let kept_back = plan.changes.min(order.len() / 10);
    let (load, later) = order.split_at(order.len() - kept_back);
    let mut draw = rng(1);
    let mut centre = || entries[load[draw.below(load.len() as u64) as usize] as usize].0.centre();
    let windows = (0..plan.queries)
        .map(|_| Ok(SpatialOp::Window(window_around(centre(), &extent, queries.window)?, plan.relation)))
        .collect::<Result<Vec<_>, LabError>>()?;
    let nearest = (0..plan.queries).map(|_| SpatialOp::Nearest(centre(), queries.nearest)).collect();
    let mut gone = load.to_vec();
    rng(2).shuffle(&mut gone);
    gone.truncate(plan.changes);
    let phase =
        |name: &str, measured, is_bulk, ops| SpatialPhase { name: name.into(), measured, is_bulk, ops };
    let phases = vec![
        phase("load", false, plan.is_bulk, load.iter().map(|&i| SpatialOp::Insert(i)).collect()),
        phase("window", true, false, windows),
        phase("nearest", true, false, nearest),
        phase("remove", true, false, gone.iter().map(|&i| SpatialOp::Remove(i)).collect()),
        phase("insert", true, false, later.iter().map(|&i| SpatialOp::Insert(i)).collect()),
    ];
    options.insert("window".into(), format!("{}%", queries.window * 100.0));
    options.insert("nearest".into(), queries.nearest.to_string());
    Ok(SpatialWorkload { name: data.name.clone(), seed, options, entries, phases })
}

/// Most queries or changes of a run: they take more than a day.
const OPERATIONS_MAX: u64 = 1 << 24;

struct Plan {
    is_bulk: bool,
    is_shuffled: bool,
    queries: usize,
    changes: usize,
    relation: Relation,
}

impl Plan {
    fn of(options: &BTreeMap<String, String>) -> Result<Plan, LabError> {
        let text = |name: &str| options.get(name).map_or("", String::as_str);
        let number = |name: &str| {
            let number = whole_number(text(name), 0..=OPERATIONS_MAX);
            number.map(|n| n as usize).map_err(|why| LabError::bad_option(name, text(name), why))
        };
        let choice = |name: &str, words: &[&str]| {
            let place = words.iter().position(|word| *word == text(name));
            place.ok_or_else(|| {
                LabError::bad_option(name, text(name), format!("is none of {}", words.join(", ")))
            })
        };
        let relations = [Relation::Intersects, Relation::Within, Relation::Covers];
        Ok(Plan {
            is_bulk: choice("load", &["insert", "bulk"])? == 1,
            is_shuffled: choice("order", &["shuffled", "file"])? == 0,
            queries: number("queries")?,
            changes: number("changes")?,
            relation: relations[choice("relation", &relations.map(Relation::name))?],
        })
    }
}

/// The box around a point that has the given share of the extent's area. It is not cut off at the border of
/// the extent.
fn window_around<C: Number, const D: usize>(
    centre: [C; D],
    extent: &Rect<C, D>,
    share: f64,
) -> Result<Rect<C, D>, LabError> {
    // The root by halving intervals: the library's powers are not the same on every machine.
    let (mut low, mut high) = (0.0f64, 1.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        let power = (1..D).fold(middle, |power, _| power * middle);
        if power < share {
            low = middle;
        } else {
            high = middle;
        }
    }
    let side = |axis: usize| (extent.high()[axis].to_f64() - extent.low()[axis].to_f64()) * high / 2.0;
    let corner = |sign: f64| -> Option<[C; D]> {
        let mut corner = centre;
        for (axis, place) in corner.iter_mut().enumerate() {
            *place = C::of_f64(place.to_f64() + sign * side(axis))?;
        }
        Some(corner)
    };
    let rect = corner(-1.0).zip(corner(1.0)).and_then(|(low, high)| Rect::new(low, high).ok());
    rect.ok_or_else(|| LabError::bad_option("--window", &format!("{}%", share * 100.0), "reaches too far"))
}

/// A profile of operations from the study of access times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Insertions, removals and searches in random order.
    Random,
    /// 1,000 insertions, then 100 removals among searches.
    Insertions,
    /// 2,000 insertions, then 1,900 removals, then searches.
    Removals,
}

impl Profile {
    /// The profile with the paper's letter: R, I or D.
    pub fn of_letter(letter: &str) -> Result<Profile, LabError> {
        let all = [("R", Profile::Random), ("I", Profile::Insertions), ("D", Profile::Removals)];
        let found = all.iter().find(|(known, _)| *known == letter).map(|(_, profile)| *profile);
        found.ok_or_else(|| LabError::unknown("profile", letter, all.map(|(known, _)| known)))
    }

    /// Makes the workload of this profile with `operations` operations over these entries. With 12,000
    /// operations the counts are the paper's.
    ///
    /// In *R*, each operation is an insertion, a removal or a search with equal chance. Its entry is drawn
    /// from a sixth as many entries as there are operations. A removal or search may therefore miss, and an
    /// insertion of a present entry becomes a search.
    ///
    /// In *I*, the removals have random places among the searches. In *I* and *D*, a removal or search
    /// addresses a present entry, each with equal chance. In *D*, a twentieth of the entries stays so that
    /// the tree is not empty, and half of the searches address removed entries.
    pub fn workload<C: Number, const D: usize>(
        self,
        entries: Vec<(Rect<C, D>, u64)>,
        operations: usize,
        seed: u64,
    ) -> SpatialWorkload<C, D> {
        let rng = Rng::new(seed ^ split_mix(7));
        let mut source =
            Profiled { rng, entries: entries.len() as u32, present: Vec::new(), gone: Vec::new(), next: 0 };
        let mut phases: Vec<SpatialPhase<C, D>> = Vec::new();
        let mut phase = |name: &str, ops| {
            phases.push(SpatialPhase { name: name.into(), measured: true, is_bulk: false, ops });
        };
        match self {
            Profile::Random => {
                let ops = (0..operations).map(|_| source.any(operations / 6)).collect();
                phase("mix", ops);
            }
            Profile::Insertions => {
                let inserts = operations / 12;
                phase("insert", (0..inserts).map(|_| source.insert()).collect());
                let rest = operations - inserts;
                let mut removals: Vec<bool> = (0..rest).map(|i| i < inserts / 10).collect();
                source.rng.shuffle(&mut removals);
                phase(
                    "mix",
                    removals.into_iter().map(|r| if r { source.remove() } else { source.search() }).collect(),
                );
            }
            Profile::Removals => {
                let inserts = operations / 6;
                phase("insert", (0..inserts).map(|_| source.insert()).collect());
                let stay = inserts / 20;
                phase("remove", (stay..inserts).map(|_| source.remove()).collect());
                let rest = operations - 2 * inserts + stay;
                phase(
                    "search",
                    (0..rest).map(|i| if i % 2 == 0 { source.search() } else { source.miss() }).collect(),
                );
            }
        }
        let name = match self {
            Profile::Random => "profile-r",
            Profile::Insertions => "profile-i",
            Profile::Removals => "profile-d",
        };
        let options = [("operations".to_string(), operations.to_string())].into();
        SpatialWorkload { name: name.to_string(), seed, options, entries, phases }
    }
}

struct Profiled {
    rng: Rng,
    entries: u32,
    present: Vec<u32>,
    gone: Vec<u32>,
    next: u32,
}

impl Profiled {
    /// Draws an operation of any kind on one of the first `entries` entries.
    fn any<C, const D: usize>(&mut self, entries: usize) -> SpatialOp<C, D> {
        let entry = self.rng.below(entries as u64) as u32;
        let place = self.present.iter().position(|&present| present == entry);
        match (self.rng.below(3), place) {
            (0, None) => {
                self.present.push(entry);
                SpatialOp::Insert(entry)
            }
            (1, Some(place)) => {
                self.present.swap_remove(place);
                SpatialOp::Remove(entry)
            }
            (1, None) => SpatialOp::Remove(entry),
            _ => SpatialOp::Search(entry),
        }
    }

    fn insert<C, const D: usize>(&mut self) -> SpatialOp<C, D> {
        assert!(self.next < self.entries, "a profile has an entry for each of its insertions");
        self.present.push(self.next);
        self.next += 1;
        SpatialOp::Insert(self.next - 1)
    }

    fn remove<C, const D: usize>(&mut self) -> SpatialOp<C, D> {
        let place = self.rng.below(self.present.len() as u64) as usize;
        let entry = self.present.swap_remove(place);
        self.gone.push(entry);
        SpatialOp::Remove(entry)
    }

    fn search<C, const D: usize>(&mut self) -> SpatialOp<C, D> {
        SpatialOp::Search(self.present[self.rng.below(self.present.len() as u64) as usize])
    }

    fn miss<C, const D: usize>(&mut self) -> SpatialOp<C, D> {
        SpatialOp::Search(self.gone[self.rng.below(self.gone.len() as u64) as usize])
    }
}
