//! The update journal of every tree that keeps updates back in RAM.

use super::{Number, Settings};
use crate::names::{OptionInfo, option};
use nandex::IndexError;
use nandex::index::most;
use nandex_papers::ordered::journal::JournalConfig;

// What fits the store is seen when the store is there.
pub(crate) const PAGES: Number<u32> = Number::new(
    option("journal_pages", "for 8 times the updates in RAM", "pages of the update journal"),
    (0, most::PAGES as u32),
);
const GROUP: Number<u32> = Number::new(
    option(
        "journal_group",
        "1, or 0 when syncs suffice",
        "updates written together: at most so many; 0, as many as fill a page or until a sync",
    ),
    (0, most::PAGES as u32),
);

pub(crate) const OPTIONS: [OptionInfo; 2] = [PAGES.info, GROUP.info];

/// The configuration of the update journal.
pub fn config(settings: &Settings) -> Result<JournalConfig, IndexError> {
    let config = JournalConfig::new(settings.durability);
    let group = GROUP.or(&settings.options, config.group)?;
    Ok(JournalConfig { pages: PAGES.of(&settings.options)?, group, ..config })
}
