//! Traces bundled with the program, for users without the full ones. `data/README.md` names their sources.

use crate::LabError;
use crate::block_trace::{BlockTrace, BlockTraceOptions};
use crate::trace::{Record, Trace, TraceOptions, ops1};
use crate::workload::Workload;
use std::collections::BTreeSet;
use std::io::BufReader;

/// A trace, or the beginning of one, packed into the program.
#[derive(Debug)]
pub struct Bundle {
    /// Name of the full trace, a file in the data folder.
    file: &'static str,
    /// The name of the bundle.
    pub name: &'static str,
    /// The contents of the bundle, in one line.
    pub summary: &'static str,
    /// Whether the trace is complete, and so as good as the file.
    pub is_whole: bool,
    records: &'static [u8],
    init: &'static [u8],
}

macro_rules! bundle {
    ($file:literal, $name:literal, $trace:expr, $is_whole:literal, $summary:literal) => {
        Bundle {
            file: $file,
            name: $name,
            summary: $summary,
            is_whole: $is_whole,
            records: $trace.operations,
            init: $trace.init,
        }
    };
}

/// All bundled traces of indexes.
pub static BUNDLES: &[Bundle] = &[
    bundle!(
        "kernel_compile_reiserfs.ops.zst",
        "kernel_compile",
        nandex_data::KERNEL_COMPILE,
        false,
        "a trace for compare --trace: ReiserFS's B+-tree under a kernel build, 240,000 operations"
    ),
    #[cfg(feature = "large-data")]
    bundle!(
        "oltp_a.ops.zst",
        "oltp_a",
        nandex_data::OLTP_A,
        false,
        "a trace for compare --trace: the indexes of a database under OLTP, 400,000 operations"
    ),
    #[cfg(feature = "large-data")]
    bundle!(
        "olap_b.ops.zst",
        "olap_b",
        nandex_data::OLAP_B,
        true,
        "a trace for compare --trace: the indexes of a database under OLAP, 689,486 operations"
    ),
];

impl Bundle {
    /// The bundled part of the trace in this file, if there is one.
    pub fn of(file: &str) -> Option<&'static Bundle> {
        BUNDLES.iter().find(|bundle| bundle.file == file)
    }

    /// The trace of this name.
    pub fn named(name: &str) -> Option<&'static Bundle> {
        BUNDLES.iter().find(|bundle| bundle.name == name)
    }

    /// A bundle that shows that an experiment works, for experiments whose trace is not bundled.
    pub fn any() -> &'static Bundle {
        &BUNDLES[0]
    }

    /// The bundled operations as a workload, cut as the options say.
    pub fn workload(&self, options: &TraceOptions) -> Result<Workload, LabError> {
        Ok(self.trace(options.operations)?.workload(options))
    }

    /// The first operations, with only those initial contents that they touch.
    pub fn beginning(&self, options: &TraceOptions) -> Result<Workload, LabError> {
        let mut trace = self.trace(options.operations)?;
        let touched: BTreeSet<(u8, u64)> = trace.records.iter().map(|r| (r.tree, r.key)).collect();
        trace.init.retain(|record| touched.contains(&(record.tree, record.key)));
        Ok(trace.workload(options))
    }

    /// The bundled operations, or the first `operations` of them, with the initial contents.
    pub fn trace(&self, operations: Option<u64>) -> Result<Trace, LabError> {
        let limit = operations.map_or(usize::MAX, |n| n as usize);
        Ok(Trace {
            name: self.name.to_string(),
            init: self.unpack("init.ops", self.init, usize::MAX)?,
            records: self.unpack("ops", self.records, limit)?,
        })
    }

    fn unpack(&self, kind: &str, packed: &[u8], limit: usize) -> Result<Vec<Record>, LabError> {
        let file = format!("data/{}.{kind}.zst", self.name);
        let input = zstd::stream::read::Decoder::new(packed).map_err(|error| LabError::io(&file, error))?;
        let mut reader = ops1::Reader::new(BufReader::new(input));
        let records = reader.by_ref().take(limit).collect::<Result<_, _>>();
        records.map_err(|reason| LabError::Trace { file, place: Some(reader.place()), reason })
    }
}

/// A page trace, or a part of one, packed into the program.
pub struct PageBundle {
    /// Name of the full trace, a file in the data folder.
    file: &'static str,
    name: &'static str,
    /// Whether the trace is complete.
    pub is_whole: bool,
    packed: &'static [u8],
}

macro_rules! page_bundle {
    ($file:literal, $name:literal, $packed:expr, $is_whole:literal) => {
        PageBundle { file: $file, name: $name, is_whole: $is_whole, packed: $packed }
    };
}

const PAGE_BUNDLES: [PageBundle; 4] = [
    page_bundle!("btree_io_rs0.csv.zst", "btree_io_rs0_cut", nandex_data::BTREE_IO_RS0, false),
    page_bundle!("btree_io_rs05.csv.zst", "btree_io_rs05_cut", nandex_data::BTREE_IO_RS05, false),
    page_bundle!("btree_io_rs1.csv.zst", "btree_io_rs1", nandex_data::BTREE_IO_RS1, true),
    page_bundle!(
        "btree_io_rs0_mixed.csv.zst",
        "btree_io_rs0_mixed_cut",
        nandex_data::BTREE_IO_RS0_MIXED,
        false
    ),
];

impl PageBundle {
    /// The bundled part of the page trace in this file, if there is one.
    pub fn of(file: &str) -> Option<&'static PageBundle> {
        PAGE_BUNDLES.iter().find(|bundle| bundle.file == file)
    }

    /// The bundled requests, or the first `requests` of them.
    pub fn read(&self, requests: Option<u64>) -> Result<BlockTrace, LabError> {
        let file = format!("data/{}.csv.zst", self.name);
        let input =
            zstd::stream::read::Decoder::new(self.packed).map_err(|error| LabError::io(&file, error))?;
        let options = BlockTraceOptions { requests, ..BlockTraceOptions::default() };
        let read = BlockTrace::from_lines(BufReader::new(input), &options);
        let read = read.map_err(|(line, reason)| LabError::Trace {
            file,
            place: Some(format!("line {line}")),
            reason,
        })?;
        Ok(BlockTrace { name: self.name.to_string(), ..read })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block_trace::BlockOp;
    use crate::trace::RecordKind;

    #[test]
    fn what_is_bundled_is_sound_and_as_large_as_told() {
        let sizes = |file: &str| {
            let trace = Bundle::of(file).unwrap().trace(None).unwrap();
            let summary = trace.summary();
            assert_eq!(summary.contradictions, 0, "{file}");
            (summary.init_records, summary.operations, summary.trees.len())
        };
        assert_eq!(sizes("kernel_compile_reiserfs.ops.zst"), (246_298, 240_000, 1));
        assert_eq!(sizes("oltp_a.ops.zst"), (987_655, 400_000, 13));
        assert_eq!(sizes("olap_b.ops.zst"), (1_155_497, 689_486, 15));
    }

    #[test]
    fn ranges_of_the_queries_run_downwards_where_told_and_scan_whole_tables() {
        let trace = Bundle::of("olap_b.ops.zst").unwrap().trace(None).unwrap();
        let ranges = trace.records.iter().filter(|r| r.kind == RecordKind::Range);
        let (mut downwards, mut scans) = (0, 0);
        for range in ranges {
            downwards += u32::from(range.flags & 1 == 1);
            scans += u32::from(range.flags & 2 == 2);
        }
        assert!(scans > 0, "{downwards} {scans}");
    }

    #[test]
    fn bundled_page_traces_are_as_large_as_told() {
        let counts = PAGE_BUNDLES.map(|bundle| {
            let trace = bundle.read(None).unwrap();
            assert!(trace.requests.iter().all(|r| r.bytes == 2048 && r.offset_bytes % 2048 == 0));
            (trace.count(BlockOp::Read), trace.count(BlockOp::Write))
        });
        assert_eq!(counts, [(5899, 4101), (5767, 4233), (2, 10_093), (7201, 2799)]);
    }
}
