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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::{index, store};
    use nandex::ordered::RecordFormat;

    #[test]
    fn an_ftl_is_chosen_only_where_there_is_a_choice() {
        let settings = Settings::new(RecordFormat::new(4, 4));
        let given = Settings { ram_bytes: Some(1 << 15), ..settings.clone() };
        let tried = |name: &str, settings: &Settings| index(name).unwrap().fitting(settings).count();
        assert_eq!((tried("bplus", &given), tried("mu", &given)), (4, 1));
        assert_eq!((tried("bplus", &settings), tried("bplus", &given.with("ftl", "fast"))), (1, 1));
        assert!(SMALLER_FTLS.iter().all(|name| store(name).is_ok()));
    }
}
