//! Writes a trace as a file: text, or OPS1 if the name says so.

use super::text::DESCENDING;
use super::{Record, RecordKind, Trace, init_of, is_ops1_name, ops1};
use crate::LabError;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Writes a trace and beside it its initial contents as `NAME.init.EXT`. If the name ends in `.zst`, both
/// are compressed. Initial contents of an earlier trace of this name are removed.
pub fn write(path: &Path, trace: &Trace) -> Result<(), LabError> {
    let Some(init) = init_path(path) else {
        let why = "names no file such as NAME.txt, NAME.txt.zst, NAME.ops or NAME.ops.zst";
        return Err(LabError::bad_option("--out", &path.display().to_string(), why));
    };
    while let Some(former) = init_of(path) {
        fs::remove_file(&former).map_err(|error| LabError::io(former.display(), error))?;
    }
    if !trace.init.is_empty() {
        write_records(&init, &trace.init)?;
    }
    write_records(path, &trace.records)
}

/// The file `DIR/NAME.init.EXT` of `DIR/NAME.EXT`, compressed if that one is.
fn init_path(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let (plain, packed) = name.strip_suffix(".zst").map_or((name, ""), |plain| (plain, ".zst"));
    let (base, extension) = plain.rsplit_once('.').filter(|(base, _)| !base.is_empty())?;
    Some(path.with_file_name(format!("{base}.init.{extension}{packed}")))
}

fn write_records(path: &Path, records: &[Record]) -> Result<(), LabError> {
    if is_ops1_name(path) {
        return ops1::write(path, &ops1::runs(records));
    }
    let failed = |error| LabError::io(path.display(), error);
    let mut file = BufWriter::new(File::create(path).map_err(failed)?);
    if path.extension().is_some_and(|e| e == "zst") {
        let mut packed = zstd::stream::write::Encoder::new(&mut file, 9).map_err(failed)?;
        write_text(records, &mut packed).map_err(failed)?;
        packed.finish().map_err(failed)?;
    } else {
        write_text(records, &mut file).map_err(failed)?;
    }
    file.flush().map_err(failed)
}

/// Writes operations in the text form, one per line.
pub fn write_text(records: &[Record], out: &mut dyn Write) -> io::Result<()> {
    for Record { kind, tree, flags, count, key } in records {
        let word = match kind {
            RecordKind::Hit => "hit",
            RecordKind::Miss => "miss",
            RecordKind::Insert => "insert",
            RecordKind::Delete => "remove",
            RecordKind::Modify => "update",
            RecordKind::Range => "range",
            RecordKind::Get => "get",
            RecordKind::Sync => {
                writeln!(out, "sync")?;
                continue;
            }
        };
        let tree = if *tree == 0 { String::new() } else { format!("{tree}:") };
        match kind {
            RecordKind::Range if flags & DESCENDING != 0 => writeln!(out, "{word} {tree}{key} -{count}")?,
            RecordKind::Range => writeln!(out, "{word} {tree}{key} {count}")?,
            _ => writeln!(out, "{word} {tree}{key}")?,
        }
    }
    Ok(())
}
