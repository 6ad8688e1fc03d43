//! Every policy by name, with its rule and how exactly the sources specify it.

use super::*;
use alloc::boxed::Box;
use nandex::cache::policy::Lru;

/// How completely the sources define a policy, and so how far our version is theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// The sources describe the victim rule completely.
    Published,
    /// The sources give the rule; a number or a special case is ours.
    Completed,
    /// The sources are abstracts and single sentences; the policy is our reading of them.
    OurReading,
}

impl Basis {
    /// The words for this basis in printed lists.
    pub const fn words(self) -> &'static str {
        match self {
            Basis::Published => "as published",
            Basis::Completed => "completed by us",
            Basis::OurReading => "our reading",
        }
    }
}

/// A policy that can be chosen by name.
#[derive(Clone, Copy, Debug)]
pub struct PolicyEntry {
    /// The policy's name in settings and results.
    pub name: &'static str,
    /// Rule of the next page to be evicted, in one line.
    pub summary: &'static str,
    /// How much of the rule comes from its source.
    pub basis: Basis,
    /// Makes the policy for a cache.
    pub make: fn(&PolicyConfig) -> Box<dyn Replacement>,
}

macro_rules! policy {
    ($name:literal, $basis:ident, $summary:literal, $make:expr) => {
        PolicyEntry { name: $name, summary: $summary, basis: Basis::$basis, make: $make }
    };
}

/// All policies. The baselines come first, the policies for the write buffer of a device last.
pub const POLICIES: &[PolicyEntry] = &[
    policy!("lru", Published, "the page not used for the longest time", |s| Box::new(Lru::new(s.frames))),
    policy!("fifo", Published, "the page that came first", |s| Box::new(Fifo::new(s.frames))),
    policy!("clock", Published, "the page that came first, unless used since", |s| Box::new(Clock::new(
        s.frames
    ))),
    policy!("2q", Published, "new pages soon, pages asked for again late", |s| Box::new(TwoQ::new(s.frames))),
    policy!("s3-fifo", Published, "new pages soon, pages with hits go round", |s| Box::new(S3Fifo::new(
        s.frames
    ))),
    policy!("cflru", Published, "a clean page of the older half, else the oldest page", |s| Box::new(
        Cflru::new(s)
    )),
    policy!("cflru-dynamic", Completed, "as cflru, with a clean-first region that grows and shrinks", |s| {
        Box::new(Cflru::dynamic(s))
    }),
    policy!("lru-wsr", Published, "the oldest page, a dirty one after a second chance", |s| {
        Box::new(LruWsr::new(s.frames))
    }),
    policy!("ccf-lru", Completed, "a clean page used once, else a dirty one that proved cold", |s| {
        Box::new(CcfLru::new(s.frames))
    }),
    policy!("ad-lru", Published, "the oldest clean page of the cold list, then of the hot one", |s| {
        Box::new(AdLru::new(s.frames))
    }),
    policy!("cfdc", Published, "old clean pages, then dirty ones by clusters of neighbours", |s| Box::new(
        Cfdc::new(s)
    )),
    policy!("acr", OurReading, "from the clean or the dirty list, as costs tell", |s| Box::new(Acr::new(s))),
    policy!("fd-buffer", OurReading, "from the clean or the dirty pool, as costs tell", |s| Box::new(
        FdBuffer::new(s)
    )),
    policy!("lsf", OurReading, "pages of the longest sequential run", |s| Box::new(Lsf::new(s.frames))),
    policy!("dabc-nv", OurReading, "from one of four clocks, by medium and dirtiness, as costs tell", |s| {
        Box::new(DabcNv::new(s))
    }),
    policy!("ref", OurReading, "old dirty pages of erase blocks that are being written", |s| {
        Box::new(RecentlyEvicted::new(s))
    }),
    policy!("fab", Completed, "the erase block with the most pages in the cache", |s| Box::new(Fab::new(s))),
    policy!("bplru", Published, "the erase block not written for the longest time, written whole", |s| {
        Box::new(Bplru::new(s))
    }),
];

/// Finds a policy by its name.
pub fn policy(name: &str) -> Option<&'static PolicyEntry> {
    POLICIES.iter().find(|entry| entry.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_has_the_name_it_is_listed_under() {
        for entry in POLICIES {
            assert_eq!((entry.make)(&PolicyConfig::new(4)).name(), entry.name);
            assert_eq!(POLICIES.iter().filter(|other| other.name == entry.name).count(), 1, "{}", entry.name);
            assert!(policy(entry.name).is_some());
        }
        assert!(policy("mru").is_none());
    }
}
