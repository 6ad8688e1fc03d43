//! Trees on raw NAND: the common parts of the mu-Tree and the wandering B+-tree.
//!
//! Both are B+-trees on the log of [`crate::log`]. A node is rewritten out of place, together with the path
//! above it. The trees differ in the layout of nodes in pages and in the way a changed path is written. Both
//! are decided by the [`RawScheme`].
//!
//! * A search reads the nodes from the root down. A child in the page just read costs no read, unless
//!   [`SamePage::Read`](crate::log::SamePage::Read) asks for one.
//! * An update copies the path into RAM (`path`), changes it there and lets the scheme write it, the root
//!   last.
//! * A node that becomes empty disappears. Nothing is redistributed or merged, since this would cost programs
//!   (mu-Tree paper, section 3.4). A root with one child is replaced by it.
//! * A page is moved by rewriting the path to its lowest node, which is found by that node's first key.
//!
//! Parts:
//!
//! | part | owns | file |
//! |---|---|---|
//! | `Path` | the copied nodes, how nodes lie in pages, the tree's height | `path.rs`, `split.rs` |
//! | `Journal`, `Moves` | which leaves and nodes have moved | `journal.rs`, `moves.rs` |
//! | [`Nodes`] | these and the log: nodes are read into the path and written from it | `path.rs`, `update.rs`, `reached.rs` |
//! | [`RawTree`] | the nodes, and how far an operation got: room is made, checkpoints are written | `room.rs`, `service.rs`, `restore.rs` |
//!
//! Invariants (`check`):
//!
//! * R1: keys rise within a node, and no node has more entries than its capacity.
//! * R2: the keys below an entry are not below its key, and are below the next entry's key.
//! * R3: only the root of an empty tree is empty. A root above level 1 has at least two entries. The root of
//!   a mu-Tree is never full.
//! * R4: in one page, the node at the next lower level, if there is one, is a child of the node above it.
//! * R5: a page that can be reached is valid, and begins at the lowest level at which it is reached.
//! * R6: no other page is valid, unless a mount after a power cut left valid bits in doubt (see
//!   [`crate::log`]).
//! * R7: the layout of a page is one that the tree uses. Its nodes lie within the page, in areas that are
//!   large enough and do not overlap.
//! * R9: the places that map to others (`moves`) are those that nodes name and no page has. They lead to
//!   valid pages in one step.
//! * R8: the entries of an inner node name the widths of its children, and a node has no more entries than
//!   its width allows (`path`).

pub(crate) mod batch;
mod check;
mod config;
pub(crate) mod journal;
mod limits;
pub(crate) mod moves;
mod path;
mod places;
mod range;
mod reached;
mod restore;
pub(crate) mod room;
mod scheme;
mod service;
mod split;
pub(crate) mod update;

use crate::blocks::Validity;
use crate::check::{CheckReport, IndexError, message, words};
use crate::fault::IndexFault;
use crate::log::ahead::collect_ahead;
use crate::log::settle::is_mount_behind;
use crate::log::tag::Tag;
use crate::log::{Log, LogConfig, Note, Placement, left_out};
use crate::nand::{Cause, Differs, Geometry, Nand, Unfit};
use crate::ordered::change::change_one;
pub(crate) use crate::ordered::key::Key;
use crate::ordered::{
    Change as RecordChange, Direction, Durability, IndexStats, Metric, OrderedIndex, RecordFormat, Room,
    Tour, Visit,
};
use crate::units::Ppn;
use alloc::vec;
pub use config::RawConfig;
use core::ops::Bound;
use journal::Journal;
use moves::Moves;
use path::Path;
pub(crate) use path::{Sibling, Step};
pub(crate) use scheme::{Change, Layouts, Leaf, LeafUse, MovedNodes};
pub(crate) use scheme::{RawScheme, Shapes};

/// Bytes of a child's address.
pub(crate) const ADDRESS_BYTES: usize = 4;

/// Counters of changes of structure.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::ordered) struct PathCounts {
    /// Nodes that were split off from another one.
    pub(in crate::ordered) splits: u64,
    /// Nodes that became empty and left the tree.
    pub(in crate::ordered) expelled: u64,
}

/// Nodes of a tree in the pages of its log: the copied path, and the pages of moved nodes.
pub struct Nodes<N, S> {
    pub(in crate::ordered) log: Log<N>,
    record: RecordFormat,
    pub(in crate::ordered) root: Ppn,
    pub(in crate::ordered) path: Path<S>,
    pub(in crate::ordered) journal: Journal,
    pub(in crate::ordered) moves: Moves,
    pub(in crate::ordered) counts: PathCounts,
}

/// Tree on raw NAND.
pub struct RawTree<N, S> {
    pub(in crate::ordered) nodes: Nodes<N, S>,
    /// True if the current update found its key in the leaf; `None` if it did not get there.
    existed: Option<bool>,
}

/// Parts that follow from a configuration and a chip.
struct Setup<S> {
    scheme: S,
    log: LogConfig,
    moves: Moves,
}

/// Number of spare bytes in a page that a tree with a log of its own needs on this chip. On a chip with
/// fewer, part of the data area is lent ([`LentSpare`](crate::nand::LentSpare)).
///
/// ```
/// use nandex::{Geometry, ordered::spare_bytes_needed};
///
/// assert!(spare_bytes_needed(&Geometry::new(2048, 64, 64, 1024)) <= 64);
/// ```
pub const fn spare_bytes_needed(geometry: &Geometry) -> u32 {
    crate::log::tag::spare_bytes_needed(geometry.pages_per_block) as u32
}

impl<N: Nand, S: RawScheme> Nodes<N, S> {
    /// True if an operation was begun and not ended: only a mount, or an undo, tells what is on the chip.
    pub(crate) fn is_half_done(&self) -> bool {
        self.log.tape.half_done
    }

    pub(crate) fn usable(&self) -> Result<(), IndexFault> {
        if self.is_half_done() { Err(IndexError::Interrupted.into()) } else { Ok(()) }
    }
}

impl<N: Nand, S: RawScheme> RawTree<N, S> {
    /// Formats the chip and makes an empty tree on a log that is set up like this.
    pub fn format_on_log(
        nand: N,
        record: RecordFormat,
        config: LogConfig,
    ) -> Result<RawTree<N, S>, IndexError> {
        let scheme = S::new(nand.geometry().page_bytes as usize, record)?;
        Ok(RawTree::open(nand, record, Setup { scheme, log: config, moves: Moves::default() }, true)?)
    }

    /// Finds the tree on the chip again, and runs its log like this.
    pub fn mount_on_log(
        nand: N,
        record: RecordFormat,
        config: LogConfig,
    ) -> Result<RawTree<N, S>, IndexError> {
        let scheme = S::new(nand.geometry().page_bytes as usize, record)?;
        Ok(RawTree::open(nand, record, Setup { scheme, log: config, moves: Moves::default() }, false)?)
    }

    /// Formats the chip for a tree that is set up like this.
    pub fn format(nand: N, config: &RawConfig<S::Config>) -> Result<RawTree<N, S>, IndexError> {
        Ok(RawTree::open_like(nand, config, true)?)
    }

    /// Finds the tree on the chip again and runs it like this.
    pub fn mount(nand: N, config: &RawConfig<S::Config>) -> Result<RawTree<N, S>, IndexError> {
        Ok(RawTree::open_like(nand, config, false)?)
    }

    fn open_like(nand: N, config: &RawConfig<S::Config>, is_new: bool) -> Result<RawTree<N, S>, IndexFault> {
        let setup = Self::set_up(&nand, config)?;
        let mut tree = RawTree::open(nand, config.record, setup, is_new)?;
        tree.set_journal(config.journal);
        if is_new {
            tree.nodes.require_room_for_a_record()?;
        }
        Ok(tree)
    }

    /// Opens a new tree or an existing one. The two share this function so that firmware has the common code
    /// only once.
    fn open(
        nand: N,
        record: RecordFormat,
        Setup { scheme, log: config, moves }: Setup<S>,
        is_new: bool,
    ) -> Result<RawTree<N, S>, IndexFault> {
        let pages = nand.geometry().pages();
        if is_new && S::NAMES_WIDTHS && pages >= 1 << WIDTH_SHIFT {
            return Err(IndexError::unsupported(message!("{pages} pages are too many for this tree")).into());
        }
        let sizes = [record.key_bytes, record.value_bytes];
        let owner = [S::KIND, &sizes].concat();
        // The note of a checkpoint (the table of moves) takes RAM while it is read: the read part of the
        // cache is made after that.
        let read_pages = config.read_pages;
        let config = LogConfig {
            holds: S::MAPS_MOVES,
            read_pages: if S::MAPS_MOVES { 0 } else { read_pages },
            ..config
        };
        let mut log = if is_new {
            Log::format(nand, config, &owner)?
        } else if config.is_placed() {
            Log::mount_placed(nand, config, &owner)?
        } else {
            Log::mount(nand, config)?
        };
        if log.owner() != owner {
            let what = words("the log on the chip is that of another kind of tree");
            let kind = log.owner().get(..S::KIND.len()).unwrap_or_default();
            let unfit = match kind == S::KIND {
                true => {
                    Unfit::other(Differs::Record, words("the tree on the chip has records of other sizes"))
                }
                false => Unfit::named(kind, S::KIND, what),
            };
            return Err(IndexError::NotFormatted(unfit).into());
        }
        let mut moves = moves;
        if S::MAPS_MOVES {
            if !is_new {
                moves.load(&log.tape.take_note(), pages)?;
            }
            log.read_with(read_pages);
        }
        let mut tree = RawTree::assemble(log, scheme, record, moves, is_new);
        if is_new {
            tree.plant()?;
        } else {
            tree.restore()?;
        }
        Ok(tree)
    }

    /// Writes the root of an empty tree to a chip that was formatted.
    fn plant(&mut self) -> Result<(), IndexFault> {
        let nodes = &mut self.nodes;
        nodes.root = nodes.log.allocate(Cause::Checkpoint)?;
        let tag = Tag { root: true, lowest_level: 1, height: 1, ..Tag::default() };
        nodes.log.write(nodes.root, tag, &nodes.path.detached, Cause::Checkpoint)?;
        nodes.log.finish();
        nodes.log.close(None)?;
        if nodes.log.counters().checkpoints == 0 && !nodes.log.is_placed() {
            return Err(IndexError::NO_BLOCK.into());
        }
        Ok(())
    }

    fn set_up(nand: &N, config: &RawConfig<S::Config>) -> Result<Setup<S>, IndexFault> {
        let geometry = nand.geometry();
        let scheme = S::new(geometry.page_bytes as usize, config.record)?.configured(&config.scheme)?;
        if config.journal > 0 && !cfg!(feature = "full") {
            return Err(left_out("a journal of moved leaves: feature 'full'"));
        }
        if config.journal > 0 && !S::TAKES_JOURNAL {
            return Err(
                IndexError::Unsupported(words("this tree needs no journal of moved leaves").into()).into()
            );
        }
        let takes = S::TAKES_JOURNAL && cfg!(feature = "full");
        let (journal, most) = (if takes { config.journal } else { 0 }, geometry.pages() as usize / 16);
        if journal > most {
            let what = message!("a journal of {journal} leaves: 0 to {most} are possible on this chip");
            return Err(IndexError::Unsupported(what.into()).into());
        }
        let height = height_bound(&scheme, geometry.pages());
        let pages_at_once = scheme.pages_per_update(height) + Journal::pages_above(journal, height);
        let with = |scheme: S, validity, ram_bytes: Option<usize>| {
            let moves = scheme.moves(geometry, &config.scheme, ram_bytes)?;
            let moves_bytes = if S::MAPS_MOVES { moves.ram_bytes(geometry) } else { 0 };
            let journal_bytes = Journal::ram_needed(journal, height, config.record.key_bytes);
            let tables = journal_bytes + moves_bytes;
            let fixed_bytes = size_of::<Self>() + scheme.path_bytes(height + 1) + tables;
            let log = config.log(geometry, validity, fixed_bytes, pages_at_once)?;
            Ok(Setup { scheme, log, moves })
        };
        let validity = config.validity.unwrap_or_default();
        let mut set_up = with(scheme, validity, config.ram_bytes);
        if Self::may_count(config) {
            let one = scheme.holding_one().filter(|_| journal == 0);
            for scheme in [Some(scheme), one].into_iter().flatten() {
                let Some(least) = ram_lacked(&set_up) else { break };
                let other = with(scheme, Validity::Counts, config.ram_bytes);
                if ram_lacked(&other).is_none_or(|needed| needed < least) {
                    set_up = other;
                }
            }
        } else if S::MAPS_MOVES {
            // A table that grows with the RAM is made smaller until it fits, so that a refusal names the
            // least RAM.
            for &ram in S::LESS_RAM {
                if ram_lacked(&set_up).is_none() {
                    break;
                }
                set_up = with(scheme, validity, Some(ram));
            }
        }
        let set_up = set_up?;
        if set_up.log.placement == Placement::InPlace && !S::KEEPS_PLACES {
            return Err(
                IndexError::Unsupported(words("this tree cannot keep its pages in place").into()).into()
            );
        }
        Ok(set_up)
    }

    /// True if valid pages may be counted, in case the RAM does not suffice for a bit for each page.
    fn may_count(config: &RawConfig<S::Config>) -> bool {
        let is_possible = Validity::Counts.is_built() && !S::MAPS_MOVES;
        let waits = config.write_pages.is_some_and(|pages| pages > 0);
        is_possible
            && !waits
            && config.validity != Some(Validity::Bits)
            && config.placement == Placement::OutOfPlace
    }

    fn assemble(log: Log<N>, scheme: S, record: RecordFormat, moves: Moves, is_new: bool) -> RawTree<N, S> {
        // If nodes can move, a mount makes the path's buffer only after their pages are known.
        let most = if is_new || !S::MAPS_MOVES {
            scheme.path_bytes(height_bound(&scheme, log.geometry().pages()) + 1)
        } else {
            0
        };
        let nodes = Nodes {
            path: Path::new(scheme, most, log.geometry().page_bytes as usize),
            record,
            root: Ppn(0),
            journal: Journal::default(),
            moves,
            counts: PathCounts::default(),
            log,
        };
        RawTree { nodes, existed: None }
    }

    fn commit_and_close(&mut self) -> Result<(), IndexFault> {
        if self.nodes.log.is_in_doubt() || !is_mount_behind(self)? {
            return Ok(());
        }
        let nodes = &mut self.nodes;
        nodes.commit_journal()?;
        nodes.log.close(note_of::<S>(&nodes.moves))
    }

    /// Returns the log below, for its counters.
    pub fn log(&self) -> &Log<N> {
        &self.nodes.log
    }

    /// Gives the chip back.
    pub fn into_nand(self) -> N {
        self.nodes.log.into_nand()
    }
}

/// Note of checkpoints: the table of moved nodes.
fn note_of<S: RawScheme>(moves: &Moves) -> Note<'_> {
    if S::MAPS_MOVES { Some(moves) } else { None }
}

/// Number of bytes of RAM needed, if the error is that there is too little.
fn ram_lacked<T>(set_up: &Result<T, IndexFault>) -> Option<usize> {
    match set_up.as_ref().map_err(|error| &**error) {
        Err(IndexError::TooLittleRam { needed, .. }) => Some(*needed),
        _ => None,
    }
}

/// Height of a tree of `pages` half-full nodes.
pub(crate) fn height_bound<S: RawScheme>(scheme: &S, pages: u32) -> u8 {
    let (mut nodes, mut height) = (pages as usize, 1);
    while nodes > 1 && height < scheme.height_max(0) {
        height += 1;
        let smallest = scheme.shape(scheme.layouts() - 1, height, height + 1);
        nodes = nodes.div_ceil((smallest.capacity / 2).max(2));
    }
    debug_assert!(height >= 1 && height <= scheme.height_max(0).max(1), "R2: a height of {height}");
    height
}

const WIDTH_SHIFT: u32 = 30;

/// Child that an entry of an inner node names.
fn address<S: RawScheme>(bytes: &[u8]) -> Ppn {
    let named = crate::codec::get_u32(bytes, 0);
    Ppn(if S::NAMES_WIDTHS { named & ((1 << WIDTH_SHIFT) - 1) } else { named })
}

/// Width of the leaves below the child that the entry names.
fn named_width<S: RawScheme>(bytes: &[u8]) -> u8 {
    if S::NAMES_WIDTHS { (crate::codec::get_u32(bytes, 0) >> WIDTH_SHIFT) as u8 } else { 0 }
}

/// Value of an entry for this child.
pub(crate) fn child_value<S: RawScheme>(page: Ppn, width: u8) -> [u8; ADDRESS_BYTES] {
    debug_assert!(
        !S::NAMES_WIDTHS || (page.0 >> WIDTH_SHIFT == 0 && width < 4),
        "R8: {page} of width {width}"
    );
    let width = if S::NAMES_WIDTHS { u32::from(width) << WIDTH_SHIFT } else { 0 };
    (page.0 | width).to_le_bytes()
}

impl<N: Nand, S: RawScheme> OrderedIndex for RawTree<N, S> {
    fn record(&self) -> RecordFormat {
        self.nodes.record
    }

    fn durability(&self) -> Durability {
        if self.nodes.log.config().write_pages == 0 {
            Durability::EveryOperation
        } else {
            Durability::EverySync
        }
    }

    fn get(&mut self, key: &[u8], value: &mut [u8]) -> Result<bool, IndexError> {
        let nodes = &mut self.nodes;
        nodes.record.check(key, value)?;
        nodes.usable()?;
        let found = match S::MAPS_MOVES {
            true => nodes.get_by_path(key, Some(value)),
            false => nodes.look_up(key, Some(value), Cause::Host),
        };
        Ok(found?)
    }

    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<bool, IndexError> {
        self.nodes.record.check(key, value)?;
        self.nodes.usable()?;
        self.existed = None;
        let outcome = self.insert_entry(key, value);
        Ok(self.settled(outcome, key, Some(value))?)
    }

    fn remove(&mut self, key: &[u8]) -> Result<bool, IndexError> {
        self.nodes.record.check_key(key)?;
        self.nodes.usable()?;
        self.existed = None;
        let outcome = self.remove_entry(key);
        Ok(self.settled(outcome, key, None)?)
    }

    fn batch_max(&self) -> usize {
        self.nodes.changes_max()
    }

    fn takes_batch(&self, changes: usize) -> Option<bool> {
        self.nodes.takes_changes(changes)
    }

    fn apply(&mut self, batch: &[RecordChange<'_>]) -> Result<(), IndexError> {
        match batch {
            [one] => change_one(self, *one),
            _ => Ok(self.apply_as_one(batch)?),
        }
    }

    fn maintain(&mut self, budget: u32) -> Result<u32, IndexError> {
        Ok(self.ahead(|tree| {
            let weak = service::move_weak(tree, budget)?;
            Ok(weak.max(collect_ahead(tree, budget)?))
        })?)
    }

    fn scrub(&mut self, budget: u32) -> Result<u32, IndexError> {
        Ok(service::scrub_log(self, budget)?)
    }

    fn free(&self) -> Option<Room> {
        Some(service::room_left(&self.nodes))
    }

    fn records_max(&self) -> Option<u64> {
        Some(service::records_max(&self.nodes))
    }

    fn range(
        &mut self,
        low: Bound<&[u8]>,
        high: Bound<&[u8]>,
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<(), IndexError> {
        self.nodes.usable()?;
        Ok(self.nodes.walk_range(Tour { bounds: (low, high), direction, visit })?)
    }

    fn sync(&mut self) -> Result<(), IndexError> {
        self.nodes.usable()?;
        Ok(self.nodes.log.flush(Cause::CacheEviction)?)
    }

    fn close(&mut self) -> Result<(), IndexError> {
        self.nodes.usable()?;
        let closed = self.commit_and_close();
        if self.nodes.is_half_done() && matches!(&closed, Err(error) if error.is_refusal()) {
            self.undo()?;
        }
        Ok(closed?)
    }

    fn check(&mut self) -> Result<CheckReport, IndexError> {
        self.nodes.usable()?;
        Ok(self.nodes.walk_all()?)
    }

    fn stats(&self) -> IndexStats {
        let nodes = &self.nodes;
        let counters = nodes.log.counters();
        let mut metrics = vec![
            Metric { name: "splits", value: nodes.counts.splits },
            Metric { name: "expelled", value: nodes.counts.expelled },
            Metric { name: "relocations", value: counters.relocations },
            Metric { name: "checkpoints", value: counters.checkpoints },
            Metric { name: "checkpoints_skipped", value: counters.checkpoints_skipped },
            Metric { name: "blocks_replaced", value: counters.blocks_replaced },
        ];
        nodes.path.scheme.add_metrics(&mut metrics);
        nodes.moves.add_metrics(&mut metrics);
        IndexStats {
            height: u32::from(nodes.path.height),
            live_pages: nodes.log.live_pages(),
            cache_hits: counters.cache_hits,
            cache_misses: counters.cache_misses,
            collections: counters.collections,
            metrics,
        }
    }

    fn ram_bytes(&self) -> usize {
        let nodes = &self.nodes;
        let buffers = nodes.path.detached.len() + nodes.path.buffer.len();
        size_of::<Self>()
            + buffers
            + nodes.journal.ram_bytes()
            + nodes.moves.table_bytes()
            + nodes.log.ram_bytes()
    }
}
