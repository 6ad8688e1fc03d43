//! The candidates to search: every index on every layer that it can use, and the options worth trying.

use crate::names::OptionInfo;
use crate::registry::{Hosting, INDEXES, IndexEntry, STORES, StoreEntry, store};
use nandex::ordered::Durability;
use nandex_stacks::options::Options;

/// An index with the options that make it a stack.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) index: &'static IndexEntry,
    pub(super) options: Options,
}

/// Options to try, one after the other, on the best candidates: the most important ones, with values that
/// break no promise. Sizes are not among them, since they follow from the RAM.
static TRIED: [(&str, &[&str]); 9] = [
    ("cache", &["cflru", "2q", "cfdc"]),
    ("victim", &["cost-benefit", "fifo"]),
    ("pool_percent", &["25", "80"]),
    ("window_percent", &["25", "80"]),
    ("batch_percent", &["25", "80"]),
    ("head_percent", &["80"]),
    ("buffer_percent", &["80"]),
    ("journal", &["64"]),
    ("log_unit", &["sector"]),
];

impl Candidate {
    /// The name, with the FTL below: `bplus on dftl`, `mu`.
    pub(super) fn name(&self) -> String {
        match self.ftl() {
            Some(ftl) => format!("{} on {}", self.index.name, ftl.name),
            None => self.index.name.to_string(),
        }
    }

    pub(super) fn ftl(&self) -> Option<&'static StoreEntry> {
        store(self.options.text("ftl")?).ok()
    }

    /// Number of parts of the index and its FTL and of options set. Fewer is simpler.
    pub(super) fn parts(&self) -> usize {
        let below = self.ftl().map_or(0, |ftl| ftl.parts.len());
        let set = self.options.iter().filter(|(name, _)| *name != "ftl").count();
        self.index.parts.len() + below + set
    }

    pub(super) fn with(&self, name: &str, value: &str) -> Candidate {
        let mut other = self.clone();
        other.options.set(name, value);
        other
    }

    /// The variants of the candidate to try, each with one option set to another value.
    pub(super) fn variations(&self) -> Vec<(&'static str, &'static str)> {
        let below = self.ftl().map_or(&[][..], |ftl| ftl.options);
        let of_ftls = |name: &str| STORES.iter().any(|entry| knows(entry.options, name));
        let has = |name: &str| {
            // A tree on a store lists the options of every FTL; those of its own count.
            if self.index.hosting == Hosting::Store && of_ftls(name) {
                return knows(below, name);
            }
            knows(self.index.options, name)
        };
        let tried = TRIED.iter().filter(|(name, _)| has(name));
        tried.flat_map(|(name, values)| values.iter().map(move |value| (*name, *value))).collect()
    }
}

fn knows(options: &[OptionInfo], name: &str) -> bool {
    options.iter().any(|option| option.name == name)
}

/// All stacks that can keep the promise: every index on raw NAND, and every index for stores on each FTL.
pub(super) fn candidates(promise: Durability) -> Vec<Candidate> {
    let on = |index: &'static IndexEntry, ftl: Option<&str>| {
        let mut options = Options::default();
        ftl.iter().for_each(|name| options.set("ftl", name));
        Candidate { index, options }
    };
    let keeps = |index: &IndexEntry, ftl: &StoreEntry| {
        promise == Durability::None || ftl.is_atomic || index.divides_chip
    };
    let mut all = Vec::new();
    for index in INDEXES {
        match index.hosting {
            Hosting::Raw => all.push(on(index, None)),
            Hosting::Store => {
                let ftls = STORES.iter().filter(|ftl| keeps(index, ftl));
                all.extend(ftls.map(|ftl| on(index, Some(ftl.name))));
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandex_papers::cache::catalogue;

    #[test]
    fn the_field_has_every_index_and_no_stack_that_breaks_the_promise() {
        let durable = candidates(Durability::EveryOperation);
        assert!(INDEXES.iter().all(|index| durable.iter().any(|c| c.index.name == index.name)));
        let torn = |c: &Candidate| c.ftl().is_some_and(|f| !f.is_atomic) && !c.index.divides_chip;
        assert!(!durable.iter().any(torn));
        assert!(candidates(Durability::None).iter().any(torn));
    }

    #[test]
    fn options_that_are_tried_are_known_and_cost_simplicity() {
        let field = candidates(Durability::None);
        for (name, values) in TRIED {
            let taker = field.iter().find(|c| c.variations().iter().any(|(tried, _)| *tried == name));
            let taker = taker.unwrap_or_else(|| panic!("nobody takes {name}"));
            assert!(taker.index.check_options(&taker.with(name, values[0]).options).is_ok(), "{name}");
            assert_eq!(taker.with(name, values[0]).parts(), taker.parts() + 1);
        }
        let cached = TRIED.iter().find(|(name, _)| *name == "cache").unwrap();
        assert!(cached.1.iter().all(|name| catalogue::policy(name).is_some()), "{cached:?}");
        let of = |name: &str| field.iter().find(|c| c.name() == name).unwrap();
        assert!(of("bplus on page-map").parts() < of("lazy-update on page-map").parts());
        assert!(of("bplus on page-map").parts() < of("bplus on dftl").parts());
        assert!(of("bplus on dftl").variations().iter().all(|(name, _)| *name != "separation"));
    }
}
