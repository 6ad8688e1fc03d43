//! `nandex device`: an index on an MTD device, a block device, a file or a dump, opened, changed and carried
//! away.

mod chips;
mod place;
mod records;

use crate::Status;
use crate::device_args::{
    Action, Change, Export, Format, Get, Import, Index, Look, Place, Put, Remove, Scan,
};
use crate::output::{self, Target};
use crate::parse;
use anyhow::{Context, Result, anyhow};
use nandex::IndexError;
use nandex::ordered::{Direction, OrderedIndex, check_with_look_ups};
use nandex_lab::LabError;
use nandex_lab::options::Settings;
use nandex_lab::registry::Open;
use place::{Access, Opened};
use records::{Record, decode, encode, pair};
use std::fmt::Write as _;
use std::io::Write as _;
use std::ops::{Bound, ControlFlow};
use std::path::Path;
use std::time::Instant;

/// Share of a device's bytes below which an index that can hold no more is told to hold little.
const LITTLE: f64 = 0.1;

pub(crate) fn run(action: &Action) -> Result<Status> {
    match action {
        Action::Info(info) => chips::info(&info.place),
        Action::Format(args) => format(args),
        Action::Mount(args) => mount(args),
        Action::Put(args) => put(args),
        Action::Get(args) => get(args),
        Action::Remove(args) => remove(args),
        Action::Scan(args) => scan(args),
        Action::Import(args) => import(args),
        Action::Export(args) => export(args),
        Action::Check(args) => check(args),
        Action::Stats(args) => stats(args),
        Action::Dump(args) => chips::dump(args),
        Action::Restore(args) => chips::restore(args),
    }
}

/// Opens the chip of a place so that it can only be read.
pub(crate) fn to_look_at(place: &Place) -> Result<Opened> {
    place::open(place, Access::Look)
}

/// An open index with the device below.
struct Session {
    index: Box<dyn OrderedIndex>,
    device: Opened,
}

impl Session {
    fn open(mut device: Opened, args: &Index, open: Open) -> Result<Session> {
        let options = parse::options(&args.set);
        args.index.check_options(&options).map_err(|unknown| super::compare::named(unknown.into()))?;
        let settings =
            Settings { record: args.record, ram_bytes: args.ram, durability: args.durability, options };
        let nand = device.take()?;
        let opened = match open {
            Open::Format => (args.index.format)(nand, &settings),
            _ => (args.index.mount)(nand, &settings),
        };
        let doing = if open == Open::Format { "format" } else { "mount" };
        let index = opened.map_err(|e| device.explain(e).context(format!("{doing} {}", args.index.name)))?;
        Ok(Session { index, device })
    }

    fn mount(place: &Place, index: &Index, access: Access<'_>) -> Result<Session> {
        Session::open(place::open(place, access)?, index, Open::Mount)
    }

    fn look(args: &Look) -> Result<Session> {
        Session::mount(&args.place, &args.index, Access::Look)
    }

    fn change(args: &Change) -> Result<Session> {
        let copy = Access::Change { copy: args.copy.as_deref() };
        Session::mount(&args.look.place, &args.look.index, copy)
    }

    fn done<T>(&self, outcome: Result<T, IndexError>) -> Result<T> {
        outcome.map_err(|e| self.device.explain(e))
    }

    fn close(mut self) -> Result<()> {
        let closed = self.index.close();
        self.done(closed)
    }

    fn insert(&mut self, record: &Record) -> Result<bool> {
        let outcome = self.index.insert(&record.key, &record.value);
        self.done(outcome)
    }
}

fn format(args: &Format) -> Result<Status> {
    let change = &args.change;
    let place = &change.look.place;
    let mut device = place::open(place, Access::Change { copy: change.copy.as_deref() })?;
    if !args.overwrite && !nandex::nand::is_blank(device.nand()?)? {
        let why = "something is there; allow it with --overwrite";
        return Err(LabError::bad_option("--device", &device.name, why).into());
    }
    let geometry = device.nand()?.geometry();
    let bytes = u64::from(geometry.page_bytes) * u64::from(geometry.pages());
    let session = Session::open(device, &change.look.index, Open::Format)?;
    let mut text = format!("{}: an empty {}", session.device.name, change.look.index.index.name);
    let entry_bytes = session.index.record().entry_bytes() as u64;
    if let Some(most) = session.index.records_max() {
        text += &for_at_most(most, most.saturating_mul(entry_bytes) as f64 / bytes as f64);
    }
    session.close()?;
    output::print(&(text + "\n"))?;
    Ok(Status::Done)
}

/// The most records that an index can ever hold, and what to do where they are little of the device.
fn for_at_most(records: u64, share: f64) -> String {
    let text = format!(", for {records} records at most: {:.1} % of its bytes", share * 100.0);
    if share >= LITTLE {
        return text;
    }
    text + "\nother indexes, larger pages or smaller records use more of it: nandex list indexes --chip"
}

fn mount(args: &Change) -> Result<Status> {
    let start = Instant::now();
    let session = Session::change(args)?;
    let text = format!(
        "{}: {} mounted in {:.3} s, height {}\n",
        session.device.name,
        args.look.index.index.name,
        start.elapsed().as_secs_f64(),
        session.index.stats().height
    );
    session.close()?;
    output::print(&text)?;
    Ok(Status::Done)
}

fn put(args: &Put) -> Result<Status> {
    let format = args.change.look.index.record;
    let records: Result<Vec<Record>, LabError> =
        args.records.iter().map(|text| pair(text, '=', format)).collect();
    let records = records?;
    let mut session = Session::change(&args.change)?;
    for record in &records {
        session.insert(record)?;
    }
    session.close()?;
    Ok(Status::Done)
}

fn keys(texts: &[String], look: &Look) -> Result<Vec<Vec<u8>>, LabError> {
    let bytes = look.index.record.key_bytes;
    texts.iter().map(|text| encode("KEY", text, bytes)).collect()
}

fn get(args: &Get) -> Result<Status> {
    let keys = keys(&args.keys, &args.look)?;
    let mut session = Session::look(&args.look)?;
    let mut value = vec![0; usize::from(args.look.index.record.value_bytes)];
    let (mut text, mut status) = (String::new(), Status::Done);
    for key in keys {
        let found = session.index.get(&key, &mut value);
        if session.done(found)? {
            let _ = writeln!(text, "{},{}", decode(&key), decode(&value));
        } else {
            let _ = writeln!(text, "{}: not there", decode(&key));
            status = Status::Bad;
        }
    }
    output::print(&text)?;
    Ok(status)
}

fn remove(args: &Remove) -> Result<Status> {
    let keys = keys(&args.keys, &args.change.look)?;
    let mut session = Session::change(&args.change)?;
    let (mut text, mut status) = (String::new(), Status::Done);
    for key in keys {
        let removed = session.index.remove(&key);
        if !session.done(removed)? {
            let _ = writeln!(text, "{}: not there", decode(&key));
            status = Status::Bad;
        }
    }
    session.close()?;
    output::print(&text)?;
    Ok(status)
}

/// Visits records in the order of their keys until the visitor returns false.
fn walk(
    session: &mut Session,
    (from, to): (Option<&[u8]>, Option<&[u8]>),
    visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
) -> Result<()> {
    let low = from.map_or(Bound::Unbounded, Bound::Included);
    let high = to.map_or(Bound::Unbounded, Bound::Included);
    let walked = session.index.range(low, high, Direction::Ascending, &mut |key, value| {
        if visit(key, value) { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    session.done(walked)
}

fn scan(args: &Scan) -> Result<Status> {
    let bytes = args.look.index.record.key_bytes;
    let bound = |flag, text: &Option<String>| text.as_ref().map(|t| encode(flag, t, bytes)).transpose();
    let (from, to) = (bound("--from", &args.from)?, bound("--to", &args.to)?);
    let mut session = Session::look(&args.look)?;
    let (mut text, mut left) = (String::new(), args.limit.unwrap_or(u64::MAX));
    walk(&mut session, (from.as_deref(), to.as_deref()), &mut |key, value| {
        let _ = writeln!(text, "{},{}", decode(key), decode(value));
        left -= 1;
        left > 0
    })?;
    output::print(&text)?;
    Ok(Status::Done)
}

fn export(args: &Export) -> Result<Status> {
    args.file.prepare()?;
    let mut session = Session::look(&args.look)?;
    args.file.write(|out| {
        let mut written = Ok(());
        let walked = walk(&mut session, (None, None), &mut |key, value| {
            written = writeln!(out, "{},{}", decode(key), decode(value));
            written.is_ok()
        });
        walked.map_err(|e| std::io::Error::other(format!("{e:#}")))?;
        written
    })?;
    Ok(Status::Done)
}

/// Inserts lines as they arrive. An invalid line is refused with its number; earlier lines stay inserted.
fn import(args: &Import) -> Result<Status> {
    let format = args.change.look.index.record;
    let name = match &args.file {
        Target::Stdout => "stdin".to_string(),
        Target::File(path) => path.display().to_string(),
    };
    let lines = records::lines(match &args.file {
        Target::Stdout => None,
        Target::File(path) => Some(Path::new(path)),
    })?;
    let mut session = Session::change(&args.change)?;
    let sync_every = if args.acknowledge { args.sync_every.or(Some(1)) } else { args.sync_every };
    let (mut count, mut waiting) = (0u64, Vec::new());
    let mut out = std::io::stdout().lock();
    for (number, line) in lines.enumerate() {
        let place = || format!("{name}: line {}", number + 1);
        let line = line.with_context(place)?;
        let record = pair(&line, ',', format).map_err(|e| anyhow!(e).context(place()))?;
        session.insert(&record)?;
        count += 1;
        if args.acknowledge {
            waiting.push(record.key);
        }
        if sync_every.is_some_and(|every| count.is_multiple_of(every)) {
            let synced = session.index.sync();
            session.done(synced)?;
            for key in waiting.drain(..) {
                writeln!(out, "{}", decode(&key))?;
            }
            out.flush()?;
        }
    }
    session.close()?;
    for key in waiting {
        writeln!(out, "{}", decode(&key))?;
    }
    drop(out);
    if !args.acknowledge {
        output::print(&format!("{count} records\n"))?;
    }
    Ok(Status::Done)
}

fn check(args: &Look) -> Result<Status> {
    let mut session = Session::look(args)?;
    let report = check_with_look_ups(session.index.as_mut());
    let report = session.done(report)?;
    let mut text = format!("{}: {} records in {} nodes\n", session.device.name, report.records, report.nodes);
    for broken in &report.violations {
        let _ = writeln!(text, "invariant {broken}");
    }
    if report.is_sound() {
        text += "sound: every invariant holds\n";
    }
    output::print(&text)?;
    Ok(if report.is_sound() { Status::Done } else { Status::Bad })
}

fn stats(args: &Look) -> Result<Status> {
    let session = Session::look(args)?;
    let stats = session.index.stats();
    let mut text = format!("{} on {}\n", args.index.index.name, session.device.name);
    let durability = session.index.durability().name().to_string();
    let mut rows = vec![
        ("durability".to_string(), durability),
        ("height".to_string(), stats.height.to_string()),
        ("live pages".to_string(), stats.live_pages.to_string()),
        ("RAM bytes".to_string(), session.index.ram_bytes().to_string()),
    ];
    rows.extend(stats.metrics.iter().map(|metric| (metric.name.to_string(), metric.value.to_string())));
    rows.extend(session.device.rows());
    for (name, value) in rows {
        let _ = writeln!(text, "{name:<24} {value}");
    }
    output::print(&text)?;
    Ok(Status::Done)
}
