//! `nandex list`: what there is by name, as a table or as JSON.

use crate::Status;
use crate::args::{List, Listed};
use crate::output;
use anyhow::Result;
use nandex::nand::{Part, catalogue};
use nandex_lab::chip;
use nandex_lab::names::OptionInfo;
use nandex_lab::registry::{INDEXES, STORES};
use nandex_lab::report::grid::{Side, grid};
use nandex_lab::report::scale::{Quantity, show, show_count};
use nandex_lab::workload::WORKLOADS;
use serde_json::{Value, json};
use std::fmt::Write as _;

pub(crate) fn run(args: &List) -> Result<Status> {
    let text = match (args.what, args.json) {
        (Listed::Chips, false) => chips(),
        (Listed::Chips, true) => pretty(&catalogue::parts().map(|p| json!(chip::facts(p))).collect()),
        (_, false) => entries(args.what).iter().map(Entry::text).collect(),
        (_, true) => pretty(&entries(args.what).iter().map(Entry::json).collect()),
    };
    output::print(&text)?;
    Ok(Status::Done)
}

fn pretty(values: &Value) -> String {
    format!("{values:#}\n")
}

fn chips() -> String {
    let heads =
        ["chip", "capacity", "page", "pages/block", "blocks", "read", "program", "erase", "endurance"];
    let sides: Vec<Side> =
        heads.iter().map(|h| if *h == "chip" { Side::Left } else { Side::Right }).collect();
    grid(&heads.map(String::from), &sides, &catalogue::parts().map(chip_row).collect::<Vec<_>>())
}

fn chip_row(part: &Part) -> Vec<String> {
    let time = |ns: u64| show(Quantity::Time, ns as f64);
    let geometry = &part.geometry;
    vec![
        part.name.to_string(),
        show(Quantity::Bytes, geometry.data_bytes() as f64),
        format!("{}+{}", geometry.page_bytes, geometry.spare_bytes),
        geometry.pages_per_block.to_string(),
        show_count(geometry.blocks.into()),
        time(part.page_read_ns()),
        time(part.page_program_ns()),
        time(part.timing.erase_ns),
        show_count(part.endurance_erases.into()),
    ]
}

/// Something with a name, a line about it, and options.
struct Entry {
    name: &'static str,
    summary: &'static str,
    options: &'static [OptionInfo],
}

fn entries(what: Listed) -> Vec<Entry> {
    match what {
        Listed::Chips => Vec::new(),
        Listed::Indexes => {
            INDEXES.iter().map(|e| Entry { name: e.name, summary: e.summary, options: e.options }).collect()
        }
        Listed::Ftls => {
            STORES.iter().map(|e| Entry { name: e.name, summary: e.summary, options: e.options }).collect()
        }
        Listed::Workloads => {
            WORKLOADS.iter().map(|e| Entry { name: e.name, summary: e.summary, options: e.options }).collect()
        }
    }
}

impl Entry {
    fn text(&self) -> String {
        let mut out = format!("{:12} {}\n", self.name, self.summary);
        let settings = self.options.iter().map(|o| format!("{}={}", o.name, o.default));
        let width = settings.clone().map(|s| s.chars().count()).max().unwrap_or(0);
        for (setting, option) in settings.zip(self.options) {
            let _ = writeln!(out, "{:12}   {setting:width$}  {}", "", option.help);
        }
        out
    }

    fn json(&self) -> Value {
        let option = |o: &OptionInfo| json!({"name": o.name, "default": o.default, "help": o.help});
        let options: Vec<Value> = self.options.iter().map(option).collect();
        json!({"name": self.name, "summary": self.summary, "options": options})
    }
}
