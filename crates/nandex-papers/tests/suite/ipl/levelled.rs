//! Wear levelling and power in both forms of in-page logging.

use super::RECORD;
use nandex::IndexError;
use nandex::blocks::wear::WearLevelling;
use nandex::testing::levelled::{Chip, Tree, require_cuts_lose_nothing};
use nandex_papers::ordered::ipl::{IplConfig, IplTree, LogArea};

fn open(area: LogArea, chip: Chip, is_new: bool) -> Result<Tree, IndexError> {
    let wear_levelling = WearLevelling::Threshold { gap_erases: 1 };
    let config = IplConfig { wear_levelling, ..IplConfig::new(RECORD, area) };
    let opened = if is_new { IplTree::format(chip, &config) } else { IplTree::mount(chip, &config) };
    opened.map(|tree| Box::new(tree) as Tree)
}

#[test]
fn a_cut_in_a_levelling_merge_of_ipl_loses_nothing() {
    require_cuts_lose_nothing(|chip, is_new| open(LogArea::Fixed, chip, is_new));
}

#[test]
fn a_cut_in_a_levelling_merge_of_dipl_loses_nothing() {
    require_cuts_lose_nothing(|chip, is_new| open(LogArea::Dynamic, chip, is_new));
}
