//! `docs/options.md` lists the options as they are. `NANDEX_BLESS=1 cargo test -p nandex-stacks --test options_docs` writes it anew.

use nandex_stacks::names::OptionInfo;
use nandex_stacks::registry::{INDEXES, STORES};
use nandex_stacks::spatial::registry::SPATIAL;
use std::fmt::Write;

const HEAD: &str = "# Options

Written from the registry by the test `options_docs`; edit `crates/nandex-stacks`, not this page.

For example, `nandex compare --index ls-lru --set split=two-nodes --set cache_pages=16`. The same names stand in experiments (`options = { split = \"two-nodes\" }`) and
in `Settings::with(\"split\", \"two-nodes\")`. A name that an index does not know is refused, and so is a value out of its range. `nandex list indexes` prints the options of each.

";

/// Indexes that have an option in common, from which on it is said once.
const SHARED: usize = 4;

/// An index, ordered or spatial, and its options.
type Taker = (&'static str, &'static [OptionInfo]);

fn takers() -> Vec<Taker> {
    let ordered = INDEXES.iter().map(|entry| (entry.name, entry.options));
    ordered.chain(SPATIAL.iter().map(|entry| (entry.name, entry.options))).collect()
}

fn is_of_an_ftl(option: &OptionInfo) -> bool {
    STORES.iter().any(|store| store.options.iter().any(|own| same(own, option)))
}

fn same(left: &OptionInfo, right: &OptionInfo) -> bool {
    (left.name, left.default, left.help) == (right.name, right.default, right.help)
}

/// The indexes that take an option in these very words.
fn who(option: &OptionInfo) -> Vec<&'static str> {
    let all = takers();
    all.iter().filter(|(_, own)| own.iter().any(|other| same(other, option))).map(|(name, _)| *name).collect()
}

/// The indexes that take an option in few words, where nearly every index over an FTL is meant.
fn who_in_words(option: &OptionInfo) -> String {
    let who = who(option);
    let all = takers();
    let over_ftl = all.iter().filter(|(_, own)| own.iter().any(|o| o.name == "ftl")).map(|(name, _)| *name);
    let (these, others): (Vec<_>, Vec<_>) = over_ftl.partition(|name| who.contains(name));
    if these.len() != who.len() || others.len() >= SHARED {
        return who.join(", ");
    }
    let but = if others.is_empty() { String::new() } else { format!(" but {}", others.join(", ")) };
    format!("every index over an FTL{but}")
}

fn row(option: &OptionInfo) -> String {
    format!("| `{}` | {} | {}", option.name, option.default, option.help.replace('|', "\\|"))
}

fn table(options: &[&OptionInfo]) -> String {
    let rows: Vec<String> = options.iter().map(|option| format!("{} |\n", row(option))).collect();
    format!("| option | default | meaning |\n|---|---|---|\n{}\n", rows.concat())
}

/// The options that several indexes take, each with those who do.
fn shared() -> String {
    let mut seen: Vec<&OptionInfo> = Vec::new();
    for option in takers().iter().flat_map(|(_, options)| options.iter()) {
        let new = !seen.iter().any(|other| same(other, option));
        if new && !is_of_an_ftl(option) && who(option).len() >= SHARED {
            seen.push(option);
        }
    }
    let rows: Vec<String> =
        seen.iter().map(|option| format!("{} | {} |\n", row(option), who_in_words(option))).collect();
    format!("| option | default | meaning | taken by |\n|---|---|---|---|\n{}\n", rows.concat())
}

fn page() -> String {
    let mut page = String::from(HEAD);
    write!(page, "## Of several indexes\n\n{}", shared()).expect("a string grows");
    page += "## Of the FTLs\n\nEvery index over an FTL takes those of its FTL, too; one on raw NAND does with `beneath=NAME`.\n\n";
    for store in STORES {
        let own: Vec<&OptionInfo> = store.options.iter().collect();
        write!(page, "### {}\n\n{}.\n\n{}", store.name, store.summary, table(&own)).expect("a string grows");
    }
    page += "## Of single indexes\n\nWhat an index takes besides.\n\n";
    for (name, options) in takers() {
        let own: Vec<&OptionInfo> =
            options.iter().filter(|o| !is_of_an_ftl(o) && who(o).len() < SHARED).collect();
        if !own.is_empty() {
            write!(page, "### {name}\n\n{}", table(&own)).expect("a string grows");
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
