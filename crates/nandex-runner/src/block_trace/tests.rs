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

const SYSTOR: &str = "Timestamp,Response,IOType,LUN,Offset,Size\n\
                      1455592984.297108,0.000163,R,4,138788864,4096\n\
                      1455592984.297208,,W,0,512,1024\n";

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
fn events_without_a_length_are_passed_over() {
    let usual = "253,0 0 14 0.004446930 9 {} W 8 + 8 [a]\n";
    let without = [
        "WS 7928928 [0]",
        "FWS 7928928 (  123456) [0]",
        "FN [jbd2/dm-0-8]",
        "WS [jbd2/dm-0-8]",
        "N 0 [0]",
        "N 0 (00 ..) [0]",
        "R 36 (12 01 00 00 24 00) [smartd]",
        "R (12 01) [0]",
        "W 8 + 0 [a]",
        "WFS",
    ];
    for (event, letter) in [(Event::Queued, "Q"), (Event::Issued, "D"), (Event::Completed, "C")] {
        let options = BlockTraceOptions { event, ..BlockTraceOptions::default() };
        let usual = usual.replace("{}", letter);
        for rest in without {
            let text = format!("{usual}253,0 0 15 0.004446931 0 {letter} {rest}\n{usual}");
            let read = BlockTrace::from_lines(text.as_bytes(), &options);
            let read = read.unwrap_or_else(|wrong| panic!("{rest}: {wrong:?}"));
            assert_eq!((read.requests.len(), read.other_lines), (2, 1), "{letter} {rest}");
        }
        for damaged in ["W 223490 8 [a]", "W 223490", "W x [0]", "W 223490 + [a]"] {
            let text = format!("{usual}253,0 0 15 0.004446931 0 {letter} {damaged}\n");
            assert_eq!(BlockTrace::from_lines(text.as_bytes(), &options).unwrap_err().0, 2, "{damaged}");
        }
    }
}

/// The text of a write at this time in seconds.
type Write = fn(f64) -> String;

/// Writes of each format with times.
const TIMED: [(&str, Write); 6] = [
    ("spc", |at| format!("0,8,512,W,{at:.9}\n")),
    ("msr", |at| format!("{:.0},hm,1,Write,512,512,9\n", at * 1e7)),
    ("systor", |at| format!("{at:.9},0.1,W,4,512,512\n")),
    ("fio", |at| format!("{:.0} nvme write 512 512\n", at * 1e6)),
    ("blktrace", |at| format!("8,0 3 1 {at:.9} 697 Q W 8 + 8 [a]\n")),
    ("csv", |at| format!("W,8,1,{:.0}\n", at * 1e6)),
];

fn timed(format: &str, line: Write, times: &[f64]) -> Result<BlockTrace, (u64, String)> {
    let head = if format == "fio" { "fio version 3 iolog\n" } else { "# no heading\n" };
    read(&format!("{head}{}", times.iter().map(|at| line(*at)).collect::<String>()))
}

#[test]
fn little_disorder_is_put_in_order_and_counted() {
    for (name, line) in TIMED {
        let trace = timed(name, line, &[100.0, 103.0, 102.0, 102.5, 150.0, 100.0, 99.0]).unwrap();
        let seconds: Vec<u64> = trace.requests.iter().map(|r| r.time_ns / 500_000_000).collect();
        assert_eq!(seconds, [0, 2, 2, 6, 7, 8, 102], "{name}");
        assert_eq!((trace.format, trace.late_requests), (name, 4));
        let good = timed(name, line, &[100.0, 100.0, 130.0, 86_400.0 * 30.0]).unwrap();
        assert_eq!(good.late_requests, 0, "{name}");
    }
    let text = "W,1,1,5\nW,2,1,7\nW,3,1,5\nW,4,1,7\n";
    let sectors: Vec<u64> = read(text).unwrap().requests.iter().map(|r| r.offset_bytes / 512).collect();
    assert_eq!(sectors, [1, 3, 2, 4], "requests of one time stay as they were");
    let untimed = read("W,1,1\nW,2,1\n").unwrap();
    assert_eq!((untimed.late_requests, untimed.has_times), (0, false));
}

#[test]
fn clocks_that_jump_are_refused_with_their_line() {
    for (name, line) in TIMED {
        for times in [[1000.0, 1001.0, 940.0], [1e6, 1e6 + 1.0, 0.0]] {
            let (at, reason) = timed(name, line, &times).unwrap_err();
            assert!(at == 4 && reason.contains("back"), "{name}: {at}, {reason}");
            assert!(reason.contains(&format!("{} s", times[1])), "{name}: {reason}");
            assert!(reason.contains(&format!("{} s", times[2])), "{name}: {reason}");
        }
        let (at, reason) = timed(name, line, &[0.0, 1_266_874_889.0, 0.001]).unwrap_err();
        assert!(at == 3 && reason.contains("1266874889 s after 0 s"), "{name}: {at}, {reason}");
    }
    let scaled = BlockTraceOptions { time_scale: u64::MAX, ..BlockTraceOptions::default() };
    for text in ["W,1,1,5\nW,1,1,6\n", "W,1,1,6\nW,1,1,5\n"] {
        let (_, reason) = BlockTrace::from_lines(text.as_bytes(), &scaled).unwrap_err();
        assert!(reason.contains("centuries"), "{reason}");
    }
}

#[test]
fn a_desktop_is_no_server() {
    let trace = read(SYSTOR).unwrap();
    assert_eq!((trace.format, &trace.devices[..]), ("systor", &["4".to_string(), "0".to_string()][..]));
    let expected =
        [request(BlockOp::Read, 0, (138_788_864, 4096), 0), request(BlockOp::Write, 1, (512, 1024), 100_000)];
    assert_eq!(trace.requests, expected);
    assert_refused(&format!("{SYSTOR}1.0,2,R,4,5\n"), 4, &["5 fields", "IOType"]);
    assert_refused(&format!("{SYSTOR}1.0,2,R,x,5,6\n"), 4, &["LUN 'x'"]);
    assert!(as_format("msr", SYSTOR).is_err() && as_format("systor", MSR).is_err());
    // Other collections: Alibaba, Tencent, MQSim, DiskSim, FIU, and a heading that only begins alike.
    let others = [
        "419,W,8792731648,16384,1577808144360767\n",
        "1538323200,12910952,128,0,1063\n",
        "4851300 0 3409216 8 1\n",
        "0.012345 1 3409216 8 1\n",
        "329131208190249 4892 syslogd 904265560 8 W 6 0 531e779\n",
        "device_id,opcode,offset,length,timestamp\n",
        "Timestamp,Hostname,Disk,Type,Offset,Size\n",
        "Timestamp,A,B,C,D,E,F\n",
    ];
    for other in others {
        assert_refused(other, 1, &["of no format known here"]);
    }
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
    let (line, reason) = as_format("csv", "ts,op,sector,sectors\n").unwrap_err();
    assert!(line == 1 && reason.contains("the column ts has no unit; known are time_s"), "{reason}");
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
    let msr = format!("Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n{MSR}");
    let systor = SYSTOR.split_once('\n').unwrap().1;
    let texts = [
        (SPC, "spc"),
        (MSR, "msr"),
        (&msr, "msr"),
        (SYSTOR, "systor"),
        (systor, "systor"),
        (FIO2, "fio"),
        (FIO3, "fio"),
        (BLK, "blktrace"),
    ];
    for (text, name) in texts {
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
