//! Prints the SQLite volume on a chip: its files, its free pages, and the faults found by reading all of it.

#[cfg(unix)]
pub(super) use known::{chip_of_image, look};

#[cfg(not(unix))]
pub(super) use unknown::{chip_of_image, look};

use crate::Status;
use serde_json::Value;

/// The result of examining a volume.
pub(super) struct Seen {
    /// The result in words, one line for each part.
    pub(super) text: String,
    pub(super) json: Value,
    /// Whether no fault was found.
    pub(super) is_sound: bool,
}

impl Seen {
    /// The exit status of a command that examined the volume.
    pub(super) fn status(&self) -> Status {
        if self.is_sound { Status::Done } else { Status::Bad }
    }
}

#[cfg(unix)]
mod known {
    use super::Seen;
    use nandex::ordered::RecordFormat;
    use nandex::{Nand, Shared, StoreError};
    use nandex_lab::options::Settings;
    use nandex_lab::registry::STORES;
    use nandex_report::grid::{Side, grid};
    use nandex_report::summary::scale::show_count;
    pub(in super::super) use nandex_sqlite::chip_of_image;
    use nandex_sqlite::{FileStats, Look};
    use serde_json::{Value, json};
    use std::fmt::Write as _;

    /// Most faults that are shown as text.
    const FAULTS_SHOWN: usize = 50;

    /// Examines the volume on a chip that can only be read.
    pub(in super::super) fn look(chip: Box<dyn Nand>) -> Seen {
        match mounted(chip) {
            Ok((ftl, look)) => {
                Seen { text: text(ftl, &look), json: json(ftl, &look), is_sound: is_sound(&look) }
            }
            Err(error) => {
                let why = error.to_string();
                Seen {
                    text: format!("  damaged: {why}\n"),
                    json: json!({ "sound": false, "why": why }),
                    is_sound: false,
                }
            }
        }
    }

    fn is_sound(look: &Look) -> bool {
        look.faults.is_empty()
    }

    /// Mounts the volume with the first FTL that finds its own data on the chip.
    fn mounted(chip: Box<dyn Nand>) -> Result<(&'static str, Look), StoreError> {
        let chip = Shared::new(chip);
        // An FTL has no records.
        let settings = Settings::new(RecordFormat::new(8, 8));
        let mut first = None;
        for ftl in STORES {
            match (ftl.mount)(Box::new(chip.clone()), &settings) {
                Ok(store) => return Ok((ftl.name, Look::of(store)?)),
                Err(error @ StoreError::NotFormatted(_)) => first = first.or(Some(error)),
                Err(error) => return Err(error),
            }
        }
        Err(first.unwrap_or(StoreError::Unsupported("there are no FTLs".into())))
    }

    fn text(ftl: &str, look: &Look) -> String {
        let of_files: u32 = look.files.iter().map(|file| file.room_pages).sum();
        let (free, kept_back) = (look.stats.free_pages, look.stats.kept_back_pages);
        let mut text = format!(
            "  on {ftl}: {} pages of {} bytes; files have {}, the directory {}\n  free {} ({} bytes), kept back {}\n",
            show_count(look.pages.into()),
            look.page_bytes,
            show_count(of_files.into()),
            look.directory_pages,
            show_count(free),
            show_count(free * look.page_bytes as u64),
            show_count(kept_back)
        );
        let _ = match look.stats.group_pages_max {
            0 | 1 => writeln!(text, "  no atomic groups: what a commit changes is written twice"),
            pages => writeln!(text, "  atomic groups of up to {pages} pages"),
        };
        if look.is_unfinished {
            text += "  a commit was cut while its pages went to their places: it counts, the next mount ends it\n";
        }
        if !look.files.is_empty() {
            let table = files(&look.files);
            text.extend(table.lines().map(|line| format!("  {line}\n")));
        }
        for fault in look.faults.iter().take(FAULTS_SHOWN) {
            let _ = writeln!(text, "  damaged: {fault}");
        }
        let _ = match look.faults.len() {
            0 => writeln!(text, "  sound: every page of every file can be read"),
            all if all > FAULTS_SHOWN => writeln!(text, "  and {} more", all - FAULTS_SHOWN),
            _ => Ok(()),
        };
        text
    }

    fn files(files: &[FileStats]) -> String {
        let heads = ["file", "kind", "bytes", "pages", "with room", "SQLite says"].map(String::from);
        let sides = [Side::Left, Side::Left, Side::Right, Side::Right, Side::Right, Side::Left];
        let rows: Vec<Vec<String>> = files
            .iter()
            .map(|file| {
                let header = file.header.map_or(String::new(), |header| {
                    let log = if header.is_logged { ", write-ahead log" } else { "" };
                    format!("pages of {} bytes: {}{log}", header.page_bytes, header.pages)
                });
                let kind = file.kind.words().to_string();
                let numbers = [file.bytes, file.pages.into(), file.room_pages.into()].map(show_count);
                [file.name.clone(), kind].into_iter().chain(numbers).chain([header]).collect()
            })
            .collect();
        grid(&heads, &sides, &rows)
    }

    fn json(ftl: &str, look: &Look) -> Value {
        let files = look.files.iter().map(|file| {
            json!({
                "name": file.name, "kind": file.kind.words(), "bytes": file.bytes, "pages": file.pages,
                "room_pages": file.room_pages,
                "page_size": file.header.map(|header| header.page_bytes),
                "database_pages": file.header.map(|header| header.pages),
                "write_ahead_log": file.header.map(|header| header.is_logged),
            })
        });
        let faults = look.faults.iter();
        let faults = faults.map(|fault| json!({ "file": fault.file, "page": fault.page, "why": fault.why }));
        json!({
            "sound": is_sound(look),
            "ftl": ftl,
            "page_bytes": look.page_bytes,
            "pages": look.pages,
            "directory_pages": look.directory_pages,
            "free_pages": look.stats.free_pages,
            "kept_back_pages": look.stats.kept_back_pages,
            "group_pages_max": look.stats.group_pages_max,
            "unfinished_commit": look.is_unfinished,
            "files": files.collect::<Vec<_>>(),
            "faults": faults.collect::<Vec<_>>(),
        })
    }
}

#[cfg(not(unix))]
mod unknown {
    use super::Seen;
    use nandex::{Nand, StoreError};
    use serde_json::json;
    use std::path::Path;

    pub(in super::super) fn chip_of_image(_: &Path) -> Result<Option<Box<dyn Nand>>, StoreError> {
        Ok(None)
    }

    pub(in super::super) fn look(_: Box<dyn Nand>) -> Seen {
        let why = "volumes are looked at on Unix systems only";
        let json = json!({ "sound": null, "why": why });
        Seen { text: format!("  {why}\n"), json, is_sound: true }
    }
}
