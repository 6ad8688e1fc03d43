//! `nandex inspect`: describes a chip as text or JSON: contents, tree, free space, wear, log, and a page or
//! block byte by byte.

use crate::decode::{Area, Family, Page, Role, number_text};
use crate::detect::{Detected, page_in_detail};
use crate::life_words;
use crate::scan::{Life, Scan};
use nandex::{Nand, NandError, Ppn};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The result of an inspection of a chip.
#[derive(Clone, Debug)]
pub struct Inspection {
    /// The name of the image or device.
    pub name: String,
    /// The kind of contents found on the chip.
    pub detected: Detected,
    /// The scan of all pages.
    pub scan: Scan,
    /// Number of erases of each block, if the chip itself tells them.
    pub wear: Option<Vec<u32>>,
    /// A description of the volume of SQLite databases, if one was examined. It is shown instead of a tree.
    pub volume: Option<String>,
}

/// The family in words.
pub fn family_words(family: Family) -> String {
    match family {
        Family::Log(kind) => format!("the log of a tree on raw NAND: {}", kind.index()),
        Family::Overwrite => "VMTree-OW".into(),
        Family::Plow => "plow".into(),
        Family::Sbits => "SBITS".into(),
        Family::Furrow => "furrow".into(),
        Family::Ipl => "IPL or dIPL".into(),
        Family::Ftl => "logical pages of an FTL".into(),
        Family::Tbm => "logical pages of an FTL behind buffer blocks (WPCB-tree)".into(),
    }
}

impl Detected {
    /// The kind of contents in words.
    pub fn words(&self) -> String {
        let family = family_words(self.family);
        if self.is_volume { format!("{family}: a volume of SQLite databases") } else { family }
    }
}

impl Inspection {
    /// Inspects a chip without writing to it.
    pub fn of(chip: impl Nand, name: &str, detected: Detected) -> Result<Inspection, NandError> {
        let scan = Scan::of(chip, detected.family, detected.record)?;
        Ok(Inspection { name: name.into(), detected, scan, wear: None, volume: None })
    }

    fn wear_of(&self, block: usize) -> Option<u32> {
        self.wear.as_ref().map_or(self.scan.blocks[block].wear, |wear| wear.get(block).copied())
    }

    /// A summary of about one screen.
    pub fn summary(&self) -> String {
        let g = &self.scan.decoder.geometry;
        let record = self.detected.record;
        let mut text = format!(
            "{}: {}\n{} blocks of {} pages of {}+{} bytes{}\n",
            self.name,
            self.detected.words(),
            g.blocks,
            g.pages_per_block,
            g.page_bytes,
            g.spare_bytes,
            match (self.detected.is_volume, self.detected.is_sure) {
                (true, _) => String::new(),
                (_, true) => format!("; records of {}/{} bytes", record.key_bytes, record.value_bytes),
                (_, false) => format!(
                    "; records of {}/{} bytes (as given: the bytes do not tell)",
                    record.key_bytes, record.value_bytes
                ),
            }
        );
        let _ = match &self.volume {
            Some(volume) => writeln!(text, "\nvolume\n{volume}"),
            None => writeln!(text, "\ntree\n{}", self.tree_text()),
        };
        let _ = writeln!(text, "space\n{}", self.space_text());
        let _ = writeln!(text, "wear\n{}", self.wear_text());
        let _ = writeln!(text, "log\n{}", self.log_text());
        text += &self.blocks_text();
        text
    }

    fn tree_text(&self) -> String {
        let tree = &self.scan.tree;
        let mut levels: BTreeMap<u8, [usize; 3]> = BTreeMap::new();
        for node in &tree.nodes {
            let row = levels.entry(node.level).or_default();
            *row = [row[0] + 1, row[1] + node.entries, row[2] + node.capacity];
        }
        let mut text = String::new();
        if let Some(root) = tree.nodes.first() {
            let records = self.scan.records();
            let _ =
                writeln!(text, "  root in page {}, height {}, {records} records", root.page, tree.height());
        }
        for (level, [nodes, entries, capacity]) in levels.iter().rev() {
            let fill = (100 * entries).checked_div(*capacity).unwrap_or(0);
            let _ = writeln!(text, "  level {level}: {nodes} nodes, {entries} entries, {fill} % full");
        }
        let missing: usize = tree.nodes.iter().map(|node| node.missing).sum();
        if missing > 0 {
            let _ = writeln!(text, "  {missing} children are no nodes of their own, or not there");
        }
        if !tree.note.is_empty() {
            let _ = writeln!(text, "  {}", tree.note);
        }
        text
    }

    fn space_text(&self) -> String {
        let count = |life: Life| self.scan.lives.iter().filter(|&&l| l == life).count();
        let bad = self.scan.blocks.iter().filter(|block| block.bad).count();
        let erased = self.scan.blocks.iter().filter(|block| block.label == "free" && !block.bad).count();
        format!(
            "  pages that count {}, bookkeeping {}, no longer counting {}, erased {}\n  blocks erased whole {erased}, bad {bad}\n",
            count(Life::Live),
            count(Life::Own),
            count(Life::Dead),
            count(Life::Free)
        )
    }

    fn wear_text(&self) -> String {
        let blocks = (0..self.scan.blocks.len()).filter(|&i| !self.scan.blocks[i].bad);
        let wear: Vec<u32> = blocks.filter_map(|i| self.wear_of(i)).collect();
        let Some((least, most)) = wear.iter().min().zip(wear.iter().max()) else {
            return "  erases are not told by this chip or its checkpoint\n".into();
        };
        let sum: u64 = wear.iter().map(|&erases| u64::from(erases)).sum();
        let source = if self.wear.is_some() { "" } else { " (as of the newest checkpoint)" };
        format!(
            "  erases of a block: least {least}, mean {:.1}, most {most}{source}\n",
            sum as f64 / wear.len().max(1) as f64
        )
    }

    fn log_text(&self) -> String {
        let pages = self.scan.pages.iter().enumerate();
        let newest = pages.clone().filter(|(_, p)| p.whole && p.version > 0).max_by_key(|(_, p)| p.version);
        let mut text = String::new();
        if let Some((page, found)) = newest {
            let _ = writeln!(text, "  the newest page is {page}, number {}: {}", found.version, found.title);
        }
        match &self.scan.checkpoint {
            Some(found) => {
                let pages: Vec<String> = found.pages.iter().map(u32::to_string).collect();
                let _ = writeln!(text, "  checkpoint {} in pages {}", found.version, pages.join(", "));
            }
            None => text += "  no checkpoint, or none that is whole\n",
        }
        let torn: Vec<String> =
            pages.filter(|(_, p)| p.role == Role::Torn).map(|(page, _)| page.to_string()).take(12).collect();
        if !torn.is_empty() {
            let _ = writeln!(text, "  not whole: pages {}", torn.join(", "));
        }
        text
    }

    fn blocks_text(&self) -> String {
        let mut text = String::from("block  erases  pages: count, bookkeeping, old, erased\n");
        for (number, block) in
            self.scan.blocks.iter().enumerate().filter(|(_, b)| b.label != "free" || b.bad).take(64)
        {
            let wear = self.wear_of(number).map_or("-".into(), |wear| wear.to_string());
            let [live, own, dead, free] = block.pages;
            let _ = writeln!(
                text,
                "{number:>5} {wear:>7}  {live:>4} {own:>4} {dead:>4} {free:>4}  {}",
                block.label
            );
        }
        text
    }

    /// All pages of a block, one line each.
    pub fn block(&self, block: u32) -> Result<String, String> {
        let g = &self.scan.decoder.geometry;
        if block >= g.blocks {
            return Err(format!("the chip has {} blocks", g.blocks));
        }
        let of_block = &self.scan.blocks[block as usize];
        let wear =
            self.wear_of(block as usize).map_or(String::new(), |wear| format!(", erased {wear} times"));
        let mut text = format!("block {block}: {}{wear}\n", of_block.label);
        for page in block * g.pages_per_block..(block + 1) * g.pages_per_block {
            let (found, life) = (&self.scan.pages[page as usize], self.scan.lives[page as usize]);
            if life != Life::Free {
                let _ = writeln!(text, "{page:>7}  {:<12} {}", life_word(life), found.title);
            }
        }
        Ok(text)
    }

    /// A page byte by byte.
    pub fn page(&self, chip: impl Nand, page: u32) -> Result<String, String> {
        let (found, data, spare) = self.detail(chip, page)?;
        let life = self.scan.lives[page as usize];
        let g = &self.scan.decoder.geometry;
        let (block, place) = (page / g.pages_per_block, page % g.pages_per_block);
        let mut text = format!(
            "page {page} (block {block}, page {place}): {}\n{}\n",
            found.title,
            life_words(life, found.role)
        );
        if !found.note.is_empty() {
            let _ = writeln!(text, "{}", found.note);
        }
        let mut told = 0;
        for field in &found.fields {
            let end = field.at + field.bytes;
            let area = if field.area == Area::Data { "data" } else { "spare" };
            let _ = writeln!(text, "  {area:<5} {:>5}..{end:<5} {} = {}", field.at, field.name, field.value);
            told += field.bytes;
        }
        let all = data.len() + spare.len();
        let _ = writeln!(text, "{told} of {all} bytes have a meaning here; all of them:\n");
        text += &hex("data", &data);
        text += &hex("spare", &spare);
        Ok(text)
    }

    fn detail(&self, chip: impl Nand, page: u32) -> Result<(Page, Vec<u8>, Vec<u8>), String> {
        let pages = self.scan.decoder.geometry.pages();
        if page >= pages {
            return Err(format!("the chip has {pages} pages"));
        }
        page_in_detail(chip, &self.scan.decoder, Ppn(page)).map_err(|e| e.to_string())
    }

    /// All results as JSON.
    pub fn json(&self) -> Value {
        let g = &self.scan.decoder.geometry;
        let blocks = self.scan.blocks.iter().enumerate().map(|(number, block)| {
            let [live, own, dead, free] = block.pages;
            json!({
                "block": number, "label": block.label, "bad": block.bad, "erases": self.wear_of(number),
                "live": live, "bookkeeping": own, "dead": dead, "erased": free,
            })
        });
        let pages = self
            .scan
            .pages
            .iter()
            .zip(&self.scan.lives)
            .enumerate()
            .filter(|(_, (_, life))| **life != Life::Free);
        let pages = pages.map(|(number, (page, life))| {
            json!({
                "page": number, "role": page.role, "life": life, "title": page.title, "logical": page.logical,
                "version": page.version, "whole": page.whole,
            })
        });
        json!({
            "name": self.name,
            "family": self.detected.family,
            "record": [self.detected.record.key_bytes, self.detected.record.value_bytes],
            "record_is_told": self.detected.is_sure,
            "geometry": {
                "page_bytes": g.page_bytes, "spare_bytes": g.spare_bytes,
                "pages_per_block": g.pages_per_block, "blocks": g.blocks,
            },
            "records": self.scan.records(),
            "tree": self.scan.tree,
            "checkpoint": self.scan.checkpoint,
            "plow": self.scan.plow,
            "blocks": blocks.collect::<Vec<_>>(),
            "pages": pages.collect::<Vec<_>>(),
        })
    }

    /// A page as JSON.
    pub fn page_json(&self, chip: impl Nand, page: u32) -> Result<Value, String> {
        let (found, data, spare) = self.detail(chip, page)?;
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        Ok(json!({
            "page": page, "role": found.role, "life": self.scan.lives[page as usize], "title": found.title,
            "note": found.note, "whole": found.whole, "fields": found.fields, "data": hex(&data), "spare": hex(&spare),
            "nodes": found.nodes.iter().map(|node| json!({
                "level": node.level, "number": node.number, "entries": node.entries, "capacity": node.capacity,
                "keys": node.keys.iter().map(|key| number_text(key)).collect::<Vec<_>>(), "links": node.links,
            })).collect::<Vec<_>>(),
        }))
    }
}

fn life_word(life: Life) -> &'static str {
    match life {
        Life::Free => "erased",
        Life::Live => "counts",
        Life::Own => "bookkeeping",
        Life::Dead => "old",
    }
}

/// Bytes in rows of sixteen; repeated rows are left out.
fn hex(name: &str, bytes: &[u8]) -> String {
    let (mut text, mut before, mut skipped) = (String::new(), None, false);
    for (row, chunk) in bytes.chunks(16).enumerate() {
        if before == Some(chunk) && (row + 1) * 16 < bytes.len() {
            if !skipped {
                text += "      *\n";
            }
            skipped = true;
            continue;
        }
        (before, skipped) = (Some(chunk), false);
        let _ = write!(text, "{name:<5} {:>5}  ", row * 16);
        for byte in chunk {
            let _ = write!(text, "{byte:02x} ");
        }
        let shown: String =
            chunk.iter().map(|&b| if b.is_ascii_graphic() { char::from(b) } else { '.' }).collect();
        let _ = writeln!(text, "{:pad$} {shown}", "", pad = 3 * (16 - chunk.len()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::Decoder;
    use crate::detect::detect;
    use crate::scan::read;
    use crate::session::{At, Session, Setup};
    use nandex::nand::sim::SimChip;
    use nandex::ordered::RecordFormat;
    use nandex::rng::Rng;
    use nandex_stacks::registry::INDEXES;

    fn written(index: &str) -> (Session, SimChip) {
        let setup = Setup { operations: 150, record: (6, 3), ..Setup::new(index) };
        let session = Session::run(setup).unwrap_or_else(|why| panic!("{index}: {why}"));
        let step = session.steps().len() - 1;
        let chip = session.chip_at(At { step, event: session.steps()[step].events.len() }).unwrap();
        (session, chip)
    }

    #[test]
    fn every_index_is_recognised_by_its_bytes() {
        for entry in INDEXES {
            let (_, mut chip) = written(entry.name);
            let found = detect(&mut chip, RecordFormat::new(4, 4)).unwrap();
            let found = found.unwrap_or_else(|| panic!("{}: nothing was recognised", entry.name));
            assert_eq!(found.family, Family::of_index(entry.name), "{}", entry.name);
            // What stands on an FTL tells its sizes where a B+-tree is part of it.
            assert!(!found.is_sure || found.record == RecordFormat::new(6, 3), "{}: {found:?}", entry.name);
            let raw = !matches!(found.family, Family::Ftl | Family::Overwrite);
            assert!(found.is_sure || !raw, "{}", entry.name);
            let inspection = Inspection::of(&mut chip, "a chip", found).unwrap();
            let text = inspection.summary();
            assert!(
                text.contains("tree\n") && text.contains("blocks erased whole"),
                "{}: {text}",
                entry.name
            );
            assert!(inspection.json()["pages"].as_array().is_some_and(|pages| pages.len() > 2));
        }
        let mut empty = SimChip::new(&nandex::nand::catalogue::mlc_with(512, 16, 8)).unwrap();
        assert_eq!(detect(&mut empty, RecordFormat::new(4, 4)).unwrap(), None);
    }

    #[test]
    fn a_page_is_told_byte_by_byte_and_a_block_page_by_page() {
        let (session, mut chip) = written("mu");
        let detected = detect(&mut chip, RecordFormat::new(4, 4)).unwrap().unwrap();
        let inspection = Inspection::of(&mut chip, "a chip", detected).unwrap();
        assert_eq!(inspection.scan.records(), session.steps().last().unwrap().records() as u64);
        let root = inspection.scan.tree.nodes[0].page;
        let text = inspection.page(&mut chip, root).unwrap();
        assert!(
            text.contains("holds the root") && text.contains("home block") && text.contains("CRC-32 = "),
            "{text}"
        );
        assert!(text.matches("\ndata ").count() + text.matches("\nspare ").count() > 8, "{text}");
        let json = inspection.page_json(&mut chip, root).unwrap();
        assert_eq!(json["data"].as_str().unwrap().len(), 1024);
        assert!(inspection.page(&mut chip, 512).unwrap_err().contains("512 pages"));
        assert!(inspection.block(32).is_err());
        let g = inspection.scan.decoder.geometry;
        assert!(inspection.block(root / g.pages_per_block).unwrap().contains(&format!("{root}  counts")));
    }

    #[test]
    fn damaged_pages_are_told_and_never_a_panic() {
        let mut rng = Rng::new(11);
        for entry in INDEXES {
            let (session, mut chip) = written(entry.name);
            let scan = Scan::of(&mut chip, Family::of_index(entry.name), session.record()).unwrap();
            let decoder: &Decoder = &scan.decoder;
            let mut shown = decoder.family.shown(&mut chip);
            for ppn in
                (0..decoder.geometry.pages()).filter(|&p| scan.lives[p as usize] != Life::Free).step_by(3)
            {
                let (mut data, mut spare) = read(&mut shown, Ppn(ppn)).unwrap().unwrap();
                let whole = decoder.page(Ppn(ppn), &data, &spare);
                let bit = rng.below(data.len() as u64 * 8);
                data[(bit / 8) as usize] ^= 1 << (bit % 8);
                let damaged = decoder.page(Ppn(ppn), &data, &spare);
                let sealed =
                    matches!(decoder.family, Family::Log(_) | Family::Ftl | Family::Tbm | Family::Plow);
                assert!(!sealed || !whole.whole || !damaged.whole, "{}: page {ppn}, bit {bit}", entry.name);
                rng.fill(&mut data[8..]);
                decoder.page(Ppn(ppn), &data, &spare);
                rng.fill(&mut spare);
                decoder.page(Ppn(ppn), &data, &spare);
            }
        }
    }
}
