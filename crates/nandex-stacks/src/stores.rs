//! The list of FTLs: how exactly the sources specify each, how it is opened, and its options.

use crate::entry::{Confidence, Open, StoreEntry};
use crate::ftls;
use crate::names::{self, UnknownName};
use crate::options;
use crate::spare;
use nandex::ftl::dftl::Dftl;
use nandex::ftl::page_map::PageMapFtl;
use nandex_papers::ftl::bast::Bast;
use nandex_papers::ftl::cftl::Cftl;
use nandex_papers::ftl::fast::Fast;
use nandex_papers::ftl::hftl::Hftl;
use nandex_papers::ftl::lazy::Lazy;
use nandex_papers::ftl::nftl::Nftl;
use nandex_papers::ftl::sast::Sast;
use nandex_papers::ftl::superblock::Superblock;

/// Makes the entry of a scheme on the shared ground from its type, its settings and its options.
macro_rules! on_shared_ground {
    ($scheme:ty, $settings:path, $options:expr, { $($field:ident: $value:expr),* $(,)? }) => {
        StoreEntry {
            $($field: $value,)*
            format: |nand, settings| ftls::scheme::<$scheme>(spare::for_ftl(nand), $settings(settings), Open::Format),
            mount: |nand, settings| ftls::scheme::<$scheme>(spare::for_ftl(nand), $settings(settings), Open::Mount),
            options: &$options,
        }
    };
}

list! {
    /// All stores.
    STORES: StoreEntry = ENTRIES
}

const ENTRIES: &[StoreEntry] = &[
    StoreEntry {
        name: "page-map",
        summary: "page mapping: any logical page in any physical page, atomic groups",
        confidence: Confidence::High,
        basis: "several published simulators agree; cleaning checked against a closed form",
        parts: &["map"],
        is_atomic: true,
        format: |nand, settings| {
            Ok(Box::new(PageMapFtl::format(spare::for_ftl(nand), &options::ftl::page_map(settings)?)?))
        },
        mount: |nand, settings| {
            Ok(Box::new(PageMapFtl::mount(spare::for_ftl(nand), &options::ftl::page_map(settings)?)?))
        },
        options: &options::ftl::PAGE_MAP,
    },
    on_shared_ground!(Nftl, options::ftl::nftl, options::ftl::NFTL, {
        name: "nftl",
        summary: "NFTL (Linux, after Ban 1995): block mapping, chains of replacement blocks, folds",
        confidence: Confidence::High,
        basis: "the driver was read; validity by versions instead of marks, mounting is ours",
        parts: &["block map", "chains"],
        is_atomic: false,
    }),
    on_shared_ground!(Bast, options::ftl::bast, options::ftl::BAST, {
        name: "bast",
        summary: "BAST (Kim et al. 2002): data blocks in place, a log block for each logical block that needs one",
        confidence: Confidence::High,
        basis: "code and notes agree on the data path; medium for the victim; mounting is ours",
        parts: &["block map", "log blocks"],
        is_atomic: false,
    }),
    on_shared_ground!(Sast, options::ftl::sast, options::ftl::SAST, {
        name: "sast",
        summary: "SAST, N:K (Park et al. 2008): groups of N logical blocks share up to K log blocks",
        confidence: Confidence::High,
        basis: "as in a published simulator that was read; the paper was not at hand",
        parts: &["block map", "groups"],
        is_atomic: false,
    }),
    on_shared_ground!(Fast, options::ftl::fast, options::ftl::FAST, {
        name: "fast",
        summary: "FAST (Lee et al. 2007): data blocks in place, one sequential log block, random ones shared by all",
        confidence: Confidence::High,
        basis: "rules as in a published simulator, checked by its test vector; recovery and trim are ours",
        parts: &["block map", "log blocks"],
        is_atomic: false,
    }),
    on_shared_ground!(Superblock, options::ftl::superblock, options::ftl::SUPERBLOCK, {
        name: "superblock",
        summary: "superblock FTL (Kang et al. 2006): adjacent logical blocks share their physical blocks page by page",
        confidence: Confidence::Low,
        basis: "abstracts and lecture notes: our reading; the map is in RAM",
        parts: &["map", "superblocks"],
        is_atomic: false,
    }),
    on_shared_ground!(Dftl, options::ftl::dftl, options::ftl::DFTL, {
        name: "dftl",
        summary: "DFTL (Gupta et al. 2009): page mapping, the table on flash, entries in use cached; atomic groups",
        confidence: Confidence::High,
        basis: "three published simulators agree; recovery is ours",
        parts: &["map", "map on flash"],
        is_atomic: true,
    }),
    on_shared_ground!(Lazy, options::ftl::lazy, options::ftl::LAZY, {
        name: "lazy",
        summary: "LazyFTL (Ma et al. 2011): page mapping, the table on flash, told late and block by block; atomic groups",
        confidence: Confidence::Medium,
        basis: "detailed notes of others; recovery needs the version rule, which is ours",
        parts: &["map", "map on flash", "update area"],
        is_atomic: true,
    }),
    on_shared_ground!(Cftl, options::ftl::cftl, options::ftl::CFTL, {
        name: "cftl",
        summary: "CFTL-like (after Park, Debnath and Du 2010): blocks map what is cold, pages the rest; runs cached",
        confidence: Confidence::Low,
        basis: "abstracts only: our reading",
        parts: &["map", "map on flash", "block map"],
        is_atomic: true,
    }),
    on_shared_ground!(Hftl, options::ftl::hftl, options::ftl::HFTL, {
        name: "hftl",
        summary: "HFTL-like (after Lee, Yun and Lee 2009): FAST for cold pages, a page-mapped area for hot ones",
        confidence: Confidence::Low,
        basis: "title and abstract only: our reading",
        parts: &["block map", "log blocks", "hot area"],
        is_atomic: false,
    }),
];

/// The store with this name.
pub fn store(name: &str) -> Result<&'static StoreEntry, UnknownName> {
    names::find("store", name, STORES, |e| e.name)
}
