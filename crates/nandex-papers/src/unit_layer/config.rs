//! Configuration of a node layer, and the sizes that follow from it.

use super::NodeCodec;
use super::buffer::ReservationBuffer;
use super::modes::{ModeTable, Tuning};
use super::sector::sector_units;
use super::table::NodeTable;
use nandex::check::{IndexError, message};

/// The policy that decides which units a full buffer commits, and where to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum CommitPolicy {
    /// All units. The set of each node goes to the first sector with room for it, in order of arrival.
    FirstFit = 1,
    /// All units. Like first fit, but the largest set comes first.
    FirstFitDecreasing = 2,
    /// All units, sorted by node, one after the other.
    Sorted = 3,
    /// All units, sorted by node. Each node is written with its units in older sectors, so that these are
    /// free.
    SortedMerged = 4,
    /// The units of one node, the node of the oldest unit. They go into the node's own page.
    OldestNode = 5,
    /// All units, wherever they fit. Nodes in disk mode have no units and are written whole.
    SelfTuning = 6,
}

/// The place of a node's units in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Sectors shared with other nodes. A table tells which sectors have units of a node.
    SharedSectors,
    /// The node's own page. There is no table.
    OwnPages,
    /// A shared sector or a sector of its own, by the mode of the node.
    ByMode,
}

impl CommitPolicy {
    /// The place of a node's units under this policy.
    pub const fn placement(self) -> Placement {
        match self {
            CommitPolicy::OldestNode => Placement::OwnPages,
            CommitPolicy::SelfTuning => Placement::ByMode,
            _ => Placement::SharedSectors,
        }
    }
}

impl Placement {
    /// Whether the layer keeps sectors and a table of them.
    pub const fn has_sectors(self) -> bool {
        !matches!(self, Placement::OwnPages)
    }

    /// Whether each node has a mode.
    pub const fn has_modes(self) -> bool {
        matches!(self, Placement::ByMode)
    }
}

/// The settings of a node layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerConfig {
    /// The policy that decides what a full buffer commits.
    pub commit: CommitPolicy,
    /// Whether a unit is merged with one that waits for the same entry.
    pub eliminates: bool,
    /// Largest number of units that wait.
    pub reservation_units: u32,
    /// C: largest number of sectors in a node's list.
    pub list_length: u8,
    /// Largest number of pages that one operation of the tree writes.
    pub group_pages: usize,
    /// The modes and latencies for the choice of modes, used by [`CommitPolicy::SelfTuning`] only.
    pub tuning: Tuning,
}

/// The division of a store's pages by a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Room {
    /// Number of nodes, page 0 of the tree included.
    pub(super) nodes: u32,
    pub(super) sectors: u32,
    /// Largest number of mixed sectors.
    pub(super) mixed_max: u32,
}

/// Bytes of RAM for each sector that the scan of a mount keeps.
pub(super) const FOUND_BYTES: usize = 12;

/// Bytes of the scan beyond the bits of nodes and sectors, because the last words are not full.
const SCAN_BITS_MORE: usize = 32;

/// The first sector's page. Before it lie the layer's header and page 0 of the tree.
pub(super) const SECTORS_FROM: u32 = 2;

impl LayerConfig {
    /// Most entries of a node whose units fit into its list of sectors.
    pub fn entries_max(&self, page_bytes: usize, body_bytes: usize) -> usize {
        // One unit of each sector may be the reset.
        let entries = sector_units(page_bytes, body_bytes).saturating_sub(1);
        match self.commit {
            CommitPolicy::OldestNode => usize::MAX,
            CommitPolicy::SortedMerged | CommitPolicy::SelfTuning => entries,
            _ => entries * usize::from(self.list_length),
        }
    }

    /// Units that fit into a page of the store.
    pub fn page_units(&self, page_bytes: usize, body_bytes: usize) -> usize {
        sector_units(page_bytes, body_bytes)
    }

    /// Largest number of waiting units, with those of an operation that is committed at once.
    pub(super) fn slots_max(&self, entries: usize) -> usize {
        let group = self.group_pages.div_ceil(2) * (entries + 4);
        if self.commit.placement().has_sectors() { self.units() + group } else { self.units() }
    }

    pub(super) fn units(&self) -> usize {
        self.reservation_units as usize
    }

    /// Largest number of nodes that have units at the same time.
    pub(super) fn sets_max(&self) -> usize {
        self.units() + self.group_pages
    }

    /// Sectors that a compacted node of `entries` entries takes.
    pub(super) fn own_sectors(&self, entries: usize, sector_units: usize) -> usize {
        match self.commit {
            // In a stream it may begin in one and end in the next.
            CommitPolicy::SortedMerged => 2,
            _ => entries.div_ceil(sector_units - 1),
        }
    }

    /// Most sectors that a commit writes.
    pub(super) fn commit_sectors(&self, entries: usize, sector_units: usize) -> usize {
        match self.commit {
            CommitPolicy::SortedMerged => self.sets_max() + 1,
            _ => 2 * self.slots_max(entries).div_ceil(sector_units) + 2 + self.whole_max(),
        }
    }

    /// Most nodes that a commit writes whole.
    fn whole_max(&self) -> usize {
        if self.commit.placement().has_modes() { self.group_pages } else { 0 }
    }

    /// Divides `pages` pages for the nodes of this codec. An error if they are too few.
    pub(super) fn room(
        &self,
        codec: &impl NodeCodec,
        page_bytes: usize,
        pages: u32,
    ) -> Result<Room, IndexError> {
        if self.reservation_units == 0 || self.reservation_units > 1 << 24 {
            let what =
                message!("reservation_units = {}: 1 to {} are possible", self.reservation_units, 1 << 24);
            return Err(IndexError::Unsupported(what.into()));
        }
        if self.tuning.read_ns.max(self.tuning.program_ns) > Tuning::NS_MAX {
            return Err(IndexError::unsupported(message!(
                "{:?}: at most {} ns are possible",
                self.tuning,
                Tuning::NS_MAX
            )));
        }
        if self.commit.placement().has_modes() && self.eliminates {
            return Err(IndexError::unsupported(message!("{:?} does not eliminate units", self.commit)));
        }
        if !self.commit.placement().has_sectors() {
            return Ok(Room { nodes: pages.saturating_sub(1), sectors: 0, mixed_max: 0 });
        }
        let (entries, units) = (codec.entries_max(), sector_units(page_bytes, codec.body_bytes()));
        let possible = self.entries_max(page_bytes, codec.body_bytes());
        if entries > possible || self.list_length == 0 {
            return Err(IndexError::unsupported(message!(
                "nodes of {entries} entries: at most {possible} fit into a list of {} sectors of {units} units",
                self.list_length
            )));
        }
        let (own, commit) = (self.own_sectors(entries, units), self.commit_sectors(entries, units));
        let sectors = pages.saturating_sub(SECTORS_FROM) as usize;
        // Beside the compacted nodes: mixed sectors, what is written before anything is freed, and what the
        // newest commit keeps.
        let (nodes, mixed) = match self.commit {
            CommitPolicy::SortedMerged => {
                let few = (sectors.saturating_sub(2) / (own + 2)).min(self.sets_max());
                (few.max(sectors.saturating_sub(2 * commit) / own), 0)
            }
            _ => {
                let mixed = (sectors / 8).max(commit);
                (sectors.saturating_sub(mixed + 2 * (own + self.whole_max())) / own, mixed)
            }
        };
        if nodes < 4 {
            return Err(IndexError::unsupported(message!(
                "{pages} pages are too few: a commit may write {commit} sectors, and a node takes {own}"
            )));
        }
        Ok(Room { nodes: nodes as u32, sectors: sectors as u32, mixed_max: mixed as u32 })
    }

    /// Bytes of RAM that a layer takes at most on such a store. The store itself is not counted.
    pub fn ram_bytes_max(
        &self,
        codec: &impl NodeCodec,
        page_bytes: usize,
        pages: u32,
    ) -> Result<usize, IndexError> {
        let room = self.room(codec, page_bytes, pages)?;
        let entries = codec.entries_max();
        let buffers = self.buffers_bytes(codec, page_bytes);
        let fixed = size_of::<usize>() * 128 + buffers;
        if !self.commit.placement().has_sectors() {
            return Ok(fixed + page_bytes);
        }
        let units = sector_units(page_bytes, codec.body_bytes());
        let commit = self.commit_sectors(entries, units);
        let plans = self.plans_bytes(commit);
        let table = NodeTable::ram_bytes_for(
            usize::from(self.list_length()),
            room.nodes as usize,
            room.sectors as usize,
            room.mixed_max as usize,
        );
        let modes = if self.commit.placement().has_modes() {
            ModeTable::ram_bytes_for(room.nodes as usize)
        } else {
            0
        };
        let scan = self.scan_bytes(room, self.scan_sectors(codec, page_bytes, room));
        Ok(fixed + 3 * page_bytes + plans + table + modes + scan.saturating_sub(buffers + plans))
    }

    fn buffers_bytes(&self, codec: &impl NodeCodec, page_bytes: usize) -> usize {
        let images = self.group_pages * (page_bytes + super::images::IMAGE_BYTES);
        let slots = self.slots_max(codec.entries_max()) + super::buffer::SLOTS_MORE;
        images + ReservationBuffer::ram_bytes_for(slots, 2 * self.sets_max(), codec.body_bytes())
    }

    /// Bytes of RAM for the sets and the sectors of a commit that writes `commit` sectors.
    fn plans_bytes(&self, commit: usize) -> usize {
        let pieces = self.sets_max() + commit;
        // Vectors that grow by doubling hold up to twice what is in them.
        2 * (pieces * 24 + commit * 8)
    }

    /// Sectors that the scan of a mount keeps at a time. The scan uses the RAM of the buffers, which are
    /// made after it, and of the plans, but keeps at least the sectors of two commits.
    pub(super) fn scan_sectors(&self, codec: &impl NodeCodec, page_bytes: usize, room: Room) -> usize {
        let units = sector_units(page_bytes, codec.body_bytes());
        let commit = self.commit_sectors(codec.entries_max(), units);
        let bytes = self.buffers_bytes(codec, page_bytes) + self.plans_bytes(commit);
        let kept = bytes.saturating_sub(self.scan_bytes(room, 0)) / FOUND_BYTES;
        kept.max(2 * commit + 1).min(room.sectors as usize + 1)
    }

    /// Bytes of RAM of a scan that keeps `sectors` sectors.
    fn scan_bytes(&self, room: Room, sectors: usize) -> usize {
        let disk = if self.commit.placement().has_modes() { room.sectors as usize / 8 } else { 0 };
        sectors * FOUND_BYTES + room.nodes as usize / 8 + disk + SCAN_BITS_MORE
    }

    pub(super) const fn list_length(&self) -> u8 {
        match self.commit {
            CommitPolicy::SortedMerged => 2,
            _ => self.list_length,
        }
    }
}
