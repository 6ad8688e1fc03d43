//! The FTL below an index where none is named: page mapping, or where its table does not fit in the RAM one
//! that keeps the table on the chip.

use crate::entry::{Hosting, IndexEntry};
use crate::options::Settings;

/// The FTLs that take the place of page mapping, the one that costs least first.
pub const SMALLER_FTLS: [&str; 3] = ["dftl", "lazy", "hftl"];

impl IndexEntry {
    /// Settings to be tried one after the other until the RAM suffices for one: those given, then the same on
    /// an FTL with smaller tables, where RAM is limited, the index stands on an FTL and none is named.
    pub fn fitting<'s>(&self, settings: &'s Settings) -> impl Iterator<Item = Settings> + use<'s> {
        let may_choose = self.hosting == Hosting::Store
            && settings.ram_bytes.is_some()
            && settings.options.text("ftl").is_none();
        let others = SMALLER_FTLS.iter().filter(move |_| may_choose);
        std::iter::once(settings.clone()).chain(others.map(|ftl| settings.clone().with("ftl", ftl)))
    }
}
