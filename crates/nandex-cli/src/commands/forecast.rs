//! `nandex list indexes --chip`: the set-up that plow chooses for a chip at each amount of RAM, and the costs
//! that it expects.

use crate::forecast_args::Forecast as Args;
use anyhow::Result;
use nandex::IndexError;
use nandex::nand::Part;
use nandex::ordered::Durability;
use nandex::ordered::buffered::Answers;
use nandex::ordered::plow::{Forecast, PlowConfig};
use nandex_lab::LabError;
use nandex_report::grid::{Side, grid};
use nandex_report::summary::scale::{Quantity, show, show_count};
use serde_json::{Value, json};
use std::fmt::Write as _;

const RAM_KIB: [usize; 7] = [8, 16, 32, 64, 128, 256, 1024];
const SYNC: f64 = 100.0;
const MILLION: f64 = 1e6;

/// For each RAM in KiB, the forecast or the reason why there is none.
type ByRam = Vec<(usize, Result<Forecast, IndexError>)>;

pub(super) fn text(args: &Args, part: &Part) -> Result<String> {
    Ok(table(args, part, &by_ram(args, part)?))
}

pub(super) fn json(args: &Args, part: &Part) -> Result<Value> {
    Ok(by_ram(args, part)?.iter().map(in_json).collect())
}

fn by_ram(args: &Args, part: &Part) -> Result<ByRam> {
    let all: ByRam = RAM_KIB.iter().map(|&kib| (kib, forecast(args, part, kib * 1024))).collect();
    if all.iter().all(|(_, forecast)| forecast.is_err()) {
        // No RAM would help.
        forecast(args, part, 1 << 40).map_err(LabError::from)?;
    }
    Ok(all)
}

/// The forecast for a mix with half look-ups, in which insertions and removals need not tell whether the
/// key existed.
fn forecast(args: &Args, part: &Part, ram_bytes: usize) -> Result<Forecast, IndexError> {
    let config = PlowConfig {
        ram_bytes: Some(ram_bytes),
        durability: Durability::EverySync,
        answers: Answers::Pool,
        ..PlowConfig::new(args.record)
    };
    Forecast::new(&config, part.geometry, args.records, (1, 2))
}

fn table(args: &Args, part: &Part, all: &[(usize, Result<Forecast, IndexError>)]) -> String {
    let heads =
        ["RAM", "memtable", "pages of the levels", "filters", "programs a put", "us a put", "reads a get"];
    let sides = [Side::Right, Side::Right, Side::Left, Side::Right, Side::Right, Side::Right, Side::Right];
    let rows: Vec<Vec<String>> = all.iter().map(|(kib, forecast)| row(part, *kib, forecast)).collect();
    let mut text = format!(
        "plow on {}, {} records of {} + {} bytes, half look-ups, a sync after {SYNC} changes:\n",
        part.name,
        show_count(args.records),
        args.record.key_bytes,
        args.record.value_bytes
    );
    let _ = write!(text, "{}", grid(&heads.map(String::from), &sides, &rows));
    text
}

fn row(part: &Part, kib: usize, forecast: &Result<Forecast, IndexError>) -> Vec<String> {
    let ram = format!("{kib} KiB");
    match forecast {
        Err(error) => {
            let mut cells = vec![ram, String::new(), error.to_string()];
            cells.resize(7, String::new());
            cells
        }
        Ok(forecast) => {
            let pages = forecast.pages[..forecast.levels].iter().map(u64::to_string).collect::<Vec<_>>();
            vec![
                ram,
                show_count(forecast.memtable),
                pages.join(", "),
                show(Quantity::Bytes, forecast.filter_bytes as f64),
                format!("{:.4}", programs(forecast)),
                format!("{:.1}", us(part, forecast)),
                format!("{:.2}", forecast.look_up_reads as f64 / MILLION),
            ]
        }
    }
}

/// Page programs per put, with its share of a sync.
fn programs(forecast: &Forecast) -> f64 {
    forecast.programs as f64 / MILLION + 1.0 / SYNC
}

/// Flash time of a put in µs, with its share of an erase.
fn us(part: &Part, forecast: &Forecast) -> f64 {
    let erase_ns = part.timing.erase_ns as f64 / f64::from(part.geometry.pages_per_block);
    let program_ns = part.page_program_ns() as f64 + erase_ns;
    (programs(forecast) * program_ns + forecast.reads as f64 / MILLION * part.page_read_ns() as f64) / 1000.0
}

fn in_json((kib, forecast): &(usize, Result<Forecast, IndexError>)) -> Value {
    match forecast {
        Err(error) => json!({"ram_bytes": kib * 1024, "refused": error.to_string()}),
        Ok(forecast) => json!({
            "ram_bytes": kib * 1024,
            "memtable_records": forecast.memtable,
            "filter_bytes": forecast.filter_bytes,
            "pages_of_levels": forecast.pages[..forecast.levels],
            "programs_per_change": forecast.programs as f64 / MILLION,
            "reads_per_change": forecast.reads as f64 / MILLION,
            "reads_per_look_up": forecast.look_up_reads as f64 / MILLION,
        }),
    }
}
