//! Tests of the torture itself: it must find faults, tell how to repeat them, and shorten them.

#![allow(clippy::unwrap_used)]

use super::keys::Keys;
use super::run::live;
use super::setup::{Looks, Setup, Tried};
use super::step::Step;
use super::subject::Victim;
use super::*;
use crate::crash::Target;
use crate::crash::ops::HostOp;
use crate::crash::subject::write_key;
use crate::inputs::sized;
use crate::registry::{INDEXES, IndexEntry, STORES, index};
use crate::runner::Control;
use crate::spatial::SPATIAL;
use nandex::nand::catalogue::mlc_with as part;
use nandex::ordered::RecordFormat;
use nandex::rng::Rng;
use nandex::{IndexError, Nand, OrderedIndex};
use nandex_stacks::options::Settings;
use std::sync::LazyLock;

/// Number of setups drawn for each index; the gate takes a third of them.
const SETUPS: usize = 1500;

/// A B+-tree that loses the record of slot 7 at a mount.
static FORGETFUL: LazyLock<IndexEntry> =
    LazyLock::new(|| IndexEntry { name: "forgetful", mount: mount_and_forget, ..*index("bplus").unwrap() });

fn mount_and_forget(nand: Box<dyn Nand>, settings: &Settings) -> Result<Box<dyn OrderedIndex>, IndexError> {
    let mut tree = (index("bplus").unwrap().mount)(nand, settings)?;
    let mut key = vec![0; settings.record.key_bytes.into()];
    write_key(7, &mut key);
    tree.remove(&key)?;
    tree.sync()?;
    Ok(tree)
}

fn forgetful() -> Case {
    let victim = Victim { target: Target::Index(&FORGETFUL), ftl: None };
    let settings = Settings::new(RecordFormat::new(8, 8));
    let (keys, looks) = (Keys::Leading, Looks::Spots);
    let setup =
        Setup { victim, part: part(512, 16, 24), settings, slots: 40, bad_ppm: 0, bad_seed: 0, keys, looks };
    let puts = (0..40).map(|slot| Step::Op(HostOp::Put(slot * 7 % 40)));
    let mut steps: Vec<Step> = puts.collect();
    steps.extend([
        Step::Op(HostOp::Remove(3)),
        Step::Op(HostOp::Sync),
        "cut 2 inside prefix 9".parse().unwrap(),
    ]);
    steps.extend([Step::Off, Step::Look, Step::Op(HostOp::Put(3)), Step::Look]);
    Case { setup, steps }
}

#[test]
fn what_is_lost_is_found_and_shrunk_to_its_cause() {
    let case = forgetful();
    let why = case.run().unwrap_err();
    assert!(why.contains("number 7 is gone"), "{why}");
    let least = case.shrunk();
    let steps: Vec<String> = least.steps.iter().map(Step::to_string).collect();
    assert_eq!(steps, ["put 7", "off", "look"]);
    assert!(least.run().unwrap_err().contains("number 7 is gone"));
}

/// A format either refuses a chip or makes an index with room for at least one record.
#[test]
fn what_a_format_accepts_takes_a_record() {
    let indexes = INDEXES.iter().map(Target::Index).chain(SPATIAL.iter().map(Target::Spatial));
    let mut wrong = Vec::new();
    for victim in indexes.map(|target| Victim { target, ftl: None }) {
        let mut rng = Rng::new(victim.fingerprint());
        for _ in 0..sized(SETUPS / 3, SETUPS) {
            let Some(setup) =
                Setup::draw(victim, &mut rng, (Fate::default(), false), &mut Tried::default()).unwrap()
            else {
                continue;
            };
            let case = Case { setup, steps: vec![Step::Op(HostOp::Put(1)), Step::Op(HostOp::Sync)] };
            wrong.extend(case.run().err().map(|why| format!("{why}\n{case}")));
        }
    }
    assert!(wrong.is_empty(), "{}: {}", wrong.len(), wrong.join("\n"));
}

/// On a chip with too few spare bytes the pages lend some, so they may have any size.
#[test]
fn pages_of_any_size_are_expected_as_they_are_written() {
    let steps = ["put 1", "put 2", "group 3 4", "put 1", "sync", "remove 2", "sync", "off", "look", "put 5"];
    let steps: Vec<Step> = steps.iter().chain(&["close", "look"]).map(|step| step.parse().unwrap()).collect();
    let mut wrong = Vec::new();
    for (store, spare_bytes) in STORES.iter().flat_map(|store| (0..24).map(move |spare| (store, spare))) {
        let victim = Victim { target: Target::Store(store), ftl: None };
        let mut part = part(512, 8, 64);
        part.geometry.spare_bytes = spare_bytes;
        let settings = Settings::new(RecordFormat::new(8, 8));
        let (keys, looks) = (Keys::Leading, Looks::All);
        let setup = Setup { victim, part, settings, slots: 40, bad_ppm: 0, bad_seed: 0, keys, looks };
        let lived = Case { setup, steps: steps.clone() }.run();
        wrong.extend(lived.err().map(|why| format!("{victim}, {spare_bytes} spare bytes: {why}")));
    }
    assert!(wrong.is_empty(), "{}: {}", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_case_is_read_as_it_is_written() {
    let ended = live("la@fast".parse().unwrap(), Fate::default(), 3);
    let case = Case { setup: ended.setup.unwrap(), steps: ended.steps };
    let text = case.to_string();
    let again = Case::read(&text, "test").unwrap();
    assert_eq!(again.to_string(), text);
    assert_eq!(again.play().map_err(|(fault, at)| (fault.what, at)).is_ok(), ended.fault.is_none());
    assert_eq!(again.steps, case.steps);
    for (wrong, reason) in [
        ("victim ma\n", "line 1: there is no index or FTL 'ma'"),
        ("victim mu\nchip 512 16 24\n", "no line says how long records are"),
        ("ram 5\n", "line 1: the line with the record comes first"),
        ("victim mu\nput -3\n", "line 2: '-3' is no number that fits here"),
    ] {
        let error = Case::read(wrong, "test").unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn a_life_follows_from_its_victim_and_seed() {
    for victim in ["mu", "bplus@dftl", "fast", "r-tree@page-map"] {
        let victim: Victim = victim.parse().unwrap();
        let fate = Fate { until_death: true, ..Fate::default() };
        let (a, b) = (live(victim, fate, 5), live(victim, fate, 5));
        assert_eq!((a.counts, a.fault, &a.steps), (b.counts, b.fault, &b.steps), "{victim}");
        let other = live(victim, fate, 6);
        assert!(other.steps != a.steps, "{victim}");
    }
}

#[test]
fn all_victims_get_their_lives_on_any_number_of_threads() {
    let victims: Vec<Victim> =
        INDEXES[..3].iter().map(|e| Victim { target: Target::Index(e), ftl: None }).collect();
    let plan = |threads| Plan {
        victims: victims.clone(),
        order: Order::Lives(2),
        fate: Fate::default(),
        seed: 1,
        threads,
    };
    let counts = |report: Report| report.rows.iter().map(|row| (row.counts, row.found)).collect::<Vec<_>>();
    let alone = counts(run(&plan(1), &Control::default(), &|_| {}));
    assert_eq!(counts(run(&plan(4), &Control::default(), &|_| {})), alone);
    assert!(alone.iter().all(|(counts, _)| counts.lives + counts.skipped == 2));
}
