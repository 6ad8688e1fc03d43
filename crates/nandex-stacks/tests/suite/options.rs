//! Options are refused with words, through the door that every program takes.

#![allow(clippy::unwrap_used)]

use nandex::nand::catalogue::mlc_64m;
use nandex::nand::sim::SimChip;
use nandex::ordered::RecordFormat;
use nandex_stacks::options::Settings;
use nandex_stacks::registry::{self, INDEXES};

fn refusal(index: &str, option: &str, value: &str) -> String {
    let settings = Settings::new(RecordFormat::new(8, 8)).with(option, value);
    let chip = Box::new(SimChip::new(&mlc_64m().with_blocks(64)).unwrap());
    (registry::index(index).unwrap().format)(chip, &settings).err().unwrap().to_string()
}

/// Numbers that would be possible if they were cut to 8, 16 or 32 bits.
#[test]
fn numbers_that_would_wrap_are_refused_with_the_bounds_of_the_option() {
    for (index, option, value, bounds) in [
        ("bplus", "cache_window", "4294967346", "0 and 100"),
        ("bplus", "order", "4294967306", "0 and 65536"),
        ("bftl", "list_length", "260", "1 and 64"),
        ("ls-lru", "window_percent", "306", "0 and 100"),
        ("cb-tree", "space_percent", "306", "10 and 75"),
        ("fd", "head_entries", "4294967396", "1 and 268435456"),
        ("mu-star", "read_ns", "4294967297", "1 and 1073741824"),
        ("vmtree", "log_pages", "4294967297", "0 and 1024"),
        ("sbits", "max_error", "4294967297", "1 and 1048576"),
        ("plow", "levels", "257", "1 and 3"),
    ] {
        let told = refusal(index, option, value);
        assert_eq!(told, format!("option {option}: '{value}' is not between {bounds}"), "{index}");
    }
}

#[test]
fn words_that_are_none_are_refused_with_those_that_are() {
    assert_eq!(
        refusal("mu", "placement", "here"),
        "option placement: 'here' is none of out_of_place, in_place"
    );
    assert!(refusal("bplus", "cache", "cfl").contains("'cfl' is none of lru, fifo"));
    assert!(refusal("mu", "victim", "greed").contains("option victim: 'greed' is no victim policy"));
}

#[test]
fn no_index_has_two_options_of_one_name() {
    for entry in INDEXES {
        for option in entry.options {
            let same = entry.options.iter().filter(|other| other.name == option.name).count();
            assert_eq!(same, 1, "{}: {}", entry.name, option.name);
        }
    }
}
