//! The options of the engine's indexes can be set by name.

use nandex::ordered::{
    bepsilon, bplus, clustered, fd, ipl, journal, la, layered, lazy_update, ls_lru, lsb, mb, pio, wpcb,
};
use nandex_stacks::registry::INDEXES;

/// The options of a part of the engine: name and meaning.
type Own = &'static [(&'static str, &'static str)];

/// The indexes that each list of the engine's is for.
const OWN: [(&[&str], Own); 19] = [
    (&["bplus"], &bplus::OPTIONS),
    (&["wpcb"], &wpcb::OPTIONS),
    (&["lazy-update"], &lazy_update::OPTIONS),
    (
        &["lazy-update", "ls-lru", "bftl", "flashdb", "lsb", "mb", "pio", "bepsilon", "fd", "la"],
        &journal::OPTIONS,
    ),
    (&["ls-lru"], &ls_lru::OPTIONS),
    (&["bftl"], &layered::bftl::OPTIONS),
    (&["wobf"], &layered::wobf::OPTIONS),
    (&["ibsf"], &layered::ibsf::OPTIONS),
    (&["bof"], &layered::bof::OPTIONS),
    (&["rbftl"], &layered::rbftl::OPTIONS),
    (&["flashdb"], &layered::flashdb::OPTIONS),
    (&["lsb"], &lsb::OPTIONS),
    (&["mb"], &mb::OPTIONS),
    (&["pio"], &pio::OPTIONS),
    (&["bepsilon"], &bepsilon::OPTIONS),
    (&["fd"], &fd::OPTIONS),
    (&["la"], &la::OPTIONS),
    (&["as-btree", "cb-tree", "fb-tree"], &clustered::OPTIONS),
    (&["as-btree"], &clustered::as_btree::OPTIONS),
];

/// Whether an index takes an option of this name, once.
fn takes(index: &str, name: &str) -> bool {
    let entry = INDEXES.iter().find(|entry| entry.name == index).expect("an index of the registry");
    entry.options.iter().filter(|option| option.name == name).count() == 1
}

#[test]
fn every_option_of_the_engine_can_be_set_by_name() {
    let mut missing = Vec::new();
    for (indexes, own) in OWN {
        for index in indexes {
            let absent = own.iter().filter(|(name, _)| !takes(index, name));
            missing.extend(absent.map(|(name, _)| format!("{index}: {name}")));
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn every_option_of_in_page_logging_is_one_of_its_two_forms() {
    // What `log_area` chooses in the engine are two indexes here.
    let named = ipl::OPTIONS.iter().map(|(name, _)| *name).filter(|name| *name != "log_area");
    let missing: Vec<&str> = named.filter(|name| !takes("ipl", name) && !takes("dipl", name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
