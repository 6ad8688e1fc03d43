//! Any bytes as each kind of file that the program reads. Answers and refusals are both fine; nothing may
//! panic, and a refusal says why.

use nandex::nand::sim::SimChip;
use nandex_lab::block_trace::{BlockTrace, BlockTraceOptions, Event, FORMATS};
use nandex_lab::chip;
use nandex_lab::experiment::definition::{parse_claims, parse_definition};
use nandex_lab::keys::{KeyTable, Trees};
use nandex_lab::spatial::data;
use nandex_lab::trace::{Trace, TraceOptions, ops1, text};

/// Records of a file that are looked at; more of the same tell nothing.
const RECORDS_MAX: usize = 1 << 12;

/// A recorded trace in every form: operations as text and as OPS1, block traces guessed and in each format,
/// places as CSV and GeoJSON.
pub fn trace(bytes: &[u8]) {
    let records = ops1::Reader::new(bytes).take(RECORDS_MAX).collect::<Result<Vec<_>, _>>();
    use_records(records.map_err(|why| (1, why)));
    use_records(text::read(bytes, RECORDS_MAX as u64));
    let all = [None].into_iter().chain(FORMATS.iter().map(Some));
    for (format, event) in all.zip([Event::Queued, Event::Issued, Event::Completed].into_iter().cycle()) {
        let options =
            BlockTraceOptions { format, requests: Some(RECORDS_MAX as u64), event, time_scale: 1000 };
        match BlockTrace::from_lines(bytes, &options) {
            Ok(trace) => assert!(trace.duration_ns() > 0 || trace.requests.iter().all(|r| r.time_ns == 0)),
            Err((_, why)) => assert!(!why.is_empty()),
        }
    }
    let _ = data::read_csv("fuzz", bytes);
    let _ = data::read_geojson("fuzz", bytes);
}

/// Does with the records of a trace what a run does before it begins.
fn use_records(read: Result<Vec<nandex_lab::trace::Record>, (u64, String)>) {
    match read {
        Ok(records) => {
            let trace = Trace { name: "fuzz".into(), init: Vec::new(), records };
            let _ = trace.summary();
            let workload = trace.workload(&TraceOptions::default());
            let _ = KeyTable::new(&workload, 4, Trees::PerIndex);
        }
        Err((_, why)) => assert!(!why.is_empty()),
    }
}

/// Fuzz target: parses a chip file and makes the chip.
pub fn chip_file(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match chip::parse(text, "fuzz") {
        Ok(part) if part.geometry.pages() <= 1 << 20 => assert!(SimChip::new(&part).is_ok()),
        Ok(_) => {}
        Err(why) => assert!(!why.is_empty()),
    }
}

/// The two files of an experiment.
pub fn experiment_file(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let _ = parse_definition(text);
    let _ = parse_claims(text);
}
