//! `nandex places`: data into a spatial index in one command, a window and a search for the nearest out of
//! it.

use super::compare::named;
use crate::Status;
use crate::args::Places;
use crate::output;
use crate::parse;
use anyhow::{Context, Result};
use nandex::ordered::RecordFormat;
use nandex::spatial::{Rect, Relation};
use nandex_lab::options::Settings;
use nandex_lab::spatial::data;
use nandex_lab::spatial::query::{Asked, Loaded};
use nandex_report::grid::{Side, grid};
use nandex_report::summary::scale::{Quantity, show, show_count};
use std::fmt::Write as _;

pub(crate) fn run(args: &Places) -> Result<Status> {
    let data = data::find(&args.data)?;
    let options = parse::options(&args.set);
    args.spatial.check_options(&options).map_err(|unknown| named(unknown.into()))?;
    let settings = Settings { ram_bytes: args.ram, options, ..Settings::new(RecordFormat::new(8, 8)) };
    let mut loaded = Loaded::new(args.spatial, &args.chip, &settings, &data).context(args.spatial.name)?;
    let mut text = format!(
        "{} entries of {} in the {} on {}: {}\n",
        show_count(data.entries.len() as u64),
        data.name,
        args.spatial.name,
        args.chip.name,
        cost(&loaded.load)
    );
    if data.passed_over > 0 {
        let _ = writeln!(text, "passed over: {} features that are nowhere", show_count(data.passed_over));
    }
    if let Some(window) = &args.window {
        let asked = loaded.window(window, Relation::Intersects)?;
        let _ = write!(
            text,
            "\nwindow {}: {} entries, {}\n",
            corners(window),
            show_count(asked.found.len() as u64),
            cost(&asked)
        );
        text += &table(&asked, args.count as usize, None);
    }
    if let Some(near) = &args.near {
        let asked = loaded.nearest(&near.low(), args.count)?;
        let _ = write!(text, "\nnearest to {}: {}\n", point(near.low()), cost(&asked));
        text += &table(&asked, args.count as usize, Some(near.low()));
    }
    if args.window.is_none() && args.near.is_none() {
        text += "Ask for more with --window X,Y,X,Y or --near X,Y.\n";
    }
    output::print(&text)?;
    Ok(Status::Done)
}

fn cost(asked: &Asked) -> String {
    let time = show(Quantity::Time, asked.flash_time_ns as f64);
    let (reads, programs) = (show_count(asked.page_reads), show_count(asked.page_programs));
    match asked.page_programs {
        0 => format!("{reads} pages read, {time} of flash time"),
        _ => format!("{reads} pages read, {programs} programmed, {time} of flash time"),
    }
}

fn point([x, y]: [f64; 2]) -> String {
    format!("{x}, {y}")
}

fn corners(rect: &Rect<f64, 2>) -> String {
    match rect.low() == rect.high() {
        true => point(rect.low()),
        false => format!("{} to {}", point(rect.low()), point(rect.high())),
    }
}

fn table(asked: &Asked, rows: usize, from: Option<[f64; 2]>) -> String {
    let heads = ["id", "at", "distance"].map(String::from);
    let columns = if from.is_some() { 3 } else { 2 };
    let row = |(rect, id): &(Rect<f64, 2>, u64)| {
        let mut cells = vec![id.to_string(), corners(rect)];
        cells.extend(from.map(|from| format!("{:.5}", rect.distance2(&from).sqrt())));
        cells
    };
    let shown: Vec<Vec<String>> = asked.found.iter().take(rows).map(row).collect();
    let mut text = grid(&heads[..columns], &[Side::Right, Side::Left, Side::Right][..columns], &shown);
    if let Some(more) = asked.found.len().checked_sub(rows).filter(|more| *more > 0) {
        let _ = writeln!(text, "and {} more", show_count(more as u64));
    }
    text
}
