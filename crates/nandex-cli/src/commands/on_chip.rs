//! `nandex list indexes --chip NAME` and `nandex list ftls --chip NAME`: RAM and room of each subject on a
//! chip.

use nandex::IndexError;
use nandex::nand::Part;
use nandex::ordered::RecordFormat;
use nandex_lab::needed::{self, Needed};
use nandex_lab::options::Settings;
use nandex_lab::registry::{IndexEntry, Need, STORES, WRAPPERS};
use nandex_report::grid::{Side, grid};
use nandex_report::summary::scale::{Quantity, show, show_count};
use serde_json::{Value, json};

/// The smallest RAM of every index and of every store of long values and of readings.
fn all(part: &Part, record: RecordFormat) -> Vec<(&'static IndexEntry, Result<Needed, IndexError>)> {
    let settings = Settings::new(record);
    let of = |entry: &'static IndexEntry| (entry, needed::in_strongest_class(entry, part, &settings));
    needed::all(part, &settings).into_iter().chain(WRAPPERS.iter().map(of)).collect()
}

/// Most records that an index can hold, and the part of the chip's bytes that these take, in percent.
fn most(index: &IndexEntry, part: &Part, record: RecordFormat) -> Option<(u64, f64)> {
    let records = needed::records_max(index, part, &Settings::new(record))?;
    let bytes = records as f64 * record.entry_bytes() as f64;
    Some((records, bytes * 100.0 / part.geometry.data_bytes() as f64))
}

/// The smallest RAM of every index for records of these sizes, and the most records, as a table.
pub(super) fn indexes(part: &Part, record: RecordFormat) -> String {
    let heads =
        ["index", "smallest RAM", "bytes", "records at most", "of the chip", "over"].map(String::from);
    let sides = [Side::Left, Side::Right, Side::Right, Side::Right, Side::Right, Side::Left];
    let rows: Vec<Vec<String>> = all(part, record)
        .into_iter()
        .map(|(index, needed)| {
            let name = index.name.to_string();
            let none = |why: String| [vec![name.clone()], vec!["-".into(); 4], vec![why]].concat();
            match needed {
                Ok(Needed { bytes, ftl }) => {
                    let over = ftl.unwrap_or("the chip").to_string();
                    let most = most(index, part, record);
                    let records = most.map_or("-".into(), |(records, _)| show_count(records));
                    let percent = most.map_or("-".into(), |(_, percent)| format!("{percent:.1} %"));
                    let ram = show(Quantity::Bytes, bytes as f64);
                    vec![name, ram, show_count(bytes as u64), records, percent, over]
                }
                Err(_) if index.needs.contains(&Need::Overwriting) => none("NOR flash only".into()),
                Err(error) => none(error.to_string()),
            }
        })
        .collect();
    grid(&heads, &sides, &rows)
}

pub(super) fn indexes_json(part: &Part, record: RecordFormat, plow: &Value) -> Value {
    let row = |(index, needed): (&IndexEntry, Result<Needed, IndexError>)| match needed {
        Ok(Needed { bytes, ftl }) => {
            let records = most(index, part, record).map(|(records, _)| records);
            let mut row = json!({"name": index.name, "ram_bytes": bytes, "ftl": ftl, "records_max": records});
            if index.name == "plow" {
                row["by_ram"] = plow.clone();
            }
            row
        }
        Err(error) => json!({"name": index.name, "error": error.to_string()}),
    };
    all(part, record).into_iter().map(row).collect()
}

/// The room that each FTL leaves, as a table.
pub(super) fn ftls(part: &Part, record: RecordFormat) -> String {
    let heads = ["FTL", "logical pages", "reserved blocks", "over-provisioning asked", "given", "RAM"]
        .map(String::from);
    let mut sides = [Side::Right; 6];
    sides[0] = Side::Left;
    let rows: Vec<Vec<String>> = STORES
        .iter()
        .map(|ftl| match needed::ftl_room(ftl, part, &Settings::new(record)) {
            Ok(room) => {
                let asked = ftl.options.iter().find(|option| option.name == "over_provisioning");
                vec![
                    ftl.name.to_string(),
                    show_count(room.pages.into()),
                    format!("{} of {}", room.reserved_blocks, show_count(part.geometry.blocks.into())),
                    asked.map_or("-".into(), |option| format!("{} %", option.default)),
                    format!("{:.1} %", given_percent(part, room.pages)),
                    show(Quantity::Bytes, room.ram_bytes as f64),
                ]
            }
            Err(error) => {
                let mut row = vec![ftl.name.to_string()];
                row.extend(std::iter::repeat_n("-".to_string(), 4));
                row.push(error.to_string());
                row
            }
        })
        .collect();
    grid(&heads, &sides, &rows)
}

/// Pages of the chip beyond the logical ones, in percent of the logical ones.
fn given_percent(part: &Part, pages: u32) -> f64 {
    let all = f64::from(part.geometry.pages());
    (all - f64::from(pages)) * 100.0 / f64::from(pages.max(1))
}

pub(super) fn ftls_json(part: &Part, record: RecordFormat) -> Value {
    STORES
        .iter()
        .map(|ftl| match needed::ftl_room(ftl, part, &Settings::new(record)) {
            Ok(room) => json!({
                "name": ftl.name,
                "logical_pages": room.pages,
                "reserved_blocks": room.reserved_blocks,
                "over_provisioning_percent": given_percent(part, room.pages),
                "ram_bytes": room.ram_bytes,
            }),
            Err(error) => json!({"name": ftl.name, "error": error.to_string()}),
        })
        .collect()
}
