//! `docs/options.md` lists the options as they are. `NANDEX_BLESS=1 cargo test -p nandex-stacks --test
//! suite options_docs::` writes it anew.

use nandex_stacks::names::OptionInfo;
use nandex_stacks::registry::{INDEXES, STORES, WRAPPERS};
use nandex_stacks::spatial::registry::SPATIAL;
use std::fmt::Write;

const HEAD: &str = "# Options

Written from the registry by the test `options_docs`; edit `crates/nandex-stacks`, not this page.

For example, `nandex compare --index ls-lru --set split=two-nodes --set cache_pages=16`. Experiments say `options = { split = \"two-nodes\" }`, code
`Settings::with(\"split\", \"two-nodes\")`. An unknown name and a value out of range are refused. `nandex list indexes` prints the options of each index.

";

/// Number of indexes or FTLs with the same option from which on the page describes the option once.
const SHARED: usize = 3;

/// An index, ordered or spatial, or an FTL, and its options.
type Taker = (&'static str, Vec<&'static OptionInfo>);

/// The indexes, with the options that are no FTL's.
fn indexes() -> Vec<Taker> {
    let ordered = INDEXES.iter().map(|entry| (entry.name, entry.options));
    let all = ordered.chain(SPATIAL.iter().map(|entry| (entry.name, entry.options)));
    let all =
        all.map(|(name, options)| (name, options.iter().filter(|option| !is_of_an_ftl(option)).collect()));
    // Those of the index below stand there.
    let own =
        |option: &&OptionInfo| !INDEXES.iter().any(|e| e.options.iter().any(|other| same(other, option)));
    all.chain(WRAPPERS.iter().map(|entry| (entry.name, entry.options.iter().filter(own).collect()))).collect()
}

fn is_of_an_ftl(option: &OptionInfo) -> bool {
    STORES.iter().any(|store| store.options.iter().any(|own| same(own, option)))
}

fn same(left: &OptionInfo, right: &OptionInfo) -> bool {
    (left.name, left.default, left.help) == (right.name, right.default, right.help)
}

fn ftls() -> Vec<Taker> {
    STORES.iter().map(|store| (store.name, store.options.iter().collect())).collect()
}

/// Entries of `all` that describe an option in the same words.
fn who(all: &[Taker], option: &OptionInfo) -> Vec<&'static str> {
    all.iter().filter(|(_, own)| own.iter().any(|other| same(other, option))).map(|(name, _)| *name).collect()
}

/// Short description of the indexes that take an option, if these are nearly all indexes over an FTL.
fn who_in_words(all: &[Taker], option: &OptionInfo) -> String {
    let who = who(all, option);
    let over_ftl = all.iter().filter(|(_, own)| own.iter().any(|o| o.name == "ftl")).map(|(name, _)| *name);
    let (these, others): (Vec<_>, Vec<_>) = over_ftl.partition(|name| who.contains(name));
    if these.len() != who.len() || others.len() > SHARED {
        return who.join(", ");
    }
    let but = if others.is_empty() { String::new() } else { format!(" but {}", others.join(", ")) };
    format!("every index over an FTL{but}")
}

fn row(option: &OptionInfo) -> String {
    format!("| `{}` | {} | {}", option.name, option.default, option.help.replace('|', "\\|"))
}

/// Options that fewer than [`SHARED`] of `all` take, one a line. Empty if there are none.
fn rare(all: &[Taker], options: &[&OptionInfo]) -> String {
    let own = options.iter().filter(|option| who(all, option).len() < SHARED);
    let rows: Vec<String> = own.map(|o| format!("- `{}` ({}): {}\n", o.name, o.default, o.help)).collect();
    if rows.is_empty() { String::new() } else { format!("{}\n", rows.concat()) }
}

/// Options that several of `all` take, each with the description of these by `takers`.
fn shared(all: &[Taker], takers: impl Fn(&OptionInfo) -> String) -> String {
    let mut seen: Vec<&OptionInfo> = Vec::new();
    for option in all.iter().flat_map(|(_, options)| options) {
        if !seen.iter().any(|other| same(other, option)) && who(all, option).len() >= SHARED {
            seen.push(option);
        }
    }
    let rows: Vec<String> =
        seen.iter().map(|option| format!("{} | {} |\n", row(option), takers(option))).collect();
    format!("| option | default | meaning | taken by |\n|---|---|---|---|\n{}\n", rows.concat())
}

fn page() -> String {
    let (indexes, ftls) = (indexes(), ftls());
    let mut page = String::from(HEAD);
    write!(page, "## Of several indexes\n\n{}", shared(&indexes, |option| who_in_words(&indexes, option)))
        .expect("a string grows");
    page += "## Of the FTLs\n\nEvery index over an FTL takes those of its FTL, too; one on raw NAND does with `beneath=NAME`.\n\n";
    page += &shared(&ftls, |option| match who(&ftls, option) {
        who if who.len() == ftls.len() => "every FTL".to_string(),
        who => who.join(", "),
    });
    for (store, (_, options)) in STORES.iter().zip(&ftls) {
        let own = rare(&ftls, options);
        write!(page, "### {}\n\n{}.\n\n{}", store.name, store.summary, own).expect("a string grows");
    }
    page += "## Of single indexes\n\nWhat an index takes besides.\n\n";
    for (name, options) in &indexes {
        let own = rare(&indexes, options);
        if !own.is_empty() {
            write!(page, "### {name}\n\n{own}").expect("a string grows");
        }
    }
    format!("{}\n", page.trim_end())
}

#[test]
fn the_options_are_documented() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/options.md");
    let page = page();
    if std::env::var_os("NANDEX_BLESS").is_some() {
        std::fs::write(path, &page).expect("docs/options.md can be written");
    }
    let kept = std::fs::read_to_string(path).expect("docs/options.md is there");
    assert!(kept == page, "docs/options.md is not what the registry says: NANDEX_BLESS=1 writes it anew");
}
