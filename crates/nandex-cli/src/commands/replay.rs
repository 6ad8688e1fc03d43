//! `nandex replay`: a block trace on FTLs, disks and files, as table, files, report and pictures of the chip.

use super::compare::named;
use crate::Status;
use crate::args::{Before, Layout, Replay as Args};
use crate::output;
use crate::parse::{self, ReplayTarget};
use crate::progress::{Progress, stop_on_interrupt};
use anyhow::Result;
use nandex::{Lpn, PageStore};
use nandex_lab::block_trace::place::Placing;
use nandex_lab::block_trace::{BlockTrace, BlockTraceOptions};
use nandex_lab::registry::STORES;
use nandex_lab::replay::picture::Picture;
use nandex_lab::replay::{Device, Fill, Replay, ReplayResults, write_csv, write_json};
use nandex_lab::runner::Control;
use nandex_lab::tbm::TBM_STORES;
use nandex_lab::{LabError, data, parallel};
use nandex_report::{html, replay as report};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) fn run(args: &Args) -> Result<Status> {
    args.files.prepare()?;
    for path in args.report.iter().chain(&args.map) {
        output::prepare(path)?;
    }
    args.map.as_deref().map_or(Ok(()), Picture::check_name)?;
    let control = Arc::new(Control::default());
    stop_on_interrupt(&control)?;
    let replay = replay(args)?;
    if replay.devices.is_empty() {
        return Err(
            LabError::bad_option("--ftl", "none", "leaves nothing to replay on; give --file PATH").into()
        );
    }
    let progress = Progress::new(Arc::clone(&control));
    progress.count(0, "requests and pages filled");
    let results = progress.follow(|| replay.run(&control)).map_err(named)?;
    write(args, &results)?;
    let failed = results.runs.iter().any(|run| run.error.is_some());
    Ok(if failed { Status::Bad } else { Status::Done })
}

fn replay(args: &Args) -> Result<Replay, LabError> {
    let (requests, time_scale) = (args.limit, args.time_scale);
    let options = BlockTraceOptions { format: args.format, requests, event: args.event, time_scale };
    Ok(Replay {
        part: args.chip.clone(),
        trace: BlockTrace::read(&full_trace(&args.trace), &options)?,
        trace_file: args.trace.display().to_string(),
        devices: devices(args),
        placing: match args.layout {
            Layout::Compact => Placing::Compact,
            Layout::Dense => Placing::Dense,
            Layout::Modulo => Placing::Modulo,
        },
        fill: match args.fill {
            Before::None => Fill::None,
            Before::Touched => Fill::Touched,
            Before::All => Fill::All,
        },
        ram_bytes: args.ram,
        options: parse::options(&args.set),
        threads: args.threads.map_or_else(parallel::cores, usize::from),
        command: output::command(),
    })
}

/// Looks for a bare name that is no file here among the full traces.
fn full_trace(named: &Path) -> PathBuf {
    let is_bare = named.components().count() == 1 && !named.exists();
    let found = named.to_str().filter(|_| is_bare).and_then(|name| data::find(name, None).ok());
    found.unwrap_or_else(|| named.to_path_buf())
}

/// Devices asked for, without duplicates.
fn devices(args: &Args) -> Vec<Device> {
    let mut devices: Vec<Device> = Vec::new();
    for target in &args.ftl {
        let named = match target {
            ReplayTarget::None => Vec::new(),
            ReplayTarget::All => STORES.iter().map(Device::Ftl).collect(),
            ReplayTarget::AllBehindTbm => TBM_STORES.iter().map(Device::Ftl).collect(),
            ReplayTarget::Ftl(entry) => vec![Device::Ftl(entry)],
            ReplayTarget::Disk(entry) => vec![Device::Disk(entry)],
        };
        for device in named {
            if devices.iter().all(|known| known.name() != device.name()) {
                devices.push(device);
            }
        }
    }
    devices.extend(args.file.as_deref().map(|path| file(path, args.overwrite, args.dsync)));
    devices
}

/// The device of a file or block device of this machine.
fn file(path: &Path, overwrite: bool, every_write_synced: bool) -> Device {
    let path = path.to_path_buf();
    let name =
        path.file_name().map_or_else(|| path.display().to_string(), |n| n.to_string_lossy().into_owned());
    let open = move |page_bytes: usize, pages: u32| {
        open_file(&path, overwrite, every_write_synced, page_bytes, pages)
    };
    Device::Own { name: format!("file:{name}"), open: Box::new(open) }
}

#[cfg(unix)]
fn open_file(
    path: &Path,
    overwrite: bool,
    every_write_synced: bool,
    page_bytes: usize,
    pages: u32,
) -> Result<(Box<dyn PageStore>, Vec<String>), String> {
    use nandex_os::{FileOptions, FilePageStore};
    let options = FileOptions { every_write_synced, ..FileOptions::new(page_bytes) };
    let was_there = path.exists();
    let store = match was_there {
        true if !overwrite => return Err(format!("{} is there; allow it with --overwrite", path.display())),
        true => FilePageStore::open(path, options),
        false => FilePageStore::create(path, pages, options),
    };
    let mut store = store.map_err(|e| e.to_string())?.limited_to(pages);
    if was_there {
        // A page that was not written reads as zeros.
        for lpn in 0..store.page_count() {
            store.trim(Lpn(lpn)).map_err(|e| e.to_string())?;
        }
    }
    let notes = vec![store.promises()];
    Ok((Box::new(store), notes))
}

#[cfg(not(unix))]
fn open_file(
    path: &Path,
    _overwrite: bool,
    _every_write_synced: bool,
    _page_bytes: usize,
    _pages: u32,
) -> Result<(Box<dyn PageStore>, Vec<String>), String> {
    Err(format!("{}: files are supported on Unix systems only", path.display()))
}

fn write(args: &Args, results: &ReplayResults) -> Result<()> {
    output::write_report(args.report.as_deref(), || html::render_replay(results))?;
    if let Some(path) = &args.map {
        let drawn: Vec<_> =
            results.runs.iter().filter_map(|run| Some((&run.device, run.picture.as_ref()?))).collect();
        for (device, picture) in &drawn {
            let path = if drawn.len() == 1 { path.clone() } else { with_name(path, device) };
            let title = format!("{device} on {} after {}", results.chip.name, results.trace.name);
            picture.write(&path, &title)?;
        }
    }
    args.files.write(
        |out| write_json(results, out),
        |out| write_csv(results, out),
        |width| report::render(results, width),
    )
}

/// The path with a name added: `DIR/map.png` with `fast` becomes `DIR/map-fast.png`.
fn with_name(path: &Path, name: &str) -> PathBuf {
    let (stem, extension) = (path.file_stem().unwrap_or_default(), path.extension().unwrap_or_default());
    let file = format!("{}-{name}.{}", stem.to_string_lossy(), extension.to_string_lossy());
    path.with_file_name(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_the_device_goes_before_the_ending() {
        assert_eq!(with_name(Path::new("a/map.png"), "fast"), Path::new("a/map-fast.png"));
    }
}
