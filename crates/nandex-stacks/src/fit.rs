//! Chooses the FTL below an index if none is named: page mapping, or one that keeps its table on the chip if
//! the table does not fit the RAM.

use crate::entry::{Hosting, IndexEntry};
use crate::options::Settings;

/// FTLs that may replace page mapping, the cheapest one first.
pub const SMALLER_FTLS: [&str; 3] = ["dftl", "lazy", "hftl"];

impl IndexEntry {
    /// Settings to try in turn until the RAM suffices: the given ones, then the same with FTLs that have
    /// smaller tables. The latter are tried only if RAM is limited, the index stands on an FTL, and the
    /// settings name none.
    pub fn fitting<'s>(&self, settings: &'s Settings) -> impl Iterator<Item = Settings> + use<'s> {
        let may_choose = self.hosting == Hosting::Store
            && settings.ram_bytes.is_some()
            && settings.options.text("ftl").is_none();
        let others = SMALLER_FTLS.iter().filter(move |_| may_choose);
        std::iter::once(settings.clone()).chain(others.map(|ftl| settings.clone().with("ftl", ftl)))
    }
}
