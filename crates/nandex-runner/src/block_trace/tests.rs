//! Tests of every format: lines as in public collections, faulty lines, and the guess of the format.

use super::*;
use std::fs;

fn read(text: &str) -> Result<BlockTrace, (u64, String)> {
    BlockTrace::from_lines(text.as_bytes(), &BlockTraceOptions::default())
}

fn as_format(name: &str, text: &str) -> Result<BlockTrace, (u64, String)> {
    let options = BlockTraceOptions { format: Some(format(name).unwrap()), ..BlockTraceOptions::default() };
    BlockTrace::from_lines(text.as_bytes(), &options)
}

fn request(op: BlockOp, device: u32, range: (u64, u64), time_ns: u64) -> Request {
    Request { op, device, offset_bytes: range.0, bytes: range.1, time_ns }
}

/// Checks that the text is refused at this line with a message that contains all these words.
fn assert_refused(text: &str, line: u64, words: &[&str]) {
    let (at, reason) = read(text).unwrap_err();
    assert_eq!(at, line, "{reason}");
    for word in words {
        assert!(reason.contains(word), "no '{word}' in: {reason}");
    }
}

const SPC: &str = "0,20941264,8192,W,0.551706\n1,100,512,r,0.6,extra\n";

const MSR: &str = "128166372003061629,hm,1,Read,383496192,32768,413\n\
                   128166372013061629,hm,0,Write,512,100,9\n";

const FIO2: &str = "fio version 2 iolog\n/dev/sda add\n/dev/sda open\n/dev/sda write 4096 8192\n\
                    /dev/sda wait 100 0\n/dev/sda sync 0 0\n/dev/sda trim 0 4096\n/dev/sda close\n";

const FIO3: &str =
    "fio version 3 iolog\n2 nvme add\n872 nvme open\n878 nvme write 0 16384\n890 nvme read 512 512\n";

const BLK: &str = "  8,0    3        1     0.000000000   697  Q   W 223490 + 8 [kjournald]\n\
                   8,0    3        2     0.000001829   697  G   W 223490 + 8 [kjournald]\n\
                   8,0    3        0     0.000002000     0  m   N cfq697 insert_request\n\
                   8,0    3        3     0.000002500   697  Q FWS [kjournald]\n\
                   8,16   3        4     0.002000000   697  Q  DS 64 + 16 [fstrim]\n\
                   8,0    3        5     0.003000000   697  Q  RA 0 + 1 [cat]\n\
                   8,0    3        6     0.004000000     0  C   W 223490 + 8 [0]\n\
                   CPU3 (8,0):\n Reads Queued:           1,        0KiB\n Total (8,0):\n";

#[test]
fn spc_names_its_units() {
    let trace = read(SPC).unwrap();
    assert_eq!((trace.format, &trace.devices[..]), ("spc", &["0".to_string(), "1".to_string()][..]));
    let expected = [
        request(BlockOp::Write, 0, (20_941_264 * 512, 8192), 0),
        request(BlockOp::Read, 1, (51_200, 512), 48_294_000),
    ];
    assert_eq!(trace.requests, expected);
    assert!(trace.has_times);
    assert_refused("0,1,8192,W,0.5\n0,1,8192,Q,0.5\n", 2, &["'Q' is no read", "expected ASU,LBA,size"]);
    assert_refused("0,1,8192,W,0.5\n0,1,8192,W\n", 2, &["4 fields"]);
    assert_refused("0,1,8192,W,0.5\n0,-1,8192,W,0.5\n", 2, &["LBA '-1'"]);
}

#[test]
fn msr_counts_in_ticks() {
    for text in
        [MSR.to_string(), format!("Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n{MSR}")]
    {
        let trace = read(&text).unwrap();
        assert_eq!((trace.format, trace.devices[0].as_str()), ("msr", "hm.1"));
        assert_eq!(trace.requests[0], request(BlockOp::Read, 0, (383_496_192, 32_768), 0));
        assert_eq!(trace.requests[1], request(BlockOp::Write, 1, (512, 100), 1_000_000_000));
    }
    assert_refused(
        &format!("{MSR}128166372003061629,hm,x,Read,1,1,1\n"),
        3,
        &["disk number 'x'", "Hostname"],
    );
    assert_refused(&format!("{MSR}128166372003061629,hm,1,Read\n"), 3, &["4 fields"]);
}

#[test]
fn fio_logs_of_both_versions() {
    let trace = read(FIO2).unwrap();
    assert_eq!((trace.format, trace.has_times, trace.other_lines), ("fio", false, 5));
    assert_eq!(trace.requests[0], request(BlockOp::Write, 0, (4096, 8192), 0));
    assert_eq!(trace.requests[1], request(BlockOp::Trim, 0, (0, 4096), 0));
    let trace = read(FIO3).unwrap();
    assert_eq!((trace.has_times, trace.requests[1].time_ns), (true, 12_000));
    assert_refused("fio version 4 iolog\n", 1, &["no version", "expected 'fio version 2"]);
    assert_refused("fio version 2 iolog\n/dev/sda wrote 0 1\n", 2, &["'wrote' is no action", "FILE ACTION"]);
    assert_refused("fio version 2 iolog\n/dev/sda write 0\n", 2, &["write needs an offset"]);
    assert_refused("fio version 3 iolog\n/dev/sda write 0 512\n", 2, &["time '/dev/sda'"]);
    let (line, reason) = as_format("fio", "/dev/sda write 0 512\n").unwrap_err();
    assert!(line == 1 && reason.contains("version is missing"), "{reason}");
}

#[test]
fn blktrace_counts_one_event_of_each_request() {
    let trace = read(BLK).unwrap();
    assert_eq!((trace.format, trace.devices.len(), trace.other_lines), ("blktrace", 2, 7));
    let expected = [
        request(BlockOp::Write, 0, (223_490 * 512, 4096), 0),
        request(BlockOp::Trim, 1, (32_768, 8192), 2_000_000),
        request(BlockOp::Read, 0, (0, 512), 3_000_000),
    ];
    assert_eq!(trace.requests, expected);
    let options = BlockTraceOptions { event: Event::Completed, ..BlockTraceOptions::default() };
    let completed = BlockTrace::from_lines(BLK.as_bytes(), &options).unwrap();
    assert_eq!(completed.requests, [request(BlockOp::Write, 0, (223_490 * 512, 4096), 0)]);
    let good = "8,0 3 1 0.0 697 Q W 8 + 8 [a]\n";
    assert_refused(&format!("{good}8,0 3 1 0.0 697 Q W x + 8 [a]\n"), 2, &["sector 'x'", "maj,min"]);
    assert_refused(&format!("{good}8 3 1 0.0 697 Q W 8 + 8 [a]\n"), 2, &["'8' is no device"]);
    assert_refused(&format!("{good}8,0 3 1\n"), 2, &["3 words"]);
    assert!(Event::from_letter("X").unwrap_err().to_string().contains("known: Q, D, C"));
}

#[test]
fn csv_columns_have_names_and_units() {
    let trace = read("op,sector,sectors,time_us\nW,42932745,1,5633898\nR,8,2,5633900\n").unwrap();
    assert_eq!(trace.format, "csv");
    assert_eq!(trace.requests[0], request(BlockOp::Write, 0, (42_932_745 * 512, 512), 0));
    assert_eq!(trace.requests[1].time_ns, 2000);
    let bytes = read("time_s,Disk,Type,Offset,Size\n1.5,a,Trim,1,2\n2,b,write,3,4\n").unwrap();
    assert_eq!(bytes.devices, ["a", "b"]);
    assert_eq!(bytes.requests[1], request(BlockOp::Write, 1, (3, 4), 500_000_000));
    let bare = read("R,0,4\nW,32,4\n").unwrap();
    assert_eq!((bare.format, bare.has_times, bare.requests[1].offset_bytes), ("csv", false, 16_384));
    assert!(read("# why\n\nR,0,4,9\n").unwrap().has_times);
    assert_refused("op,sector,sectors\nW,1\n", 2, &["2 fields", "op,sector,sectors, such as"]);
    assert_refused("op,sector,sectors\nW,1,2\nX,1,2\n", 3, &["'X'"]);
    assert_refused("op,sector,sectors\nR,1,9999999999\n", 2, &["at most 1073741824"]);
    assert_refused("op,offset,size\nT,18446744073709551615,2\n", 2, &["beyond 2^62"]);
    let (line, reason) = as_format("csv", "op,sectors\n").unwrap_err();
    assert!(line == 1 && reason.contains("no column of the address (sector, lba"), "{reason}");
}

#[test]
fn what_was_written_as_csv_is_read_again() {
    for text in [SPC, FIO2, BLK, "op,offset,size\nW,1,3\n"] {
        let trace = read(text).unwrap();
        let mut out = Vec::new();
        write_csv(&trace, &mut out).unwrap();
        let again = read(std::str::from_utf8(&out).unwrap()).unwrap();
        let without_device = |t: &BlockTrace| -> Vec<Request> {
            t.requests.iter().map(|r| Request { device: 0, ..*r }).collect()
        };
        assert_eq!(without_device(&again), without_device(&trace));
    }
}

#[test]
fn each_format_is_known_by_its_first_line() {
    for (text, name) in [(SPC, "spc"), (MSR, "msr"), (FIO2, "fio"), (FIO3, "fio"), (BLK, "blktrace")] {
        let first = text.lines().next().unwrap();
        let claimed: Vec<&str> = FORMATS.iter().filter(|f| (f.looks_like)(first)).map(|f| f.name).collect();
        assert_eq!(claimed, [name]);
        assert_eq!(as_format(name, text), read(text));
    }
    assert_refused("hello world\n", 1, &["of no format known here", "spc", "msr"]);
    assert_refused("", 0, &["is empty"]);
    assert_refused("op,sector,sectors\n", 0, &["no request"]);
    assert!(format("msrc").unwrap_err().to_string().contains("did you mean 'msr'?"));
}

#[test]
fn files_may_be_packed_and_errors_name_file_and_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("blk_small.csv.zst");
    fs::write(&path, zstd::bulk::compress(b"R,0,4\nW,8,4\n", 3).unwrap()).unwrap();
    let limited = BlockTraceOptions { requests: Some(1), ..BlockTraceOptions::default() };
    let trace = BlockTrace::read(&path, &limited).unwrap();
    assert_eq!((trace.name.as_str(), trace.requests.len()), ("blk_small", 1));
    let path = folder.path().join("bad.csv");
    fs::write(&path, "R,0,4\nR,0\n").unwrap();
    let error = BlockTrace::read(&path, &BlockTraceOptions::default()).unwrap_err().to_string();
    assert!(error.contains("bad.csv: line 2: 2 fields; expected op,sector,sectors"), "{error}");
    assert!(BlockTrace::read(&folder.path().join("none"), &BlockTraceOptions::default()).is_err());
}
