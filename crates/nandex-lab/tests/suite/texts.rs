//! Every reader of a text reads it alike from every system: with the line ends of Unix, Windows and old
//! Macs, and with a byte order mark or without one. UTF-16 is refused by name.

#![allow(clippy::unwrap_used)]

use nandex_lab::block_trace::{BlockTrace, BlockTraceOptions, FORMATS};
use nandex_lab::experiment;
use nandex_lab::import::{self, ImportOptions};
use nandex_lab::spatial::data;
use nandex_lab::sweep::Grid;
use nandex_lab::trace::{Trace, TraceOptions};
use nandex_lab::{LabError, chip};
use std::fmt::Debug;
use std::fs;
use std::path::Path;

/// Reads a file and shows what came of it.
type Reader = fn(&Path) -> Result<String, LabError>;

fn show(read: Result<impl Debug, LabError>) -> Result<String, LabError> {
    read.map(|found| format!("{found:?}"))
}

fn block_trace(path: &Path) -> Result<String, LabError> {
    show(BlockTrace::read(path, &BlockTraceOptions::default()))
}

fn import(path: &Path) -> Result<String, LabError> {
    show(import::import(path, &ImportOptions::default()))
}

fn text(path: &Path) -> Result<String, LabError> {
    show(Trace::read(path, &TraceOptions::default()))
}

fn places(path: &Path) -> Result<String, LabError> {
    show(data::read(path))
}

fn experiment(path: &Path) -> Result<String, LabError> {
    show(experiment::load(path.to_str().unwrap(), &[]).map(|read| read.definition))
}

const BLOCK_TRACES: [&str; 8] = [
    "0,8,512,W,0.5\n0,16,512,R,0.6\n",
    "128166372003061629,hm,1,Read,512,512,413\n128166372003061630,hm,1,Write,512,512,413\n",
    "Timestamp,Response,IOType,LUN,Offset,Size\n1.5,,R,4,512,512\n1.6,0.1,W,4,512,512\n",
    "# recorded\n\n8,0 3 1 0.0 697 Q W 8 + 8 [a]\n8,0 3 2 0.1 697 Q W 16 + 8 [a]\n",
    "fio version 2 iolog\n/dev/sda write 512 512\n/dev/sda read 512 512\n",
    "fio version 3 iolog\n5 /dev/sda write 512 512\n9 /dev/sda read 512 512\n",
    "op,sector,sectors,time_us\nW,8,1,5\nR,8,1,9\n",
    "W,8,1,5\nR,8,1,9\n",
];

const LOGS: [&str; 6] = [
    "Time\t\t    Id Command\tArgument\n\t\t    31 Query\tCREATE TABLE t (id INT PRIMARY KEY,\n  name TEXT)\n\
     \t\t    31 Query\tSELECT * FROM t WHERE id = 2\n",
    "2026-11-24 10:30:00.100 UTC [77] LOG:  statement: SELECT 1 FROM a\n\tWHERE aid = 5\n\
     2026-11-24 10:30:00.103 UTC [77] LOG:  statement: UPDATE a SET b = 1 WHERE aid = 6\n",
    "INSERT usertable user3 [ field0=abc def ]\nREAD usertable user1 [ <all fields>]\n",
    "0x6B31 1 0 100 1550000000\n0x6B31 0 0 0 1550000001\n",
    "155001,1,9,4096,0,default,1,12,1,0,7,2,0,1,1,30,2,3,20,5,6\n",
    "op,key\nput,carol\nget,\"a,b\"\n",
];

#[test]
fn every_reader_takes_the_texts_of_every_system() {
    let mut readers: Vec<(&str, Reader, &str)> = Vec::new();
    readers.extend(BLOCK_TRACES.map(|sample| ("trace.csv", block_trace as Reader, sample)));
    readers.extend(LOGS.map(|sample| ("log.txt", import as Reader, sample)));
    readers.push(("trace.txt", text, "insert 42\n# a comment\n\nrange 10 -100\n"));
    readers.push(("places.csv", places, "id,lon,lat\n7,1.5,-2\n8,2,3\n"));
    readers.push(("lines.csv", places, "x,y\n1,2\n3,4\n"));
    let json = "{\"type\":\"FeatureCollection\",\n\"features\":[{\"type\":\"Feature\",\"properties\":null,\n\
                \"geometry\":{\"type\":\"Point\",\"coordinates\":[1,2]}}]}\n";
    readers.push(("places.json", places, json));
    readers.push(("chip.toml", |path| show(chip::load(path)), "like = \"mlc-64m\"\nblocks = 16\n"));
    readers.push(("grid.toml", |path| show(Grid::load(path)), "index = ['mu']\nchip = 'mlc-64m'\n"));
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/experiment_file");
    let mu = fs::read_to_string(seeds.join("mu-figure8.toml")).unwrap();
    readers.push(("experiment.toml", experiment, &mu));
    for (file, reader, sample) in readers {
        reads_alike(file, reader, sample);
    }
    let shown: Vec<String> =
        BLOCK_TRACES.iter().map(|sample| reads_alike("t", block_trace, sample)).collect();
    for format in FORMATS {
        let is_there = shown.iter().any(|shown| shown.contains(&format!("format: \"{}\"", format.name)));
        assert!(is_there, "no sample of {}", format.name);
    }
    let shown: Vec<String> = LOGS.iter().map(|sample| reads_alike("t", import, sample)).collect();
    for (name, format) in import::FORMATS {
        let is_there = shown.iter().any(|shown| shown.contains(&format!("format: {format:?},")));
        assert!(is_there, "no sample of {name}");
    }
}

/// Reads a sample in every form, and returns what came of it.
fn reads_alike(file: &str, reader: Reader, sample: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(file);
    let read = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        reader(&path).map_err(|error| error.to_string())
    };
    let plain = read(sample.as_bytes()).unwrap_or_else(|why| panic!("{sample:?}: {why}"));
    for end in ["\n", "\r\n", "\r"] {
        for mark in ["", "\u{feff}"] {
            let other = format!("{mark}{}", sample.replace('\n', end));
            assert_eq!(read(other.as_bytes()).as_ref(), Ok(&plain), "{file}: {other:?}");
        }
    }
    let wide = sample.encode_utf16().flat_map(u16::to_le_bytes);
    let wide: Vec<u8> = [0xff, 0xfe].into_iter().chain(wide).collect();
    let why = read(&wide).unwrap_err();
    assert!(why.contains("UTF-16"), "{file}: {why}");
    plain
}
