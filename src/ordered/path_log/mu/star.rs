//! The mu*-Tree (Ahn, Kang, Jung, Kim and Maeng, IEEE Transactions on Computers 62(4), 2013): a mu-Tree whose
//! pages may give their leaf more than half. The share depends on how the tree is used.
//!
//! Only the abstract of the paper is known. It states: the whole path in one page as in the mu-Tree, a
//! *generalised page layout* for better use of pages, an *adaptive* choice of the layout from the access
//! pattern, and pages of *different layouts side by side* in one tree. The layouts ([`LeafShare`]: 1/2, 5/8,
//! 3/4 and 7/8 of the page), the rules by which a path changes its layout (`settle`) and the controller
//! ([`super::controller`]) are our reading.
//!
//! * Each page names its layout in its tag. A node has the room that the layout of *its* page gives it.
//! * Search, insertion, removal, collection and recovery are those of the mu-Tree. A changed path goes into a
//!   page of the layout wanted at that moment. So a tree changes its layout only along paths that are
//!   changed.
//! * A layout whose inner nodes would be too small for the tree's height is replaced by the next smaller leaf
//!   share.
//!
//! Invariants: those of `path_log::ground`. With one layout, or while the layout stays, every update without
//! a split programs one page.
//!
//! Confidence: high for the goals; layouts, conversion and controller are reconstructed.

use super::LayoutChoice;
use super::PathPages;
use super::controller::{Costs, Facts, Period, step_towards_the_cheapest};
use super::layout::{Layout, LeafShare};
use crate::check::{IndexError, message};
use crate::fault::IndexFault;
use crate::ordered::Metric;
use crate::ordered::RawConfig;
use crate::ordered::path_log::ground::{Leaf, LeafUse, RawTree};
use alloc::vec::Vec;

crate::ordered::forward::named_tree! {
    /// A mu*-Tree on a chip.
    ///
    /// ```
    /// # use nandex::nand::{catalogue::mlc_64m, sim::SimChip};
    /// # let chip = SimChip::new(&mlc_64m().with_blocks(64))?;
    /// use nandex::ordered::mu::{LayoutPolicy, LeafShare, MenuConfig};
    /// use nandex::{OrderedIndex, RecordFormat, MuStarTree, RawConfig};
    ///
    /// let config = RawConfig::new(RecordFormat::new(2, 4))
    ///     .with_scheme(MenuConfig::default().with_layout(LayoutPolicy::Fixed(LeafShare::HALF)));
    /// let mut tree = MuStarTree::format(chip, &config)?;
    /// tree.insert(&[0, 7], &[1; 4])?;
    /// tree.close()?;
    /// let mut tree = MuStarTree::mount(tree.into_nand(), &config)?;
    /// assert!(tree.get(&[0, 7], &mut [0; 4])?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    MuStarTree<N> = RawTree<N, PathPages<Menu>>, set up by RawConfig<MenuConfig>
}

/// Rule by which the layout of changed paths is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(feature = "unstable"), non_exhaustive)]
pub enum LayoutPolicy {
    /// The controller chooses.
    #[default]
    Adaptive,
    /// Always this share, as far as the height of the tree allows it.
    Fixed(LeafShare),
}

/// Settings of a mu*-Tree besides those of all trees on raw NAND.
///
/// See the example of [`MuStarTree`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(feature = "unstable"), non_exhaustive)]
pub struct MenuConfig {
    /// How the layout of changed paths is chosen.
    pub layout: LayoutPolicy,
    /// The costs that the choice reckons with.
    pub costs: Costs,
}

/// Choice among the layouts that suit the page and record sizes.
#[derive(Clone, Copy, Debug)]
pub struct Menu {
    policy: LayoutPolicy,
    /// Number of layouts in use, from the first of [`LeafShare::ALL`] on.
    layouts: u8,
    current: LeafShare,
    costs: Costs,
    period: Period,
    layout_switches: u64,
    conversions: u64,
    conversion_pages: u64,
}

impl Menu {
    fn policy_of(&mut self, policy: LayoutPolicy) {
        self.policy = policy;
        if let LayoutPolicy::Fixed(share) = policy {
            self.current = share.min(LeafShare::ALL[usize::from(self.layouts) - 1]);
        }
        self.period = Period::default();
    }
}

/// True if trees with these pages can use the layout: two levels and a third to grow by, and a root that can
/// take over from any leaf below it.
fn is_usable(layout: &Layout) -> bool {
    layout.height_max() > 2 && layout.shape(1, 2).capacity <= layout.root_entries_max(1)
}

impl LayoutChoice for Menu {
    type Config = MenuConfig;

    const KIND: &'static [u8] = b"mu*-tree 1";

    fn new(layout: &Layout) -> Menu {
        let usable = LeafShare::ALL.iter().skip(1).take_while(|share| is_usable(&layout.with_share(**share)));
        Menu {
            policy: LayoutPolicy::Adaptive,
            layouts: 1 + usable.count() as u8,
            current: LeafShare::HALF,
            costs: Costs::default(),
            period: Period::default(),
            layout_switches: 0,
            conversions: 0,
            conversion_pages: 0,
        }
    }

    fn configured(mut self, config: &MenuConfig) -> Result<Menu, IndexFault> {
        if let LayoutPolicy::Fixed(share) = config.layout
            && share.id() >= self.layouts
        {
            return Err(IndexError::unsupported(message!(
                "layout {}: the inner nodes of pages and records of these sizes would be too small",
                share.name()
            ))
            .into());
        }
        self.policy_of(config.layout);
        self.costs = config.costs;
        Ok(self)
    }

    fn layouts(&self) -> u8 {
        self.layouts
    }

    fn wanted(&self) -> LeafShare {
        self.current
    }

    fn resume(&mut self, share: LeafShare) {
        if self.policy == LayoutPolicy::Adaptive {
            self.current = share;
        }
    }

    fn is_due(&self) -> bool {
        self.policy == LayoutPolicy::Adaptive && self.period.is_over()
    }

    fn reconsider(&mut self, layout: &Layout, facts: &Facts) {
        // A tree of one leaf looks the same in every layout.
        if facts.height > 1 {
            let costs: Vec<_> = LeafShare::ALL
                .iter()
                .take(usize::from(self.layouts))
                .map(|share| self.period.cost_ns(&layout.with_share(*share), facts, &self.costs))
                .collect();
            let next = LeafShare::ALL[step_towards_the_cheapest(&costs, usize::from(self.current.id()))];
            self.layout_switches += u64::from(next != self.current);
            self.current = next;
        }
        self.period = Period::default();
    }

    fn note_leaf(&mut self, kind: LeafUse, leaf: Leaf) {
        self.period.note(kind, leaf);
    }

    fn note_conversion(&mut self, pages: u32) {
        self.conversions += 1;
        self.conversion_pages += u64::from(pages);
    }

    fn add_metrics(&self, metrics: &mut Vec<Metric>) {
        let mut add = |name, value| metrics.push(Metric { name, value });
        add("leaf_share_eighths", self.current.eighths() as u64);
        add("layout_switches", self.layout_switches);
        add("conversions", self.conversions);
        add("conversion_pages", self.conversion_pages);
    }
}

impl<N> MuStarTree<N> {
    /// Sets the rule by which the layout of changed paths is chosen from now on.
    pub fn set_layout(&mut self, policy: LayoutPolicy) {
        self.ground.nodes.path.scheme.choice.policy_of(policy);
    }

    /// Leaf share that changed paths take now, if the height of the tree allows it.
    pub fn leaf_share(&self) -> LeafShare {
        self.ground.nodes.path.scheme.choice.current
    }
}
