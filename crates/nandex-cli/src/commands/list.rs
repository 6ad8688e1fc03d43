//! `nandex list`: prints all names of a kind, as a table or as JSON.

use super::forecast;
use crate::Status;
use crate::args::{List, Listed};
use crate::commands::on_chip;
use crate::output;
use anyhow::Result;
use nandex::nand::{Part, catalogue};
use nandex_lab::LabError;
use nandex_lab::chip;
use nandex_lab::compare::BUNDLES;
use nandex_lab::experiment::{self, Experiment};
use nandex_lab::names::OptionInfo;
use nandex_lab::registry::{Confidence, Hosting, INDEXES, IndexEntry, STORES, StoreEntry, WRAPPERS};
use nandex_lab::repro::{self, Claim};
use nandex_lab::spatial::data::BUNDLED;
use nandex_lab::spatial::{SPATIAL, workload as spatial_workload};
use nandex_lab::tbm::{self, TBM_STORES};
use nandex_lab::workload::WORKLOADS;
use nandex_papers::cache::catalogue::{POLICIES, PolicyEntry};
use nandex_report::grid::{Side, grid, grid_within};
use nandex_report::summary::scale::{Quantity, show, show_count};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::fmt::Write as _;

pub(crate) fn run(args: &List) -> Result<Status> {
    if let Some(part) = &args.forecast.chip {
        output::print(&on_this_chip(args, part)?)?;
        return Ok(Status::Done);
    }
    let text = match (args.what, args.json) {
        (Listed::Chips, false) => chips(),
        (Listed::Chips, true) => pretty(&catalogue::parts().map(|p| json!(chip::facts(p))).collect()),
        (Listed::Claims, false) => claims(),
        (Listed::Claims, true) => pretty(&repro::claims().map(claim_json).collect()),
        (_, false) => {
            let entries = entries(args.what);
            let width = entries.iter().map(|e| e.name.len()).max().unwrap_or(0) + 1;
            let heading = |at: usize| match args.what {
                Listed::Indexes if at == INDEXES.len() => BESIDE,
                _ => "",
            };
            entries
                .iter()
                .enumerate()
                .map(|(at, entry)| format!("{}{}", heading(at), entry.text(width)))
                .collect()
        }
        (_, true) => pretty(&entries(args.what).iter().map(Entry::json).collect()),
    };
    output::print(&text)?;
    Ok(Status::Done)
}

/// The heading of the subjects that are not ordered indexes.
const BESIDE: &str = "
Stores of long values and of readings, for compare, crash and torture:

";

fn on_this_chip(args: &List, part: &Part) -> Result<String> {
    let record = args.forecast.record;
    Ok(match (args.what, args.json) {
        (Listed::Indexes, false) => {
            format!("{}\n{}", on_chip::indexes(part, record), forecast::text(&args.forecast, part)?)
        }
        (Listed::Indexes, true) => {
            let plow = forecast::json(&args.forecast, part)?;
            pretty(&on_chip::indexes_json(part, record, &plow))
        }
        (Listed::Ftls, false) => on_chip::ftls(part, record),
        (Listed::Ftls, true) => pretty(&on_chip::ftls_json(part, record)),
        _ => return Err(LabError::bad_option("--chip", &part.name, "goes with indexes and ftls").into()),
    })
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
        match part.raw_spare_bytes {
            None => format!("{}+{}", geometry.page_bytes, geometry.spare_bytes),
            Some(raw) => format!("{}+{} of {raw}", geometry.page_bytes, geometry.spare_bytes),
        },
        geometry.pages_per_block.to_string(),
        show_count(geometry.blocks.into()),
        time(part.page_read_ns()),
        time(part.page_program_ns()),
        time(part.timing.erase_ns),
        show_count(part.endurance_erases.into()),
    ]
}

fn claims() -> String {
    let heads = ["id", "experiment", "claim", "band"].map(String::from);
    let sides = [Side::Left, Side::Left, Side::Prose, Side::Left];
    let row = |(experiment, claim): (&Experiment, &Claim)| {
        vec![claim.id.clone(), experiment.definition.name.clone(), claim.text.clone(), claim.rule.words()]
    };
    let mut claims: Vec<_> = repro::claims().collect();
    claims.sort_by_key(|(_, claim)| (claim.id.len(), &claim.id));
    grid_within(&heads, &sides, &claims.into_iter().map(row).collect::<Vec<_>>(), output::width())
}

fn claim_json((experiment, claim): (&Experiment, &Claim)) -> Value {
    json!({"name": claim.id, "summary": claim.text, "band": claim.rule.words(), "experiment": experiment.definition.name})
}

/// Victim policies of FTLs with descriptions; they are values of the option `victim`.
const VICTIM_POLICIES: [(&str, &str); 6] = [
    ("greedy", "victim=greedy: the block with the fewest valid pages is collected"),
    ("cost-benefit", "victim=cost-benefit: few valid pages and a long time without change count"),
    ("cat", "victim=cat: as cost-benefit, and worn blocks are spared"),
    ("fifo", "victim=fifo: the block closed first"),
    ("windowed", "victim=windowed:N: the fewest valid pages among the N blocks closed first"),
    ("choices", "victim=choices:N: the fewest valid pages among N blocks drawn at random"),
];

/// An entry of a list.
struct Entry {
    name: &'static str,
    summary: Cow<'static, str>,
    options: &'static [OptionInfo],
    /// How well the sources describe it, with the sources, if that is shown.
    confidence: Option<(Confidence, &'static str)>,
    /// For a subject that is not an ordered index: its contents, and the layer below it.
    holds: Option<(&'static str, &'static str)>,
}

/// The storage below a subject, as text.
fn ground(entry: &IndexEntry) -> &'static str {
    let knows = |name: &str| entry.options.iter().any(|option| option.name == name);
    match entry.hosting {
        Hosting::Store => "an FTL (ftl)",
        Hosting::Raw if knows("beneath") => "the chip, or an FTL beneath (beneath)",
        Hosting::Raw => "the chip",
    }
}

fn entries(what: Listed) -> Vec<Entry> {
    match what {
        Listed::Chips | Listed::Claims => Vec::new(),
        Listed::Experiments => {
            let entry = |e: &'static Experiment| Entry::new(&e.definition.name, &e.definition.summary, &[]);
            experiment::list().iter().map(entry).collect()
        }
        Listed::Policies => {
            let victims = VICTIM_POLICIES.iter().map(|(name, summary)| Entry::new(name, summary, &[]));
            POLICIES.iter().map(Entry::policy).chain(victims).collect()
        }
        Listed::Indexes => {
            INDEXES.iter().map(Entry::index).chain(WRAPPERS.iter().map(Entry::store)).collect()
        }
        Listed::Spatial => SPATIAL.iter().map(|e| Entry::new(e.name, e.summary, e.options)).collect(),
        Listed::Data => {
            let general =
                "what compare --spatial does with any of them: load, windows, nearest, removals, insertions";
            let sets = BUNDLED.iter().map(|set| Entry::new(set.name, set.summary, &[]));
            let general = Entry::new("(options)", general, spatial_workload::OPTIONS);
            let traces = BUNDLES.iter().map(|trace| Entry::new(trace.name, trace.summary, &[]));
            sets.chain([general]).chain(traces).collect()
        }
        Listed::Ftls => STORES.iter().map(Entry::ftl).chain([Entry::tbm()]).collect(),
        Listed::Workloads => WORKLOADS.iter().map(|e| Entry::new(e.name, e.summary, e.options)).collect(),
    }
}

impl Entry {
    fn new(name: &'static str, summary: &'static str, options: &'static [OptionInfo]) -> Entry {
        Entry { name, summary: summary.into(), options, confidence: None, holds: None }
    }

    /// The entry of a cache policy, which is a value of the option `cache`.
    fn policy(entry: &PolicyEntry) -> Entry {
        let PolicyEntry { name, summary, basis, .. } = entry;
        let summary = format!("cache={name}: out goes {summary} ({})", basis.words());
        Entry { summary: summary.into(), ..Entry::new(name, "", &[]) }
    }

    fn index(entry: &IndexEntry) -> Entry {
        let confidence = Some((entry.confidence, entry.basis));
        Entry { confidence, ..Entry::new(entry.name, entry.summary, entry.options) }
    }

    fn store(entry: &IndexEntry) -> Entry {
        let holds = Some((entry.holds.name(), ground(entry)));
        Entry { holds, ..Entry::index(entry) }
    }

    fn ftl(entry: &StoreEntry) -> Entry {
        let confidence = Some((entry.confidence, entry.basis));
        Entry { confidence, ..Entry::new(entry.name, entry.summary, entry.options) }
    }

    /// The entry of the TBM, which works in front of any FTL; its options come in addition to the FTL's.
    fn tbm() -> Entry {
        let StoreEntry { confidence, basis, .. } = TBM_STORES[0];
        let summary = "NAME behind the Transit Buffer Manager and write pattern converter of the WPCB-tree";
        Entry { confidence: Some((confidence, basis)), ..Entry::new("tbm+NAME", summary, &tbm::OPTIONS) }
    }

    fn text(&self, width: usize) -> String {
        let mut out = format!("{:width$} {}\n", self.name, self.summary);
        if let Some((confidence, basis)) = self.confidence {
            let _ = writeln!(out, "{:width$} confidence {}: {basis}", "", confidence.name());
        }
        if let Some((what, on)) = self.holds {
            let _ = writeln!(out, "{:width$} holds {what}; on {on}", "");
        }
        let settings = self.options.iter().map(|o| format!("{}={}", o.name, o.default));
        let wide = settings.clone().map(|s| s.chars().count()).max().unwrap_or(0);
        for (setting, option) in settings.zip(self.options) {
            let _ = writeln!(out, "{:width$}   {setting:wide$}  {}", "", option.help);
        }
        out
    }

    fn json(&self) -> Value {
        let option = |o: &OptionInfo| json!({"name": o.name, "default": o.default, "help": o.help});
        let options: Vec<Value> = self.options.iter().map(option).collect();
        let mut entry = json!({"name": self.name, "summary": self.summary, "options": options});
        if let Some((confidence, basis)) = self.confidence {
            entry["confidence"] = json!(confidence.name());
            entry["basis"] = json!(basis);
        }
        if let Some((what, on)) = self.holds {
            entry["holds"] = json!(what);
            entry["on"] = json!(on);
        }
        entry
    }
}
