//! How a tree is formatted: its rules, the size of its nodes, the durability wanted.

use super::Rules;
use crate::check::{IndexError, words};
use crate::index::Durability;
use crate::nand::Differs;
use crate::spatial::coordinate::Coordinate;
use crate::spatial::node::NodeFormat;

/// How a tree is formatted.
///
/// ```
/// use nandex::Durability;
/// use nandex::spatial::r_tree::{Split, config};
///
/// let config = config(Split::Linear).with_capacity(20).with_durability(Durability::EverySync);
/// assert_eq!(config.leaf_capacity, Some(20));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(not(feature = "unstable"), non_exhaustive)]
pub struct SpatialConfig<R> {
    /// The kind of tree and its settings.
    pub rules: R,
    /// Entries of a leaf at most, 4 or more; `None` means as many as the page holds.
    pub leaf_capacity: Option<usize>,
    /// Children of any other node at most, 4 or more; `None` means as many as the page holds.
    pub internal_capacity: Option<usize>,
    /// Entries of a node at least, in percent of its capacity, up to 50.
    pub fill_min_percent: u8,
    /// The durability class wanted; a store on which the tree cannot give it is refused.
    pub durability: Durability,
}

impl<R> SpatialConfig<R> {
    /// Full pages, 40 % full at least, every operation durable.
    pub const fn new(rules: R) -> SpatialConfig<R> {
        SpatialConfig {
            rules,
            leaf_capacity: None,
            internal_capacity: None,
            fill_min_percent: 40,
            durability: Durability::EveryOperation,
        }
    }

    /// Returns this configuration with at most `entries` entries in each node.
    #[must_use]
    pub fn with_capacity(mut self, entries: usize) -> SpatialConfig<R> {
        self.leaf_capacity = Some(entries);
        self.internal_capacity = Some(entries);
        self
    }

    /// Layout of the nodes on `page_count` pages of `page_bytes` bytes.
    pub fn node_format<C: Coordinate, const D: usize>(
        &self,
        page_bytes: usize,
        page_count: u32,
    ) -> Result<NodeFormat, IndexError>
    where
        R: Rules<C, D>,
    {
        let mut format = NodeFormat::new::<C, D>(R::KIND, (page_bytes, page_count), R::KEY_BYTES);
        let capacity = |wanted: Option<usize>, possible: u16| {
            wanted.map_or(possible, |n| u16::try_from(n).unwrap_or(u16::MAX))
        };
        format.leaf_capacity = capacity(self.leaf_capacity, format.leaf_capacity);
        format.internal_capacity = capacity(self.internal_capacity, format.internal_capacity);
        format.fill_min_percent = self.fill_min_percent;
        format.group_per_level = R::GROUP_PER_LEVEL;
        self.rules.put_options(&mut format.options);
        self.rules.adapt(&mut format);
        format.require_sane::<C, D>()?;
        Ok(format)
    }

    /// Returns an error if the layout `found` on the medium differs from this configuration. `page_bytes` is
    /// the size of a whole node.
    #[doc(hidden)]
    pub fn require_format<C: Coordinate, const D: usize>(
        &self,
        found: &NodeFormat,
        page_bytes: usize,
    ) -> Result<(), IndexError>
    where
        R: Rules<C, D>,
    {
        let expected = self.node_format::<C, D>(page_bytes, found.page_count)?;
        if (NodeFormat { layer: found.layer, ..expected }) != *found {
            let differs = if found.kind == R::KIND { Differs::Settings } else { Differs::Kind };
            let what = words("the tree has other rules or nodes of other capacities");
            return Err(IndexError::other(differs, what));
        }
        Ok(())
    }
}
