//! A mount with other settings than those of the format: it refuses, or all contents are there and stay.

use super::unclosed::{Entry, Kind, Model, Opened};
use crate::sizes::stride;
use nandex::nand::sim::SimChip;
use nandex::ordered::{Durability, RecordFormat};
use nandex::{IndexError, Shared, StoreError};
use nandex_stacks::options::Settings;
use nandex_stacks::registry::{Hosting, INDEXES, STORES};
use nandex_stacks::spatial::SPATIAL;

const RECORDS: u64 = 200;

/// The first number that is not changed by any of the two rounds of changes.
const FRESH: u64 = 5000;

/// Values of an option, as listed in its refusal.
fn values(entry: Entry, settings: &Settings, option: &str) -> Vec<String> {
    let refusal = |text: &str| {
        let chip = SimChip::new(&entry.part()).unwrap();
        entry.open(chip, &settings.clone().with(option, text), true).err().map(|error| error.to_string())
    };
    let Some(words) = refusal("?") else { return Vec::new() };
    if let Some((_, words)) = words.split_once("is none of ") {
        return words.split(", ").map(String::from).collect();
    }
    let bounds = refusal(&u64::MAX.to_string()).unwrap_or_default();
    let Some((_, bounds)) = bounds.split_once("is not between ") else { return Vec::new() };
    let bounds: Vec<u64> = bounds.split(" and ").filter_map(|bound| bound.parse().ok()).collect();
    let [least, most] = bounds[..] else { return Vec::new() };
    let mut numbers: Vec<u64> =
        [least, least + 1, 3, 8, 50, 500].into_iter().filter(|n| (least..=most).contains(n)).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers.iter().map(u64::to_string).collect()
}

/// Settings that differ from `made` in one value.
fn others(entry: Entry, made: &Settings, options: &[&'static str]) -> Vec<(String, Settings)> {
    let mut others = Vec::new();
    for ram in [None, Some(24 << 10), Some(64 << 10), Some(300 << 10)] {
        others.push((format!("RAM {ram:?}"), Settings { ram_bytes: ram, ..made.clone() }));
    }
    for durability in [Durability::None, Durability::EverySync, Durability::EveryOperation] {
        others.push((format!("{durability:?}"), Settings { durability, ..made.clone() }));
    }
    for (key, value) in [(8, 4), (8, 12), (4, 8)] {
        let record = RecordFormat::new(key, value);
        others.push((format!("records of {key}+{value}"), Settings { record, ..made.clone() }));
    }
    for &option in options {
        for value in values(entry, made, option) {
            others.push((format!("{option}={value}"), made.clone().with(option, value)));
        }
    }
    others.retain(|(_, other)| other != made);
    others
}

/// True if an error says that the settings do not fit the chip.
fn is_refusal(error: &IndexError) -> bool {
    error.is_unsupported()
        || matches!(
            error,
            IndexError::NotFormatted(_)
                | IndexError::Store(StoreError::NotFormatted(_))
                | IndexError::TooLittleRam { .. }
                | IndexError::NotCleanlyClosed
        )
}

fn changed(index: &mut Opened, entry: Entry, from: u64, model: &mut Model) -> Result<(), IndexError> {
    for number in 0..30 {
        index.change(Kind::Insert, from + number, model)?;
        if !entry.appends() {
            index.change(Kind::Update, 5 * number + 1, model)?;
        }
    }
    Ok(())
}

fn assert_whole(index: &mut Opened, model: &Model, when: &str) -> Result<(), String> {
    let found = index.contents().map_err(|error| format!("{when}: a read: {error}"))?;
    let differ = model.iter().filter(|(key, value)| found.get(key) != Some(value)).count();
    let more = found.keys().filter(|key| !model.contains_key(key)).count();
    if (differ, more) == (0, 0) {
        return Ok(());
    }
    Err(format!("{when}: {differ} records are older or gone, {more} are there again"))
}

/// A life of an image under other settings, and under its own again.
fn judge(
    entry: Entry,
    image: &SimChip,
    (made, other): (&Settings, &Settings),
    model: &Model,
) -> Result<(), String> {
    let mut model = model.clone();
    let at = |when: &'static str| move |error: IndexError| format!("{when}: {error}");
    let chip = Shared::new(image.clone());
    let now = |chip: &Shared<SimChip>| chip.lock().clone();
    match entry.open_on(&chip, other, false) {
        Err(error) if is_refusal(&error) => {
            let (mut index, _) = entry.open(now(&chip), made, false).map_err(at("mounted again as made"))?;
            return assert_whole(&mut index, &model, "after a refused mount");
        }
        Err(error) => return Err(format!("the mount: {error}")),
        Ok(mut index) => {
            assert_whole(&mut index, &model, "mounted")?;
            changed(&mut index, entry, FRESH, &mut model).map_err(at("a change"))?;
            assert_whole(&mut index, &model, "changed")?;
            index.end(true).map_err(at("the close"))?;
        }
    }
    let mut index = match entry.open_on(&chip, made, false) {
        // The other settings are the chip's now; with them everything is there.
        Err(error) if is_refusal(&error) => {
            entry.open_on(&chip, other, false).map_err(at("the other again"))?
        }
        opened => opened.map_err(at("mounted as made"))?,
    };
    assert_whole(&mut index, &model, "mounted once more")?;
    changed(&mut index, entry, 2 * FRESH, &mut model).map_err(at("a later change"))?;
    index.end(true).map_err(at("the later close"))?;
    assert_whole(&mut index, &model, "at the end")
}

/// A chip that was closed, or synced before its power was cut. Returns `None` if the stack cannot be opened
/// so.
fn image(entry: Entry, made: &Settings, closes: bool) -> Option<(SimChip, Model)> {
    let (mut index, chip) = entry.open(SimChip::new(&entry.part()).unwrap(), made, true).ok()?;
    let mut model = Model::new();
    for number in 0..RECORDS {
        index.change(Kind::Insert, number, &mut model).unwrap();
    }
    index.end(closes).unwrap();
    drop(index);
    let image = chip.lock().clone();
    Some((image, model))
}

#[test]
fn a_mount_with_other_settings_refuses_or_is_right() {
    let entries = INDEXES.iter().map(Entry::Ordered).chain(SPATIAL.iter().map(Entry::Spatial));
    let (mut tried, mut wrong, step) = (0, Vec::new(), stride(11));
    for entry in entries {
        let (name, is_raw, known) = match entry {
            Entry::Ordered(entry) => (entry.name, entry.hosting == Hosting::Raw, entry.options),
            Entry::Spatial(entry) => (entry.name, false, entry.options),
        };
        // The settings of an FTL show below any index, those of an index on any FTL.
        let ftls: Vec<_> = match (is_raw, name) {
            (true, _) => vec![None],
            (false, "bplus") => STORES.iter().map(Some).collect(),
            (false, _) => vec![Some(&STORES[0])],
        };
        for ftl in ftls {
            for durability in [Durability::EverySync, Durability::EveryOperation, Durability::None] {
                let plain = Settings {
                    durability,
                    ram_bytes: Some(128 << 10),
                    ..Settings::new(RecordFormat::new(8, 8))
                };
                let made = ftl.map_or(plain.clone(), |ftl| plain.with("ftl", ftl.name));
                let of_ftl: Vec<_> =
                    ftl.map_or(Vec::new(), |ftl| ftl.options.iter().map(|o| o.name).collect());
                let of_another = |name| {
                    STORES.iter().any(|s| s.options.iter().any(|o| o.name == name)) && !of_ftl.contains(&name)
                };
                let options: Vec<_> = known
                    .iter()
                    .map(|option| option.name)
                    .filter(|option| !of_another(option) && (name == "bplus" || !of_ftl.contains(option)))
                    .collect();
                for closes in [true, false] {
                    if !closes && durability == Durability::None {
                        continue;
                    }
                    let Some((image, model)) = image(entry, &made, closes) else { continue };
                    for (what, other) in
                        others(entry, &made, &options).into_iter().skip(tried % step).step_by(step)
                    {
                        tried += 1;
                        if let Err(fault) = judge(entry, &image, (&made, &other), &model) {
                            let place = ftl.map_or("the chip", |ftl| ftl.name);
                            let end = if closes { "closed" } else { "synced" };
                            wrong.push(format!(
                                "{name} on {place}, {durability:?}, {end}, then {what}: {fault}"
                            ));
                        }
                    }
                }
            }
        }
    }
    assert!(tried > 3000 / step, "only {tried} settings were tried");
    assert!(wrong.is_empty(), "{} faults of {tried} mounts:\n{}", wrong.len(), wrong.join("\n"));
}
