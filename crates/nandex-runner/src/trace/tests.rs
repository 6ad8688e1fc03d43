//! Tests of the readers, the writer and the cut.

use super::*;

fn record(kind: RecordKind, tree: u8, key: u64) -> Record {
    Record { kind, tree, flags: 0, count: 1, key }
}

/// A valid trace over two indexes with flags and ranges.
fn sample() -> Vec<Record> {
    use RecordKind::{Delete, Hit, Insert, Miss, Modify, Range};
    vec![
        Record { flags: 0x4903, ..record(Insert, 0, 7) },
        record(Miss, 1, 7),
        record(Insert, 1, u64::MAX),
        Record { flags: 0x5200, ..record(Hit, 0, 7) },
        Record { flags: 0x5001, ..record(Modify, 0, 7) },
        Record { count: 100, flags: 1, ..record(Range, 1, 3) },
        Record { flags: 0x4403, ..record(Delete, 0, 7) },
        Record { flags: 0x5200, ..record(Miss, 0, 7) },
    ]
}

fn write_file(name: &str, bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    (dir, path)
}

fn refusal(name: &str, bytes: &[u8], strict: bool) -> String {
    let (dir, path) = write_file(name, bytes);
    let options = TraceOptions { strict, ..TraceOptions::default() };
    let message = Trace::read(&path, &options).unwrap_err().to_string();
    message.replace(&format!("{}/", dir.path().display()), "")
}

fn bytes_of(records: &[Record]) -> Vec<u8> {
    records.iter().flat_map(|r| ops1::encode(r).unwrap()).collect()
}

#[test]
fn ops1_comes_back_plain_and_packed() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["t.ops", "t.ops.zst"] {
        let path = dir.path().join(name);
        ops1::write(&path, &sample()).unwrap();
        let trace = Trace::read(&path, &TraceOptions { strict: true, ..TraceOptions::default() }).unwrap();
        assert_eq!((trace.name.as_str(), &trace.records), ("t", &sample()));
        assert!(trace.init.is_empty());
    }
    assert_eq!(std::fs::read(dir.path().join("t.ops")).unwrap(), bytes_of(&sample()));
    assert_eq!(bytes_of(&sample())[..16], [2, 0, 3, 0x49, 1, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn what_ops1_cannot_say_is_not_written() {
    let (_dir, path) = write_file("t.ops", b"");
    let refused = ops1::write(&path, &[sample()[0], record(RecordKind::Sync, 0, 0)]).unwrap_err();
    assert!(refused.to_string().ends_with("record 2: Sync has no code in OPS1"), "{refused}");
}

#[test]
fn bad_files_are_refused_with_the_place() {
    let good = bytes_of(&sample());
    let mut unknown = good.clone();
    unknown[32] = 9;
    let mut no_count = good.clone();
    no_count[20] = 0;
    assert_eq!(
        refusal("t.ops", &good[..good.len() - 3], false),
        "t.ops: record 8 (byte 112): is cut off after 13 of 16 bytes"
    );
    assert_eq!(
        refusal("t.ops", &unknown, false),
        "t.ops: record 3 (byte 32): has the unknown operation 9; known are 0 to 5"
    );
    assert_eq!(refusal("t.ops", &no_count, false), "t.ops: record 2 (byte 16): has a count of 0");
    let packed = zstd::encode_all(&good.repeat(2000)[..], 3).unwrap();
    let cut_off = refusal("t.ops.zst", &packed[..packed.len() - 20], false);
    assert!(cut_off.starts_with("t.ops.zst: record ") && cut_off.contains("cannot be read"), "{cut_off}");
    let absent = Trace::read(Path::new("no/such.ops"), &TraceOptions::default()).unwrap_err().to_string();
    assert!(absent.starts_with("no/such.ops: "), "{absent}");
}

#[test]
fn contradictions_are_refused_when_asked() {
    let mut records = sample();
    records.push(record(RecordKind::Delete, 0, 7));
    assert_eq!(
        refusal("t.ops", &bytes_of(&records), true),
        "t.ops: operation 9: deletes a key that is absent (index 0, key 7)"
    );
    let (_dir, path) = write_file("t.ops", &bytes_of(&records));
    let trace = Trace::read(&path, &TraceOptions::default()).unwrap();
    assert_eq!(trace.summary().contradictions, 1);
}

#[test]
fn text_says_the_same() {
    let text = "# nothing\n\ninsert 0:0x7 # new\nmiss 1:7\ninsert 1:18_446_744_073_709_551_615\nhit 7\nupdate 7\n\
                range 1:3 -100\nremove 7\nget 7\nsync\n";
    let (_dir, path) = write_file("t.txt", text.as_bytes());
    let trace = Trace::read(&path, &TraceOptions { strict: true, ..TraceOptions::default() }).unwrap();
    let plain = |r: &Record| (r.kind, r.tree, r.count, r.key);
    let mut expected: Vec<_> = sample().iter().map(plain).collect();
    expected[7].0 = RecordKind::Get;
    expected.push((RecordKind::Sync, 0, 1, 0));
    assert_eq!(trace.records.iter().map(plain).collect::<Vec<_>>(), expected);
    let options = TraceOptions { descending_flag: true, ..TraceOptions::default() };
    assert_eq!(trace.workload(&options).phases[0].ops[5].kind, OpKind::RangeDown);
}

#[test]
fn bad_lines_are_refused_with_their_number() {
    let cases: [(&[u8], &str); 7] = [
        (
            b"get 1\nfetch 1\n",
            "t.txt: line 2: there is no operation 'fetch'; known: get, hit, miss, insert, remove, update, range, sync",
        ),
        (b"get\n", "t.txt: line 1: 'get' has one key"),
        (b"\n\nget x\n", "t.txt: line 3: 'x' is no number below 2^64"),
        (b"range 1\n", "t.txt: line 1: a range has a key and a count"),
        (b"range 1 0\n", "t.txt: line 1: '0' is no count of records"),
        (b"get 256:1\n", "t.txt: line 1: '256' is no index number below 256"),
        (b"get 1\n\xff\xfe\n", "t.txt: line 2: is not text"),
    ];
    for (bytes, message) in cases {
        assert_eq!(refusal("t.txt", bytes, false), message);
    }
}

#[test]
fn the_contents_before_are_found_beside() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    ops1::write(&at("t.ops"), &[record(RecordKind::Hit, 0, 1)]).unwrap();
    ops1::write(&at("t.init.ops.zst"), &[record(RecordKind::Insert, 0, 1)]).unwrap();
    let strict = TraceOptions { strict: true, ..TraceOptions::default() };
    let workload = Trace::read(&at("t.ops"), &strict).unwrap().workload(&strict);
    let shape: Vec<_> = workload.phases.iter().map(|p| (p.name.as_str(), p.measured, p.ops.len())).collect();
    assert_eq!(shape, [("init", false, 1), ("trace", true, 1)]);
}

#[test]
fn only_so_many_operations_are_read() {
    let (_dir, path) = write_file("t.ops", &bytes_of(&sample()));
    let options = TraceOptions { operations: Some(3), ..TraceOptions::default() };
    assert_eq!(Trace::read(&path, &options).unwrap().records.len(), 3);
}

#[test]
fn the_summary_counts_as_the_paper_does() {
    let trace =
        Trace { name: String::new(), init: vec![record(RecordKind::Insert, 2, 5)], records: sample() };
    let summary = trace.summary();
    assert_eq!(summary.paper_counts(), Some((2, 2, 1)));
    assert_eq!((summary.hits, summary.misses, summary.inserts, summary.ranges), (1, 2, 2, 1));
    assert_eq!((summary.operations, summary.init_records, summary.contradictions), (8, 1, 0));
    assert_eq!((summary.trees[&0].records_max, summary.trees[&0].records_end), (1, 0));
    assert_eq!((summary.trees[&1].key_min, summary.trees[&1].key_max), (3, u64::MAX));
    assert_eq!((summary.trees[&2].records_end, summary.trees[&2].operations), (1, 0));
}

#[test]
fn a_cut_stands_alone() {
    let trace =
        Trace { name: String::from("t"), init: vec![record(RecordKind::Insert, 1, 9)], records: sample() };
    let window = cut(&trace, 3..6);
    assert_eq!(window.records, sample()[3..6]);
    let init: Vec<_> = window.init.iter().map(|r| (r.tree, r.key)).collect();
    assert_eq!(init, [(1, 9), (0, 7), (1, u64::MAX)]);
    assert_eq!(window.summary().contradictions, 0);
    assert!(cut(&trace, 20..30).records.is_empty());
}

#[test]
fn the_bundled_trace_is_what_its_readme_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/kernel_compile.ops.zst");
    let trace = Trace::read(&path, &TraceOptions { strict: true, ..TraceOptions::default() }).unwrap();
    let summary = trace.summary();
    assert_eq!((summary.operations, summary.init_records), (240_000, 246_298));
    assert_eq!((summary.hits, summary.misses), (183_639, 27_325));
    assert_eq!((summary.inserts, summary.deletes, summary.modifies), (12_631, 12_108, 4_297));
    assert_eq!(summary.paper_counts(), Some((210_964, 15_542, 13_494)));
    let tree = summary.trees[&0];
    assert_eq!((tree.records_max, tree.records_end), (253_025, 246_821));
    assert!(tree.key_max < 1 << 26);
}

#[test]
fn no_bytes_whatever_bring_a_reader_down() {
    let mut rng = nandex::rng::Rng::new(12);
    let packed = zstd::encode_all(&bytes_of(&sample()).repeat(50)[..], 3).unwrap();
    let text = b"insert 0:0x7 # new\nrange 1:3 -100\nsync\nupdate 18_000\n".repeat(4);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t");
    for round in 0..600 {
        let mut bytes = match round % 4 {
            0 => packed.clone(),
            1 => text.clone(),
            2 => bytes_of(&sample()),
            _ => vec![0; rng.below(80) as usize],
        };
        if round % 4 == 3 {
            rng.fill(&mut bytes);
        } else {
            let place = rng.below(bytes.len() as u64) as usize;
            bytes[place] ^= 1 << rng.below(8);
            bytes.truncate(bytes.len() - rng.below(4) as usize);
        }
        std::fs::write(&path, &bytes).unwrap();
        if let Err(error) = Trace::read(&path, &TraceOptions { strict: true, ..TraceOptions::default() }) {
            assert!(error.to_string().starts_with(&path.display().to_string()), "{error}");
        }
    }
}

#[test]
fn insertions_of_consecutive_keys_are_one_record_in_the_file() {
    use RecordKind::{Hit, Insert};
    let mut records: Vec<Record> = (5..25).map(|key| record(Insert, 1, key)).collect();
    records.extend([record(Insert, 2, 25), record(Insert, 2, 24), record(Hit, 2, 25), record(Hit, 2, 26)]);
    records.extend([record(Insert, 2, u64::MAX - 1), record(Insert, 2, u64::MAX), record(Insert, 2, 0)]);
    let runs = ops1::runs(&records);
    assert_eq!(runs.iter().map(|run| run.count).collect::<Vec<_>>(), [20, 1, 1, 1, 1, 2, 1]);
    let (_dir, path) = write_file("t.ops", &bytes_of(&runs));
    assert_eq!(Trace::read(&path, &TraceOptions::default()).unwrap().records, records);
    let four = TraceOptions { operations: Some(4), ..TraceOptions::default() };
    assert_eq!(Trace::read(&path, &four).unwrap().records, records[..4]);
    let run = |key, count| bytes_of(&[Record { count, ..record(Insert, 0, key) }]);
    assert!(refusal("t.ops", &run(u64::MAX, 2), false).contains("has a run of 2 insertions"));
    assert!(refusal("t.ops", &run(0, u32::MAX), false).contains("record 1 (byte 0): has a run"));
}

#[test]
fn ranks_keep_the_order_within_each_index() {
    use RecordKind::{Delete, Insert, Range};
    let init = vec![record(Insert, 0, 70), record(Insert, 0, 900), record(Insert, 3, 1 << 60)];
    let wide = Record { count: 9, flags: 1, ..record(Range, 0, 800) };
    let records = vec![record(Insert, 0, 5), wide, record(Delete, 3, 1 << 60)];
    let trace = ranked(&Trace { name: "t".into(), init, records });
    let keys = |records: &[Record]| records.iter().map(|r| (r.tree, r.key)).collect::<Vec<_>>();
    assert_eq!(keys(&trace.init), [(0, 1), (0, 3), (3, 0)]);
    assert_eq!(keys(&trace.records), [(0, 0), (0, 2), (3, 0)]);
    assert_eq!((trace.records[1].count, trace.records[1].flags), (9, 1));
}
