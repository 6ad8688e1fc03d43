//! Which pages are valid: decided by versions, as a mount does, and by reachability from the root.

use crate::decode::{Decoder, Family, Page, Record, Role};
use crate::scan::{Found, Life};
use crate::tree::Tree;
use nandex::codec::{get_u32, get_u64};
use std::collections::{BTreeMap, BTreeSet};

/// The newest physical page of each logical page; empty if the chip has no logical pages.
pub(crate) type Current = BTreeMap<u32, u32>;

/// Added to the versions of buffer blocks, which are newer than any of the FTL.
const BUFFERED: u64 = 1 << 60;

/// The newest intact page of each logical page.
///
/// Pages of a group without its end do not count. A trim that is no longer on the chip is not seen, since
/// only the FTL's table knows it. The trimmed page is then shown as current until its block is erased.
pub(crate) fn current(decoder: &Decoder, pages: &[Page], checkpoint: Option<&Found>) -> Current {
    if !matches!(decoder.family, Family::Ftl | Family::Tbm) {
        return Current::new();
    }
    let mut newest: BTreeMap<u32, (u64, u32)> = BTreeMap::new();
    let last_whole = pages.iter().filter(|p| matches!(p.kind, b'H')).map(|p| p.version).max().unwrap_or(0);
    let mapped = checkpoint.map(mapped).unwrap_or_default();
    for (ppn, page) in pages.iter().enumerate() {
        let Some(number) = page.logical.filter(|_| page.whole && holds_data(page.kind)) else { continue };
        if page.kind == b'h' && page.version > last_whole {
            continue;
        }
        if let Some((next, table)) = &mapped
            && page.kind != b'B'
            && page.version < *next
            && table.get(number as usize).is_some_and(|&at| at == u32::MAX)
        {
            // The checkpoint knows of no such page: it was trimmed before.
            continue;
        }
        let version = page.version + if page.kind == b'B' { BUFFERED } else { 0 };
        let entry = newest.entry(number).or_insert((version, ppn as u32));
        if version >= entry.0 {
            *entry = (version, ppn as u32);
        }
    }
    newest.retain(|_, (_, ppn)| pages[*ppn as usize].role != Role::Trim);
    newest.into_iter().map(|(number, (_, ppn))| (number, ppn)).collect()
}

fn holds_data(kind: u8) -> bool {
    matches!(kind, b'H' | b'h' | b'C' | b'D' | b'L' | b'S' | b'B')
}

/// The table in a checkpoint of the page map, updated by its notes, and the first version that is newer than
/// the table.
fn mapped(found: &Found) -> Option<(u64, Vec<u32>)> {
    let Record::PageMap { pages, mut next_version, .. } = found.record else { return None };
    let payload = &found.payload[..];
    let chip_pages = u64::from(get_u32(payload, 8)) * u64::from(get_u32(payload, 12));
    let width = if chip_pages <= 1 << 16 && !payload.starts_with(b"NXF3") { 2 } else { 4 };
    let from = payload.len().checked_sub(width * pages as usize)?;
    let mut table: Vec<u32> = payload[from..].chunks_exact(width).map(place).collect();
    for note in found.notes.iter().filter(|note| note.len() >= 44) {
        next_version = get_u64(note, 4);
        let pairs = note.get(44 + 13 * get_u32(note, 36) as usize..)?;
        for pair in pairs.chunks_exact(2 * width) {
            let (number, at) = pair.split_at(width);
            let number = number.iter().rev().fold(0, |number, &byte| number << 8 | usize::from(byte));
            *table.get_mut(number)? = place(at);
        }
    }
    Some((next_version, table))
}

/// Reads the number of a physical page. In two bytes, 0 and 1 stand for the two highest numbers, which are
/// no pages.
fn place(bytes: &[u8]) -> u32 {
    match *bytes {
        [low, high] => match u16::from_le_bytes([low, high]) {
            few @ 0..2 => u32::MAX - u32::from(few),
            ppn => ppn.into(),
        },
        _ => get_u32(bytes, 0),
    }
}

pub(crate) fn lives(decoder: &Decoder, pages: &[Page], current: &Current, tree: &Tree) -> Vec<Life> {
    let newest_own = |role: Role| pages.iter().filter(|p| p.role == role).map(|p| p.version).max();
    let (checkpoint, anchor) = (newest_own(Role::Checkpoint), newest_own(Role::Anchor));
    let mut lives: Vec<Life> = pages
        .iter()
        .map(|page| match page.role {
            Role::Erased => Life::Free,
            Role::Checkpoint if Some(page.version) == checkpoint => Life::Own,
            Role::Anchor if Some(page.version) == anchor => Life::Own,
            Role::Map => Life::Own,
            _ => Life::Dead,
        })
        .collect();
    newest_maps(pages, &mut lives);
    let in_tree: BTreeSet<u32> = tree.nodes.iter().map(|node| node.page).collect();
    for &ppn in current.values() {
        let page = &pages[ppn as usize];
        let is_lost_node = !page.nodes.is_empty() && tree.is_complete && !in_tree.contains(&ppn);
        lives[ppn as usize] = if is_lost_node { Life::Dead } else { Life::Live };
    }
    for node in &tree.nodes {
        lives[node.page as usize] = Life::Live;
    }
    if decoder.family == Family::Plow {
        keep_commits(pages, &mut lives);
    }
    if matches!(decoder.family, Family::Log(_)) {
        for (page, life) in pages.iter().zip(&mut lives) {
            if page.role == Role::Journal {
                *life = Life::Live;
            }
        }
    }
    if decoder.family == Family::Ipl {
        keep_log_units(decoder, pages, &mut lives);
    }
    lives
}

/// Marks old pages of the mapping table as dead: only the newest version of each counts.
fn newest_maps(pages: &[Page], lives: &mut [Life]) {
    let mut newest: BTreeMap<u32, usize> = BTreeMap::new();
    for (ppn, page) in pages.iter().enumerate().filter(|(_, page)| page.role == Role::Map) {
        let number = page.logical.unwrap_or_else(|| number_of(page));
        let best = newest.entry(number).or_insert(ppn);
        if pages[*best].version < page.version {
            lives[*best] = Life::Dead;
            *best = ppn;
        } else if *best != ppn {
            lives[ppn] = Life::Dead;
        }
    }
}

/// The number of a page of the mapping table, which is in its title.
fn number_of(page: &Page) -> u32 {
    page.title.split_whitespace().find_map(|word| word.parse().ok()).unwrap_or(0)
}

/// Keeps the newest commit page, and the sealed pages from the oldest needed one on.
fn keep_commits(pages: &[Page], lives: &mut [Life]) {
    let newest = |kind: u8| {
        let found = (0..pages.len()).filter(|&i| pages[i].role == Role::Commit && pages[i].kind == kind);
        found.max_by_key(|&i| pages[i].version)
    };
    if let Some(commit) = newest(2) {
        lives[commit] = Life::Live;
    }
    for (page, life) in pages.iter().zip(lives) {
        if page.role == Role::Summary {
            *life = Life::Own;
        }
    }
}

/// Keeps the log units of blocks with an image that counts.
fn keep_log_units(decoder: &Decoder, pages: &[Page], lives: &mut [Life]) {
    let per_block = decoder.geometry.pages_per_block as usize;
    for (pages, lives) in pages.chunks(per_block).zip(lives.chunks_mut(per_block)) {
        let lived_in = lives.contains(&Life::Live);
        for (page, life) in pages.iter().zip(lives) {
            if lived_in && page.role == Role::Log {
                *life = Life::Live;
            }
        }
    }
}
