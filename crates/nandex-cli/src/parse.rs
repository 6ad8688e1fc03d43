//! Parses values of the command line. An error names the fault; the caller adds the flag.

use nandex::nand::Part;
use nandex::ordered::Durability;
use nandex::spatial::Rect;
use nandex_lab::block_trace::{BlockFormat, Event};
use nandex_lab::crash::{ChipFailures, CutPoint, Cuts, SMALL_CHIP, small_chip};
use nandex_lab::options::Options;
use nandex_lab::quantities::{self, count_to};
pub(crate) use nandex_lab::quantities::{CLASSES, bytes, record};
use nandex_lab::registry::{self, IndexEntry, StoreEntry};
use nandex_lab::replay::{self, DiskEntry};
use nandex_lab::repro::PAPERS;
use nandex_lab::spatial::{self as spatial_lab, SpatialEntry};
use nandex_lab::torture::Victim;
use nandex_lab::workload::{self, WorkloadEntry};
use nandex_lab::{LabError, block_trace, chip as chips, names, tbm};
use std::path::PathBuf;

pub(crate) fn chip(text: &str) -> Result<Part, LabError> {
    chips::find(text)
}

pub(crate) fn index(text: &str) -> Result<&'static IndexEntry, LabError> {
    Ok(registry::index(text)?)
}

/// An element of a list of indexes.
#[derive(Debug)]
pub(crate) enum Choice<T: 'static> {
    All,
    One(&'static T),
}

impl<T> Copy for Choice<T> {}

impl<T> Clone for Choice<T> {
    fn clone(&self) -> Choice<T> {
        *self
    }
}

fn choice<T>(text: &str, find: impl Fn(&str) -> Result<&'static T, LabError>) -> Result<Choice<T>, LabError> {
    if text == "all" { Ok(Choice::All) } else { find(text).map(Choice::One) }
}

pub(crate) fn subject(text: &str) -> Result<&'static IndexEntry, LabError> {
    Ok(registry::subject(text)?)
}

pub(crate) fn subject_choice(text: &str) -> Result<Choice<IndexEntry>, LabError> {
    choice(text, subject)
}

pub(crate) fn ftl_choice(text: &str) -> Result<Choice<StoreEntry>, LabError> {
    choice(text, |name| Ok(registry::store(name)?))
}

#[derive(Clone, Debug)]
pub(crate) struct Rams(pub(crate) Vec<usize>);

pub(crate) fn rams(text: &str) -> Result<Rams, String> {
    quantities::byte_list(text).map(Rams)
}

/// Parses a number of minutes above 0, such as `60` or `0.5`.
pub(crate) fn minutes(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(minutes) if minutes > 0.0 && minutes <= 1e6 => Ok(minutes),
        _ => Err(format!("'{text}' is no number of minutes above 0")),
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Replay {
    /// The life with this seed of this subject.
    Life(Victim, u64),
    /// The life in this file.
    File(PathBuf),
}

/// Parses a life of `nandex torture`, such as `mu:17` or `la@fast:17`, or the name of a file with one.
pub(crate) fn life(text: &str) -> Result<Replay, String> {
    if text.ends_with(".life") {
        return Ok(Replay::File(PathBuf::from(text)));
    }
    let (victim, seed) = text.rsplit_once(':').ok_or("give a name, a colon and a seed, such as mu:17")?;
    let seed = seed.parse().map_err(|_| format!("'{seed}' is no seed"))?;
    Ok(Replay::Life(victim.parse().map_err(|error: LabError| error.to_string())?, seed))
}

pub(crate) fn spatial_choice(text: &str) -> Result<Choice<SpatialEntry>, LabError> {
    choice(text, spatial_index)
}

pub(crate) fn spatial_index(text: &str) -> Result<&'static SpatialEntry, LabError> {
    Ok(spatial_lab::spatial(text)?)
}

/// The items that the choices name, in their order.
pub(crate) fn chosen<T>(
    choices: &[Choice<T>],
    all: impl IntoIterator<Item = &'static T> + Clone,
) -> Vec<&'static T> {
    let each = choices.iter().flat_map(|choice| match choice {
        Choice::All => all.clone().into_iter().collect(),
        Choice::One(entry) => vec![*entry],
    });
    each.collect()
}

/// Parses a share of an area in percent, such as `0.01%`, as a fraction.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    let percent = text.strip_suffix('%').ok_or("give a percentage, such as 0.01%")?;
    match percent.trim().parse::<f64>() {
        Ok(percent) if percent > 0.0 && percent <= 100.0 => Ok(percent / 100.0),
        Ok(_) => Err(format!("{text} is not above 0% and up to 100%")),
        Err(_) => Err(format!("'{percent}' is no number")),
    }
}

/// Parses a window, such as `5,45,15,55`.
pub(crate) fn rect(text: &str) -> Result<Rect<f64, 2>, String> {
    spatial_lab::rect_of(text)
}

/// Parses a point, such as `13.4,52.5`.
pub(crate) fn point(text: &str) -> Result<Rect<f64, 2>, String> {
    spatial_lab::rect_of(&format!("{text},{text}"))
        .map_err(|_| format!("'{text}' is not two numbers, such as 13.4,52.5"))
}

pub(crate) fn workload(text: &str) -> Result<&'static WorkloadEntry, LabError> {
    workload::workload(text)
}

pub(crate) fn ftl(text: &str) -> Result<&'static StoreEntry, LabError> {
    Ok(tbm::find(text)?)
}

/// A target of a replay.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ReplayTarget {
    All,
    AllBehindTbm,
    /// No FTL.
    None,
    Ftl(&'static StoreEntry),
    Disk(&'static DiskEntry),
}

pub(crate) fn target(text: &str) -> Result<ReplayTarget, LabError> {
    if text == "all" {
        return Ok(ReplayTarget::All);
    }
    if text == "tbm+all" {
        return Ok(ReplayTarget::AllBehindTbm);
    }
    if text == "none" {
        return Ok(ReplayTarget::None);
    }
    if let Ok(disk) = replay::disk(text) {
        return Ok(ReplayTarget::Disk(disk));
    }
    let others = replay::DISKS.iter().map(|d| d.name).chain(["all", "tbm+all"]);
    tbm::find(text).map(ReplayTarget::Ftl).map_err(|_| tbm::unknown("FTL or disk", text, others).into())
}

pub(crate) fn trace_format(text: &str) -> Result<&'static BlockFormat, LabError> {
    block_trace::format(text)
}

pub(crate) fn event(text: &str) -> Result<Event, LabError> {
    Event::from_letter(text)
}

pub(crate) fn paper(text: &str) -> Result<String, LabError> {
    match PAPERS.contains(&text) {
        true => Ok(text.to_string()),
        false => Err(LabError::unknown("paper", text, PAPERS.iter().copied())),
    }
}

/// Parses a part, or the small chip of the crash tests.
pub(crate) fn crash_chip(text: &str) -> Result<Part, LabError> {
    if text == SMALL_CHIP { Ok(small_chip()) } else { chips::find(text) }
}

pub(crate) fn cuts(text: &str) -> Result<Cuts, String> {
    match text {
        "all" => Ok(Cuts::All),
        _ => count(text).map(Cuts::Sample).map_err(|why| format!("{why}; give all or a number")),
    }
}

pub(crate) fn cut_point(text: &str) -> Result<CutPoint, LabError> {
    text.parse()
}

/// Parses three rates in a million, such as `100,100,0`.
pub(crate) fn faults(text: &str) -> Result<ChipFailures, String> {
    let rate = |part: &str| match part.trim().parse() {
        Ok(rate) if rate <= 1_000_000 => Ok(rate),
        _ => Err(format!("'{part}' is not between 0 and 1000000")),
    };
    let rates = text.split(',').map(rate).collect::<Result<Vec<u32>, String>>()?;
    let [program_failures_ppm, erase_failures_ppm, bad_blocks_ppm] = rates[..] else {
        return Err("give three rates, such as 100,100,0".to_string());
    };
    Ok(ChipFailures { program_failures_ppm, erase_failures_ppm, bad_blocks_ppm })
}

/// Parses the number of operations of a workload.
pub(crate) fn operations(text: &str) -> Result<u64, String> {
    count_to(text, 1 << 30)
}

/// Parses the number of operations of a crash test. Its bound is lower, because the test keeps the chip
/// operations of each.
pub(crate) fn crash_operations(text: &str) -> Result<u64, String> {
    count_to(text, 1_000_000)
}

/// Parses a count, for example of requests in a trace. The upper bound exceeds every real count.
pub(crate) fn count(text: &str) -> Result<u64, String> {
    count_to(text, 1 << 40)
}

/// Parses the factor for the times of a trace. The largest turns nanoseconds into seconds.
pub(crate) fn time_scale(text: &str) -> Result<u64, String> {
    count_to(text, 1_000_000_000)
}

/// Parses a durability class; its words may be joined by `-`.
pub(crate) fn durability(text: &str) -> Result<Durability, LabError> {
    quantities::durability(text).copied()
}

pub(crate) fn class_choice(text: &str) -> Result<Choice<Durability>, LabError> {
    choice(text, quantities::durability)
}

/// Parses an option as `name=value`. Whether it is known is checked later.
pub(crate) fn option(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_string(), value.to_string())),
        _ => Err("give NAME=VALUE".to_string()),
    }
}

/// The options of a command line; of several with the same name, the last one counts.
pub(crate) fn options(set: &[(String, String)]) -> Options {
    let mut options = Options::default();
    for (name, value) in set {
        options.set(name, value);
    }
    options
}

pub(crate) fn knows(options: &[names::OptionInfo], name: &str) -> bool {
    options.iter().any(|option| option.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandex::ordered::RecordFormat;

    #[test]
    fn bytes_take_binary_units() {
        assert_eq!(bytes("64KiB"), Ok(65_536));
        assert_eq!(bytes("1 MiB"), Ok(1 << 20));
        assert_eq!(bytes("4096"), Ok(4096));
        assert_eq!(bytes("1_000B"), Ok(1000));
        assert_eq!(bytes("64KB").unwrap_err(), "'KB' may mean two sizes; write 64KiB, or all the bytes");
        assert_eq!(bytes("2 GB").unwrap_err(), "'GB' may mean two sizes; write 2GiB, or all the bytes");
        assert_eq!(bytes("64kb").unwrap_err(), "'kb' is no unit; give B, KiB, MiB or GiB");
        assert_eq!(bytes("KiB").unwrap_err(), "'' is no whole number");
        assert_eq!(bytes("0").unwrap_err(), "at least 1 is needed");
        assert!(bytes("99999999999GiB").unwrap_err().contains("more than"));
        assert!(bytes("18446744073709551615").unwrap_err().contains("of memory that this machine has free"));
        assert!(bytes("-1").is_err() && bytes("1.5MiB").is_err());
    }

    #[test]
    fn counts_have_a_least_and_a_largest() {
        assert_eq!(count("1_000"), Ok(1000));
        assert_eq!(
            crash_operations("18446744073709551615").unwrap_err(),
            "'18446744073709551615' is not between 1 and 1000000"
        );
        assert!(operations("99999999999999999999999").unwrap_err().contains("is not between"));
        assert!(count("18446744073709551615").is_err() && time_scale("1_000_000_001").is_err());
    }

    #[test]
    fn records_are_key_and_value() {
        assert_eq!(record("8/4"), Ok(RecordFormat::new(8, 4)));
        assert_eq!(record("16/0"), Ok(RecordFormat::new(16, 0)));
        assert_eq!(record("0/4").unwrap_err(), "a key has at least one byte");
        assert_eq!(record("300/4").unwrap_err(), "'300' is not between 0 and 255");
        assert!(record("8").is_err());
    }

    #[test]
    fn a_class_is_found_by_its_name_and_suggested() {
        assert_eq!(durability("every-sync").unwrap(), Durability::EverySync);
        assert_eq!(durability("every operation").unwrap(), Durability::EveryOperation);
        let error = durability("every-synk").unwrap_err().to_string();
        assert_eq!(error, "there is no durability class 'every-synk'; did you mean 'every-sync'?");
    }

    #[test]
    fn shares_windows_and_points() {
        assert_eq!(share("0.01%"), Ok(0.0001));
        assert_eq!(share("0.5").unwrap_err(), "give a percentage, such as 0.01%");
        assert_eq!(share("0%").unwrap_err(), "0% is not above 0% and up to 100%");
        assert_eq!(share("x%").unwrap_err(), "'x' is no number");
        assert_eq!(rect("-5,45,15,55").unwrap().low(), [-5.0, 45.0]);
        assert!(rect("5,45,1,55").unwrap_err().contains("the lower side of axis 0 lies above the upper one"));
        assert!(rect("1,2,3").unwrap_err().contains("is not 4 numbers"));
        assert_eq!(point("1,-2").unwrap().high(), [1.0, -2.0]);
        assert_eq!(point("1").unwrap_err(), "'1' is not two numbers, such as 13.4,52.5");
    }

    #[test]
    fn cuts_and_faults() {
        assert_eq!(cuts("all"), Ok(Cuts::All));
        assert_eq!(cuts("500"), Ok(Cuts::Sample(500)));
        assert_eq!(cuts("some").unwrap_err(), "'some' is no whole number; give all or a number");
        assert_eq!(faults("1,2,3").unwrap().bad_blocks_ppm, 3);
        assert!(faults("1,2").is_err() && faults("1,2,-3").is_err() && faults("1,2,2000000").is_err());
    }

    #[test]
    fn options_keep_what_follows_the_first_equals_sign() {
        assert_eq!(option("a=b=c"), Ok(("a".to_string(), "b=c".to_string())));
        assert!(option("=b").is_err() && option("a").is_err());
    }
}
