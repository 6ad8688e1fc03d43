//! Configuration of a B+-tree, and the RAM that it takes.

use super::StructureWrites;
use super::apart::Restructured;
use super::least;
use super::page::{Frame, Layout};
use super::rules::{Overflow, Underflow};
use crate::check::IndexError;
use crate::fault::IndexFault;
use crate::ordered::{Durability, RecordFormat};
use crate::store::PageStore;
use crate::store::space::Space;
use crate::units::Lpn;

/// Amount of RAM that a tree takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(feature = "unstable"), non_exhaustive)]
pub enum TreeRam {
    /// Room for all pages that an operation changes at once.
    #[default]
    Ample,
    /// The least possible, [`BPlusConfig::ram_bytes_least`]: room for the nodes of a path and no others.
    /// Nodes above the leaves that must be split or merged are written in groups of their own, before the
    /// operation that needs it. Free pages are known of only a part of the store at a time.
    Least,
}

/// How a B+-tree is formatted.
///
/// ```
/// use nandex::ordered::bplus::{BPlusConfig, Overflow, TreeRam};
/// use nandex::{Durability, RecordFormat};
///
/// let config = BPlusConfig::new(RecordFormat::new(8, 8))
///     .with_durability(Durability::EverySync)
///     .with_ram(TreeRam::Least);
/// assert_eq!(config.overflow, Overflow::Split);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "unstable"), non_exhaustive)]
pub struct BPlusConfig {
    /// Sizes of the records.
    pub record: RecordFormat,
    /// Entries of a leaf at most, 2 or more; `None` means as many as the page holds.
    pub leaf_capacity: Option<usize>,
    /// Children of an internal node at most, 3 or more; `None` means as many as the page holds.
    pub internal_capacity: Option<usize>,
    /// The durability class wanted; a store on which the tree cannot give it is refused.
    pub durability: Durability,
    /// The treatment of a full leaf that is to take one record more.
    pub overflow: Overflow,
    /// The treatment of a node that gets too empty.
    pub underflow: Underflow,
    /// How the pages that an operation changed are written. Not part of the format.
    pub structure_writes: StructureWrites,
    /// How much RAM the tree takes. Not part of the format.
    pub ram: TreeRam,
    /// The index above, if the records name its leaves; zeros for plain records.
    #[doc(hidden)]
    pub above: Above,
}

/// Letters that name the index above, and two numbers of it.
pub(crate) type Above = [u8; 4];

impl BPlusConfig {
    /// Configuration with full pages and every operation durable.
    pub const fn new(record: RecordFormat) -> BPlusConfig {
        BPlusConfig {
            record,
            leaf_capacity: None,
            internal_capacity: None,
            durability: Durability::EveryOperation,
            overflow: Overflow::Split,
            underflow: Underflow::Merge,
            structure_writes: StructureWrites::Together,
            ram: TreeRam::Ample,
            above: [0; 4],
        }
    }

    /// Returns this configuration with nodes of at most `order` entries, leaf and internal.
    #[must_use]
    pub const fn with_order(mut self, order: usize) -> BPlusConfig {
        self.leaf_capacity = Some(order);
        self.internal_capacity = Some(order);
        self
    }

    /// A tree whose records name the leaves of another.
    #[doc(hidden)]
    pub fn directory(key_bytes: u8, order: Option<usize>, above: Above) -> BPlusConfig {
        BPlusConfig {
            leaf_capacity: order,
            internal_capacity: order,
            above,
            ..BPlusConfig::new(RecordFormat::new(key_bytes, 4)).with_durability(Durability::None)
        }
    }

    /// Returns this configuration with nodes of at most `entries` entries, unless a capacity is given
    /// already.
    #[doc(hidden)]
    pub fn with_capacities_up_to(self, entries: usize, page_bytes: usize) -> Result<BPlusConfig, IndexFault> {
        let Layout { leaf, internal, .. } = Layout::new(&self, page_bytes, u32::MAX)?;
        Ok(BPlusConfig {
            leaf_capacity: self.leaf_capacity.or(Some(leaf.capacity.min(entries))),
            internal_capacity: self.internal_capacity.or(Some(internal.capacity.min(entries))),
            ..self
        })
    }

    /// Largest number of entries in a leaf on this store.
    #[doc(hidden)]
    pub fn leaf_capacity_on(&self, store: &(impl PageStore + ?Sized)) -> Result<usize, IndexFault> {
        Ok(Layout::new(self, store.page_bytes(), store.page_count())?.leaf.capacity)
    }

    /// Upper bound of the RAM of a tree on `store`, without the RAM of the store itself: two pages for each
    /// level of the highest possible tree and two more, a page number for each, and a bit or two for each
    /// page of the store.
    pub fn ram_bytes_max(&self, store: &(impl PageStore + ?Sized)) -> Result<usize, IndexError> {
        let layout = Layout::new(self, store.page_bytes(), store.page_count())?;
        let frame_bytes = layout.page_bytes + size_of::<Frame>() + size_of::<Lpn>();
        let frames_max = 2 * (layout.height_max() + 1);
        // If a lesser class will do, a cache between this store and the tree may let writes wait.
        let may_wait = self.durability != Durability::EveryOperation || !store.durable_writes();
        let changes = match self.structure_writes {
            StructureWrites::Together => 0,
            StructureWrites::Apart => (layout.height_max() + 1) * size_of::<Restructured>(),
        };
        Ok(frames_max * frame_bytes + Space::ram_bytes(layout.page_count, may_wait) + changes)
    }

    /// Least RAM for a tree on `store`, with [`TreeRam::Least`]: three pages or those of a path, and a bit
    /// for each page of a part of the store. `None` if only [`TreeRam::Ample`] is possible.
    pub fn ram_bytes_least(&self, store: &(impl PageStore + ?Sized)) -> Result<Option<usize>, IndexError> {
        let layout = Layout::new(self, store.page_bytes(), store.page_count())?;
        let is_usual = self.require_for_groups().is_ok() && self.durability == Durability::EveryOperation;
        Ok((is_usual && least::is_possible(&layout, store)).then(|| least::ram_bytes(&layout)))
    }

    /// Bytes of RAM for `frames` more nodes on pages of this size.
    #[doc(hidden)]
    pub const fn frames_bytes(frames: usize, page_bytes: usize) -> usize {
        frames * (page_bytes + size_of::<Frame>())
    }

    /// Largest number of pages that one operation writes together, on a store of `pages` pages of this size.
    pub fn group_pages_max(&self, page_bytes: usize, pages: u32) -> Result<usize, IndexError> {
        Ok(Layout::new(self, page_bytes, pages)?.group_pages_max())
    }
}
