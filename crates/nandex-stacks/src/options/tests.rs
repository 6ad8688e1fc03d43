//! Every option of every list is read, is refused if absurd, and has the default that its list states.

use super::*;
use crate::names::OptionInfo;
use nandex::blocks::victim::VictimPolicy;
use nandex::nand::catalogue::mlc_64m;
use nandex::ordered::buffered::Answers;
use nandex::ordered::mu::layout::LeafShare;
use nandex::ordered::mu::star::LayoutPolicy;
use nandex::ordered::{Durability, RecordFormat};
use nandex::spatial::r_tree::Split;
use nandex::spatial::tree::update::Grouped;
use nandex::{Geometry, IndexError};
use nandex_papers::ordered::ipl::LogArea;
use nandex_papers::ordered::lazy_update::CommitPolicy;
use std::fmt::Debug;

fn settings() -> Settings {
    Settings { durability: Durability::EverySync, ..Settings::new(RecordFormat::new(4, 4)) }
}

fn chip() -> Geometry {
    mlc_64m().geometry
}

/// Options that are read when the chip of a tree is opened, and not for its configuration.
const ELSEWHERE: [&str; 2] = ["beneath", "pairing"];

/// A text that is no valid value of any option.
const NONSENSE: &str = "4294967346 of them";

/// Sets each option to its default, which must change nothing, and to nonsense, which must be refused with
/// the option's name.
fn hold<C: PartialEq + Debug, E: Debug + ToString>(
    lists: &[&[OptionInfo]],
    config: impl Fn(&Settings) -> Result<C, E>,
) {
    let usual = config(&settings()).unwrap();
    let own = lists.concat().into_iter().filter(|option| !ELSEWHERE.contains(&option.name));
    for OptionInfo { name, default, .. } in own {
        match config(&settings().with(name, default)) {
            Ok(found) => assert_eq!(found, usual, "{name} = {default}"),
            // Defaults that follow from chip or RAM are described in words.
            Err(_) => assert!(default.parse::<u64>().is_err(), "{name} = {default} is no default"),
        }
        let told = config(&settings().with(name, NONSENSE)).unwrap_err().to_string();
        assert!(told.starts_with(&format!("option {name}: '{NONSENSE}'")), "{told}");
    }
}

#[test]
fn options_of_trees_on_stores_are_read_and_have_the_defaults_that_lists_say() {
    let tree: &[OptionInfo] = &bplus::OPTIONS;
    hold(&[tree, &bplus::ALONE], bplus::config);
    hold(&[&journal::OPTIONS], journal::config);
    hold(&[tree, &tbm::OPTIONS, &wpcb::OPTIONS], |s| wpcb::config(s, chip()));
    hold(&[tree, &pool::LAZY_UPDATE], |s| pool::lazy_update(s, 0));
    hold(&[&pool::POOL, &pool::MB], |s| pool::mb(s, 0));
    hold(&[&pool::POOL, &pool::PIO], |s| pool::pio(s, 2048, 0));
    hold(&[tree, &ls_lru::OPTIONS], |s| ls_lru::config(s, 2048, 0));
    hold(&[tree, &lsb::OPTIONS], lsb::config);
    hold(&[tree, &layered::BFTL], layered::bftl);
    hold(&[tree, &layered::WOBF], layered::wobf);
    hold(&[tree, &layered::BUFFERED], layered::ibsf);
    hold(&[tree, &layered::BUFFERED], layered::bof);
    hold(&[tree, &layered::BUFFERED], layered::rbftl);
    hold(&[tree, &layered::FLASH_DB], layered::flashdb);
    hold(&[tree, &clustered::AS_BTREE], |s| clustered::as_btree(s, None));
    hold(&[tree, &clustered::CB_TREE], |s| clustered::cb_tree(s, None));
    hold(&[tree, &clustered::FB_TREE], |s| clustered::fb_tree(s, None));
    hold(&[&messages::BEPSILON], messages::bepsilon);
    hold(&[&messages::FD], |s| messages::fd(s, 0));
    hold(&[&messages::LA], |s| messages::la(s, 2048, 0));
}

#[test]
fn options_of_trees_on_raw_nand_are_read_and_have_the_defaults_that_lists_say() {
    hold(&[&raw::MU], |s| raw::mu(s, chip()));
    hold(&[&raw::MU_STAR], |s| raw::mu_star(s, chip()));
    hold(&[&raw::WANDERING], |s| raw::wandering(s, chip()));
    hold(&[&ipl::IPL], |s| ipl::ipl(s, chip()));
    hold(&[&ipl::DIPL], |s| ipl::dipl(s, chip()));
    hold(&[&embedded::VM], |s| embedded::vm(s, chip()));
    hold(&[&embedded::OVERWRITE], |s| embedded::overwrite(s, chip()));
    hold(&[&embedded::SBITS], |s| embedded::sbits(s, chip()));
    hold(&[&embedded::FURROW], |s| embedded::furrow(s, chip()));
    hold(&[&embedded::PLOW], |s| embedded::plow(s, chip()));
}

#[test]
fn options_of_ftls_are_read_and_have_the_defaults_that_lists_say() {
    hold(&[&ftl::PAGE_MAP[..8]], ftl::page_map);
    hold(&[&ftl::NFTL], ftl::nftl);
    hold(&[&ftl::BAST], ftl::bast);
    hold(&[&ftl::SAST], ftl::sast);
    hold(&[&ftl::FAST], ftl::fast);
    hold(&[&ftl::SUPERBLOCK], ftl::superblock);
    hold(&[&ftl::DFTL], ftl::dftl);
    hold(&[&ftl::LAZY], ftl::lazy);
    hold(&[&ftl::CFTL], ftl::cftl);
    hold(&[&ftl::HFTL], ftl::hftl);
}

#[test]
fn options_of_spatial_indexes_are_read_and_have_the_defaults_that_lists_say() {
    let tree: &[OptionInfo] = &spatial::OPTIONS;
    hold(&[tree, &spatial::R_TREE], |s| spatial::r_tree(&s.options));
    hold(&[tree, &spatial::R_STAR], |s| spatial::r_star(&s.options));
    hold(&[tree, &spatial::MR_TREE], |s| spatial::mr_tree(&s.options));
    hold(&[tree, &spatial::FOR_TREE], spatial::for_tree);
    hold(&[tree, &spatial::HILBERT], |s| spatial::hilbert::<i32, 2>(&s.options));
    let rftl = |s: &Settings| {
        Ok::<_, OptionError>((spatial_layers::above_rftl(&s.options)?, spatial_layers::rftl(&s.options)?))
    };
    hold(&[&spatial_layers::RFTL], rftl);
    let framework = |config: fn(&Settings, usize, usize) -> Result<_, IndexError>| {
        move |s: &Settings| {
            let above = spatial_layers::above_framework(&s.options)?;
            let bytes = spatial_layers::buffer_bytes(s, 0)?;
            Ok::<_, IndexError>((above, config(s, bytes, 2048)?))
        }
    };
    hold(&[&spatial_layers::BUFFERED, &spatial_layers::FAST], framework(spatial_layers::fast));
    hold(&[&spatial_layers::BUFFERED, &spatial_layers::EFIND], framework(spatial_layers::efind));
}

#[test]
fn options_of_the_cache_are_read_and_have_the_defaults_that_lists_say() {
    let of = |s: &Settings| {
        let policy = cache::policy(&s.options)?.name;
        let sizing = cache::sizing(&s.options, 64)?;
        let rest = (cache::frames(&s.options, 100)?, cache::writes_alone(&s.options)?);
        Ok::<_, OptionError>((policy, sizing.window_percent, sizing.write_cost, rest))
    };
    hold(&[&cache::OPTIONS[1..]], of);
    // Fifty, were it cut to 32 bits.
    let told = of(&settings().with("cache_window", 4_294_967_346u64)).unwrap_err().to_string();
    assert_eq!(told, "option cache_window: '4294967346' is not between 0 and 100");
}

#[test]
fn words_and_numbers_become_what_they_say() {
    let set = |pairs: &[(&str, &str)]| pairs.iter().fold(settings(), |s, (name, value)| s.with(name, value));
    let tree = bplus::config(&set(&[("order", "6"), ("leaf_capacity", "5")])).unwrap();
    assert_eq!((tree.leaf_capacity, tree.internal_capacity), (Some(5), Some(6)));
    assert_eq!(tree.durability, Durability::EverySync);
    let lazy = set(&[("commit_policy", "cost"), ("pool_requests", "9"), ("answers", "pool")]);
    let lazy = pool::lazy_update(&lazy, 0).unwrap();
    assert_eq!((lazy.policy, lazy.pool_requests), (CommitPolicy::CostBased, 9));
    assert_eq!(lazy.answers, Answers::Pool);
    assert_eq!(pool::mb(&set(&[("leaf_size", "fixed"), ("leaf_pages", "3")]), 0).unwrap().write_cost, None);
    let star = set(&[("layout", "3/4"), ("victim", "windowed:8"), ("write_pages", "7")]);
    let star = raw::mu_star(&star, chip()).unwrap();
    assert_eq!(star.scheme.layout, LayoutPolicy::Fixed(LeafShare::ALL[2]));
    assert_eq!((star.victim, star.write_pages), (VictimPolicy::Windowed { blocks: 8 }, Some(7)));
    assert_eq!(ipl::ipl(&settings(), chip()).unwrap().area, LogArea::Fixed);
    let large = Geometry { blocks: 4096, ..chip() };
    assert_eq!(ipl::dipl(&set(&[("rewrite_units", "70000")]), large).unwrap().rewrite_units, u16::MAX);
    let r_tree = set(&[("split", "linear"), ("capacity", "20"), ("leaf_capacity", "10"), ("fill_min", "30")]);
    let r_tree = spatial::r_tree(&r_tree.options).unwrap();
    assert_eq!(r_tree.rules, Grouped(nandex::spatial::r_tree::Guttman { split: Split::Linear }));
    assert_eq!((r_tree.leaf_capacity, r_tree.internal_capacity), (Some(10), Some(20)));
    assert_eq!(r_tree.fill_min_percent, 30);
}

#[test]
fn shares_of_the_ram_become_sizes() {
    let limited = |name, value| Settings { ram_bytes: Some(100_000), ..settings() }.with(name, value);
    let of = |percent| pool::lazy_update(&limited("pool_percent", percent), 80_000).unwrap().pool_requests;
    assert!(of(20) > 100 && (3 * of(20)..5 * of(20)).contains(&of(80)), "{} {}", of(20), of(80));
    let of = |percent| messages::fd(&limited("head_percent", percent), 80_000).unwrap().head_entries;
    assert!(of(10) > 100 && of(80).abs_diff(8 * of(10)) < 20, "{} {}", of(10), of(80));
    let of = |percent: u32| {
        clustered::as_btree(&limited("batch_percent", percent), Some((80_000, 2048))).unwrap().batch_nodes_max
    };
    assert!(of(10) < of(80) && of(10) >= 1, "{} {}", of(10), of(80));
    let of = |percent| messages::la(&limited("buffer_percent", percent), 512, 80_000).unwrap().buffer_pages;
    assert!(of(10) < of(80), "{} {}", of(10), of(80));
}
