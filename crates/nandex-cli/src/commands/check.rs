//! `nandex check`: the index or the SQLite databases in the image of a chip, and whether all is sound.

use super::inspect::image;
use super::volume;
use crate::Status;
use crate::look_args::Check;
use crate::output;
use anyhow::Result;
use nandex::CheckReport;
use nandex::ordered::RecordFormat;
use nandex_lab::inspect::{Found, inspect};
use nandex_mtd::Unchanged;
use std::fmt::Write as _;

/// Record sizes to try if none are given: those of the papers.
const RECORDS: [RecordFormat; 4] =
    [RecordFormat::new(4, 4), RecordFormat::new(8, 4), RecordFormat::new(8, 8), RecordFormat::new(16, 8)];

pub(crate) fn run(args: &Check) -> Result<Status> {
    if args.image.is_file()
        && let Some(chip) = volume::chip_of_image(&args.image)?
    {
        let seen = volume::look(Box::new(Unchanged::new(chip)));
        output::print(&format!("{}: a volume of SQLite databases\n{}", args.image.display(), seen.text))?;
        return Ok(seen.status());
    }
    let chip = image(&args.image)?;
    let records = args.record.map_or(RECORDS.to_vec(), |record| vec![record]);
    let found = inspect(&chip, &records);
    let image = args.image.display();
    let chip = &chip.part().name;
    let Some(found) = found else {
        let sizes: Vec<String> =
            records.iter().map(|r| format!("{}/{}", r.key_bytes, r.value_bytes)).collect();
        let sizes = sizes.join(", ");
        output::print(&format!("{image} (chip {chip}): no index with records of {sizes} bytes was found\n"))?;
        return Ok(Status::Bad);
    };
    output::print(&format!("{image} (chip {chip}): {}", describe(&found)))?;
    Ok(if found.is_sound() { Status::Done } else { Status::Bad })
}

fn describe(found: &Found) -> String {
    let RecordFormat { key_bytes, value_bytes } = found.record;
    let mut out = format!("index {}, records of {key_bytes}/{value_bytes} bytes", found.index.name);
    match &found.outcome {
        Err(error) => {
            let _ = writeln!(out, "\ndamaged: {error}");
        }
        Ok(CheckReport { nodes, records, violations }) => {
            let _ = writeln!(out, ", height {}: {records} records in {nodes} nodes", found.height);
            for broken in violations {
                let _ = writeln!(out, "invariant {broken}");
            }
            let _ = match violations.len() {
                0 => writeln!(out, "sound: every invariant holds"),
                1 => writeln!(out, "1 invariant is broken"),
                n => writeln!(out, "{n} invariants are broken"),
            };
        }
    }
    out
}
