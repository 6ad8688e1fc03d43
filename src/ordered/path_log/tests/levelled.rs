//! Wear levelling and power, on every tree of the log.

use crate::blocks::Validity;
use crate::blocks::wear::WearLevelling;
use crate::ordered::RawConfig;
use crate::ordered::mu::{MuStarTree, MuTree};
use crate::ordered::vm::{VmConfig, VmTree};
use crate::ordered::wandering::WanderingTree;
use crate::testing::levelled::{RECORD, Tree, require_cuts_lose_nothing};
use alloc::boxed::Box;

/// Configuration by which every block that lags by two erases is emptied.
fn keen<C: Copy + Default>() -> RawConfig<C> {
    RawConfig { wear_levelling: WearLevelling::Threshold { gap_erases: 1 }, ..RawConfig::new(RECORD) }
}

macro_rules! opens {
    ($tree:ident, $config:expr) => {
        |chip, is_new| {
            let config = $config;
            let opened = if is_new { $tree::format(chip, &config) } else { $tree::mount(chip, &config) };
            opened.map(|tree| Box::new(tree) as Tree)
        }
    };
}

macro_rules! loses_nothing {
    ($($name:ident: $tree:ident, $config:expr;)+) => {
        $( #[test] fn $name() { require_cuts_lose_nothing(opens!($tree, $config)); } )+
    };
}

loses_nothing! {
    a_cut_in_a_move_of_a_mu_tree_loses_nothing: MuTree, keen();
    a_cut_in_a_move_of_a_mu_star_tree_loses_nothing: MuStarTree, keen();
    a_cut_in_a_move_of_a_wandering_tree_loses_nothing: WanderingTree, keen();
    a_cut_in_a_move_of_a_tree_with_a_journal_loses_nothing: WanderingTree, RawConfig { journal: 6, ..keen() };
    a_cut_in_a_move_of_a_vm_tree_loses_nothing: VmTree, VmConfig { tree: keen(), ..VmConfig::new(RECORD) };
    a_cut_in_a_move_of_a_counted_tree_loses_nothing: MuTree,
        RawConfig { validity: Some(Validity::Counts), ..keen() };
}
