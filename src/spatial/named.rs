//! Macro that gives trees names of their own.

/// Defines a tree whose nodes are pages under a name of its own.
macro_rules! named_tree {
    ($(#[$doc:meta])* $name:ident = $rules:ty) => {
        $(#[$doc])*
        pub struct $name<S, C, const D: usize> {
            ground: Tree<C, D, PagedNodes<S, C, D>, $rules>,
        }

        impl<S: PageStore, C: Coordinate, const D: usize> $name<S, C, D> {
            /// Makes an empty tree whose nodes are pages; whatever the store held is dropped.
            pub fn format(store: S, config: &SpatialConfig<$rules>) -> Result<Self, IndexError> {
                Tree::format(store, config).map(|ground| $name { ground })
            }

            /// Opens the tree that a store holds, and refuses one formatted otherwise or giving less
            /// durability.
            pub fn mount(store: S, config: &SpatialConfig<$rules>) -> Result<Self, IndexError> {
                Tree::mount(store, config).map(|ground| $name { ground })
            }

            /// Opens the tree that a store holds, however it was formatted.
            pub fn mount_found(store: S) -> Result<Self, IndexError> {
                Tree::mount_found(store).map(|ground| $name { ground })
            }

            /// This tree with at most `ram_bytes` of RAM, not counting the store. Refused if that is less
            /// than it needs.
            pub fn with_ram(self, ram_bytes: usize) -> Result<Self, IndexError> {
                self.ground.with_ram(ram_bytes).map(|ground| $name { ground })
            }

            /// The store below.
            pub fn store(&self) -> &S {
                self.ground.store()
            }

            /// Returns the store. Unsynced changes are as after a power cut.
            pub fn into_store(self) -> S {
                self.ground.into_store()
            }
        }

        impl<S: PageStore, C: Coordinate, const D: usize> SpatialIndex<C, D> for $name<S, C, D> {
            fn durability(&self) -> Durability {
                self.ground.durability()
            }

            fn insert(&mut self, rect: &Rect<C, D>, id: u64) -> Result<(), IndexError> {
                self.ground.insert(rect, id)
            }

            fn remove(&mut self, rect: &Rect<C, D>, id: u64) -> Result<bool, IndexError> {
                self.ground.remove(rect, id)
            }

            fn load(
                &mut self,
                entries: Entries<'_, C, D>,
                packing: Packing,
                fill: Fill,
            ) -> Result<u64, IndexError> {
                self.ground.load(entries, packing, fill)
            }

            fn window(
                &mut self,
                query: &Rect<C, D>,
                relation: Relation,
                visit: VisitRect<'_, C, D>,
            ) -> Result<(), IndexError> {
                self.ground.window(query, relation, visit)
            }

            fn nearest(
                &mut self,
                point: &[C; D],
                count: usize,
                visit: VisitNearest<'_, C, D>,
            ) -> Result<(), IndexError> {
                self.ground.nearest(point, count, visit)
            }

            fn regions(&mut self, visit: VisitRegion<'_, C, D>) -> Result<(), IndexError> {
                self.ground.regions(visit)
            }

            fn sync(&mut self) -> Result<(), IndexError> {
                self.ground.sync()
            }

            fn close(&mut self) -> Result<(), IndexError> {
                self.ground.close()
            }

            fn check(&mut self) -> Result<CheckReport, IndexError> {
                self.ground.check()
            }

            fn stats(&self) -> IndexStats {
                self.ground.stats()
            }

            fn ram_bytes(&self) -> usize {
                self.ground.ram_bytes()
            }
        }

        open_ground!([S, C, const D: usize] $name<S, C, D> = Tree<C, D, PagedNodes<S, C, D>, $rules>);
    };
}

use super::coordinate::Coordinate;
use super::geometry::Rect;
use super::hilbert::HilbertRules;
use super::paged::PagedNodes;
use super::r_tree::Guttman;
use super::tree::update::Grouped;
use super::tree::{Packing, SpatialConfig, Tree};
use super::{Entries, Relation, SpatialIndex, VisitNearest, VisitRect, VisitRegion};
use crate::check::{CheckReport, IndexError};
use crate::index::{Durability, Fill, IndexStats};
use crate::shared::open_ground;
use crate::store::PageStore;

named_tree! {
    /// An R-tree whose nodes are pages.
    ///
    /// ```
    /// use core::ops::ControlFlow;
    /// use nandex::spatial::r_tree::{RTree, Split, config};
    /// use nandex::spatial::{Rect, Relation, SpatialIndex};
    /// use nandex::store::ram::RamStore;
    ///
    /// let config = config(Split::Quadratic);
    /// let mut tree: RTree<_, i32, 2> = RTree::format(RamStore::new(512, 100), &config)?;
    /// tree.insert(&Rect::new([0, 0], [4, 4])?, 7)?;
    /// let mut found = Vec::new();
    /// tree.window(&Rect::point([3, 3])?, Relation::Covers, &mut |_, id| {
    ///     found.push(id);
    ///     ControlFlow::Continue(())
    /// })?;
    /// assert_eq!(found, [7]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    RTree = Grouped<Guttman>
}

named_tree! {
    /// A Hilbert R-tree whose nodes are pages.
    ///
    /// ```
    /// use nandex::spatial::hilbert::{HilbertRTree, config};
    /// use nandex::spatial::{Rect, SpatialIndex};
    /// use nandex::store::ram::RamStore;
    ///
    /// let config = config(Some(Rect::new([0.0, 0.0], [1.0, 1.0])?));
    /// let mut tree: HilbertRTree<_, f64, 2> = HilbertRTree::format(RamStore::new(512, 100), &config)?;
    /// tree.insert(&Rect::point([0.5, 0.25])?, 7)?;
    /// tree.close()?;
    /// let mut tree = HilbertRTree::mount(tree.into_store(), &config)?;
    /// assert!(tree.remove(&Rect::point([0.5, 0.25])?, 7)?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    HilbertRTree = HilbertRules<C, D>
}
