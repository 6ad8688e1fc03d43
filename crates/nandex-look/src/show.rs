//! Runs, states of the chip and pages as JSON for the page.

use crate::decode::{Family, Role};
use crate::detect::page_in_detail;
use crate::scan::{Life, Scan};
use crate::scenes::Stop;
use crate::session::{At, Session, What};
use nandex::{Cause, Ppn};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A run step by step as JSON, without the chip.
pub(crate) fn timeline(id: u64, session: &Session, stops: &[Stop]) -> Value {
    let steps = session.steps().iter().map(|step| {
        json!({
            "what": step.what,
            "kind": step.kind,
            "outcome": step.outcome,
            "failed": step.failed,
            "events": step.events.len(),
            "reads": step.count(What::Read),
            "programs": step.count(What::Program),
            "erases": step.count(What::Erase),
            "ns": step.flash_ns,
        })
    });
    let part = session.part();
    json!({
        "id": id,
        "setup": session.setup,
        "durability": session.durability().name(),
        "spatial": session.is_spatial(),
        "chip": {
            "name": part.name,
            "page": part.geometry.page_bytes,
            "spare": part.geometry.spare_bytes,
            "pages": part.geometry.pages_per_block,
            "blocks": part.geometry.blocks,
        },
        "steps": steps.collect::<Vec<_>>(),
        "recovery": session.recovery,
        "stops": stops,
    })
}

/// Scans the chip at a place of a run.
pub(crate) fn look(session: &Session, at: At) -> Result<Scan, String> {
    let mut chip = session.chip_at(at)?;
    // With an FTL beneath, a tree on raw NAND has its pages in logical ones.
    let on_ftl = session.setup.options.iter().any(|(name, value)| name == "beneath" && value != "none");
    let family = if on_ftl { Family::Ftl } else { Family::of_index(&session.setup.index) };
    Scan::of(&mut chip, family, session.record()).map_err(|e| e.to_string())
}

/// Everything that the page shows at a place of a run, as JSON.
pub(crate) fn state(session: &Session, at: At) -> Result<Value, String> {
    let scan = look(session, at)?;
    let chip = session.chip_at(at)?;
    let step = &session.steps()[at.step];
    let before = at.step.checked_sub(1).map(|before| &session.steps()[before]);
    let is_whole = at.event == step.events.len();
    let figures = if is_whole { Some(step) } else { before };
    let parts = parts(&scan);
    let pages = scan.pages.iter().zip(&scan.lives).enumerate();
    let pages = pages.map(|(ppn, (page, life))| {
        json!([parts.get(&(ppn as u32)).copied().unwrap_or(page.role), life, page.title])
    });
    let blocks = scan.blocks.iter().zip(chip.wear()).map(
        |(block, wear)| json!({ "label": block.label, "bad": block.bad, "wear": wear, "pages": block.pages }),
    );
    let metrics = figures.map_or(&[][..], |step| &step.metrics[..]).iter().map(|m| json!([m.name, m.value]));
    Ok(json!({
        "at": at,
        "pages": pages.collect::<Vec<_>>(),
        "blocks": blocks.collect::<Vec<_>>(),
        "tree": scan.tree,
        "metrics": metrics.collect::<Vec<_>>(),
        "metrics_before": before_figures(session, at, is_whole),
        "ram": figures.map_or(0, |step| step.ram_bytes),
        "height": figures.map_or(0, |step| step.height),
        "records": if is_whole { step.records() } else { before.map_or(0, |step| step.records()) },
        "events": step.events,
        "totals": totals(session, at),
        "next_change": session.next_change(at)?,
    }))
}

/// Figures of the index before the step shown.
fn before_figures(session: &Session, at: At, is_whole: bool) -> Vec<Value> {
    let step = at.step.checked_sub(if is_whole { 1 } else { 2 });
    let metrics = step.map_or(&[][..], |step| &session.steps()[step].metrics[..]);
    metrics.iter().map(|metric| json!([metric.name, metric.value])).collect()
}

/// The current purpose of each page of the tree. A page of a mu-Tree, for example, was written as root and
/// may be needed only for its leaf.
fn parts(scan: &Scan) -> BTreeMap<u32, Role> {
    let mut parts = BTreeMap::new();
    let is_tree = scan.tree.nodes.iter().any(|node| node.parent.is_some()) && scan.plow.is_none();
    for (place, node) in scan.tree.nodes.iter().enumerate().filter(|_| is_tree) {
        let role = match (place, node.level) {
            (0, _) => Role::Root,
            (_, 1) => Role::Leaf,
            _ => Role::Inner,
        };
        // Parents come before their children, so the highest node of a page is met first.
        parts.entry(node.page).or_insert(role);
    }
    parts
}

/// Page reads, page programs and block erases so far, by cause.
fn totals(session: &Session, at: At) -> Value {
    let mut counts: BTreeMap<&str, [u64; 3]> = BTreeMap::new();
    for event in session.events_until(at) {
        let column = match event.what {
            What::Read => 0,
            What::Program => 1,
            What::Erase => 2,
            What::Mark => continue,
        };
        counts.entry(event.cause).or_default()[column] += 1;
    }
    let known =
        Cause::COUNTED.iter().filter_map(|cause| counts.get(cause.name()).map(|row| (cause.name(), row)));
    known.map(|(name, row)| json!([name, row[0], row[1], row[2]])).collect()
}

/// A page byte by byte as JSON.
pub(crate) fn page(session: &Session, at: At, page: u32) -> Result<Value, String> {
    let scan = look(session, at)?;
    if page >= scan.decoder.geometry.pages() {
        return Err(format!("there is no page {page}"));
    }
    let chip = session.chip_at(at)?;
    let block = page / scan.decoder.geometry.pages_per_block;
    let life = scan.lives[page as usize];
    let (decoded, data, spare) = page_in_detail(chip, &scan.decoder, Ppn(page)).map_err(|e| e.to_string())?;
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let nodes = decoded.nodes.iter().map(|node| {
        json!({
            "level": node.level, "number": node.number, "entries": node.entries, "capacity": node.capacity,
            "at": node.at,
        })
    });
    Ok(json!({
        "page": page,
        "block": block,
        "in_block": page % scan.decoder.geometry.pages_per_block,
        "role": decoded.role,
        "life": life,
        "life_words": life_words(life, decoded.role),
        "title": decoded.title,
        "note": decoded.note,
        "whole": decoded.whole,
        "fields": decoded.fields,
        "nodes": nodes.collect::<Vec<_>>(),
        "data": hex(&data),
        "spare": hex(&spare),
    }))
}

/// Whether a page counts, in words.
pub fn life_words(life: Life, role: Role) -> &'static str {
    match (life, role) {
        (Life::Free, _) => "erased: it may be programmed",
        (_, Role::Torn) => "not whole: torn or damaged",
        (Life::Live, _) => "it counts",
        (Life::Own, _) => "it counts: bookkeeping",
        (Life::Dead, _) => "it no longer counts: another has taken its place",
    }
}
