//! Damages that once went unnoticed, one per cause. Now the index answers correctly, reports an error, or
//! refuses the mount.

#![allow(clippy::unwrap_used)]

use nandex_lab::runner::Control;
use nandex_lab::torture::Victim;
use nandex_lab::torture::damage::{Effort, replay, run};

/// Victim, seed, image, damage.
type Case = (&'static str, u64, &'static str, &'static str);

fn require_told(cases: &[Case]) {
    for &(victim, seed, image, blow) in cases {
        let found = replay(victim.parse().unwrap(), seed, image.parse().unwrap(), &blow.parse().unwrap());
        let found = found.unwrap().unwrap_or_else(|| panic!("{victim}, {image}: {blow} changes nothing"));
        assert!(found.outcome.is_sound(), "{found}");
    }
}

#[test]
fn no_page_takes_the_place_of_a_damaged_one_that_the_tree_leads_to() {
    require_told(&[
        ("mu", 80003, "remounted", "block-flip:30"),
        ("mu", 80003, "cut:529:looks_erased", "block-flip:31"),
        ("mu-star", 80003, "remounted", "block-ones:30"),
        ("wandering", 80002, "cut:471:before", "block-flip:28"),
        ("wandering", 80003, "closed", "block-ones:9+block-flip:26"),
        ("vmtree", 80002, "cut:533:unreadable", "block-unreadable:2"),
    ]);
}

#[test]
fn a_block_opened_since_a_close_is_not_hidden_where_it_looks_erased_or_is_another_one() {
    require_told(&[
        ("wandering", 80005, "cut:130:unreadable", "block-ones:4"),
        ("vmtree", 80004, "cut:154:random_bits", "block-ones:4"),
        ("mu-star", 90002, "cut:425:looks_erased", "block-exchange:7:24"),
    ]);
}

#[test]
fn a_checkpoint_that_says_closed_may_be_followed_by_a_lost_one() {
    require_told(&[("dipl", 80001, "remounted", "flips:0"), ("dipl", 80001, "remounted", "block-zero:0")]);
}

#[test]
fn no_page_of_the_tree_hides_that_a_newer_checkpoint_was_begun() {
    require_told(&[
        ("ipl", 127, "remounted", "exchange:189:192+older:16"),
        ("ipl", 127, "remounted", "exchange:192:32+older:16"),
        ("ipl", 127, "remounted", "exchange:192:33+ones:16"),
        ("ipl", 127, "remounted", "ones:192+older:16"),
    ]);
}

#[test]
fn no_block_that_was_given_back_stands_for_one_that_is_lost() {
    require_told(&[
        ("dipl", 46, "remounted", "block-exchange:0:29"),
        ("dipl", 46, "remounted", "block-ones:0+block-ones:29"),
        ("dipl", 46, "remounted", "block-zero:0+block-ones:29"),
    ]);
}

#[test]
fn a_block_of_nodes_in_the_place_of_an_anchor_is_told() {
    require_told(&[("ipl", 5100, "remounted", "block-exchange:20:1+unreadable:213")]);
}

#[test]
fn a_page_of_a_store_that_cannot_be_read_is_never_taken_for_a_torn_one() {
    require_told(&[
        ("mu@page-map", 80000, "remounted", "block-ones:25"),
        ("mu@bast", 80000, "remounted", "block-exchange:18:27"),
        ("wandering@sast", 80000, "cut:1499:prefix", "block-unreadable:6"),
        ("ipl@page-map", 80000, "closed", "block-flip:17"),
        ("ipl@superblock", 80000, "cut:50:before", "flip:51"),
        ("sbits@superblock", 80000, "closed", "block-flip:13"),
    ]);
}

#[test]
fn an_old_clean_base_is_not_taken_for_the_newest() {
    require_told(&[
        ("as-btree@sast", 80000, "remounted", "block-ones:0"),
        ("wobf@superblock", 80000, "remounted", "block-flip:0"),
        ("mu@dftl", 80000, "cut:646:before", "block-flip:0"),
    ]);
}

#[test]
fn a_page_that_the_cut_tore_does_not_stand_for_one_that_looks_erased() {
    require_told(&[
        ("ls-lru@nftl", 80006, "cut:68:random_bits", "ones:32"),
        ("fast", 80004, "cut:339:unreadable", "older:405"),
    ]);
}

#[test]
fn a_copy_that_cannot_be_read_does_not_stand_for_a_missing_page() {
    require_told(&[("lsb@nftl", 1300001, "cut:251:random_bits", "zero:86+exchange:511:317")]);
}

#[test]
fn a_first_page_of_before_the_last_erase_does_not_hide_what_followed() {
    require_told(&[
        ("mb@dftl", 80005, "cut:567:prefix", "older:160"),
        ("r-star@dftl", 80003, "cut:565:random_bits", "older:208"),
    ]);
}

#[test]
fn old_notes_of_trims_are_not_taken_for_new_ones() {
    require_told(&[("rftl@page-map", 81001, "remounted", "older:288")]);
}

/// FlashDB changes the mode of a node on a read. Where its journal cannot be written then, the read names the
/// page.
#[test]
fn a_read_that_writes_onto_damage_names_it() {
    require_told(&[("flashdb@lazy", 1400017, "remounted", "block-ones:0+block-flip:5")]);
}

/// A close writes two commit pages in two blocks: each may be lost with its block. Both lost at once look
/// like two power cuts, one in an erase.
#[test]
fn each_of_the_two_pages_that_a_close_writes_stands_for_both() {
    let blows =
        ["flip:332", "flip:336", "block-zero:20", "block-zero:21", "flip:332+flip:336", "flip:336+flip:332"];
    blows.iter().for_each(|blow| require_told(&[("plow", 96002, "closed", blow)]));
    let both = "flip:336+block-zero:20".parse().unwrap();
    let found = replay("plow".parse().unwrap(), 96002, "closed".parse().unwrap(), &both).unwrap().unwrap();
    assert!(found.exception().is_some(), "{found}");
}

/// Subjects that do not fit on the chip, or not on the FTL, say so at the format: nothing was found.
#[test]
fn what_does_not_fit_is_no_finding() {
    let names = ["variable:bplus@nftl", "values:plow@dftl", "values:mu@lazy", "variable:mu"];
    let victims: Vec<Victim> = names.iter().map(|name| name.parse().unwrap()).collect();
    let effort = Effort { seed: 610_000, rounds: 1, until: None, cuts: 0, damages: 1, threads: 1 };
    let totals = run(&victims, &effort, &Control::default(), &|_| {});
    assert!(totals.is_clean(), "{:?}", totals.stopped);
    assert_eq!((totals.unfit, totals.lives), (3, 1), "{totals}");
}
