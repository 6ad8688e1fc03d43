//! Dumps a device, and restores a dump.
//!
//! A dump has the format of `nanddump -o -n --bb=dumpbad`, with two differences. Bits that the ECC can
//! correct are corrected. The first page of a bad block has its mark even if the device keeps marks in a
//! table. Pages that cannot be corrected are dumped as read.
#![cfg_attr(not(target_os = "linux"), allow(unused))]

use crate::error::MtdError;
#[cfg(target_os = "linux")]
use crate::io::{MtdIo, OobMode};
use crate::raw_dump::RawDump;
use nandex::{Nand, Pbn};
#[cfg(target_os = "linux")]
use rustix::io::Errno;
use std::io::{self, Write};

/// The blocks and pages that a dump met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DumpReport {
    /// Blocks dumped, including bad ones.
    pub blocks: u32,
    /// Blocks that are marked bad.
    pub bad_blocks: u32,
    /// Pages with corrected bits.
    pub corrected_pages: u64,
    /// Pages with more errors than the ECC corrects; they are dumped as read.
    pub uncorrectable_pages: u64,
}

/// The blocks and pages that were put back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RestoreReport {
    /// Blocks that were erased.
    pub blocks: u32,
    /// Pages programmed and read back correctly.
    pub pages: u64,
    /// Blocks that are bad in the dump or on the device, and erased or bad in the other.
    pub skipped: u32,
}

#[cfg(target_os = "linux")]
fn failed(name: &str, doing: &'static str, at: (u32, Option<u32>), errno: Errno) -> MtdError {
    let page = at.1.map_or(String::new(), |page| format!(" page {page}"));
    let why = format!("cannot {doing} block {}{page}: {}", at.0, io::Error::from(errno));
    MtdError::unsupported(name, why)
}

/// Dumps `blocks` blocks of a device from block `first` on. Errors use `name` for the device.
///
/// # Errors
///
/// A device that does not answer (with block, page and the system's message), `out` that cannot be written,
/// and blocks that do not exist.
#[cfg(target_os = "linux")]
pub fn dump(
    io: &mut impl MtdIo,
    name: &str,
    (first, blocks): (u32, u32),
    out: &mut dyn Write,
) -> Result<DumpReport, MtdError> {
    let (raw, there) = (io.facts().raw, io.facts().blocks);
    require_blocks(name, (first, blocks), there)?;
    let mut report = DumpReport { blocks, ..DumpReport::default() };
    let mut page = vec![0; raw.raw_page_bytes() as usize];
    for block in first..first + blocks {
        let start = u64::from(block) * raw.block_bytes();
        let is_bad = io.is_bad(start).map_err(|e| failed(name, "read the mark of", (block, None), e))?;
        report.bad_blocks += u32::from(is_bad);
        for number in 0..raw.pages_per_block {
            let at = start + u64::from(number) * u64::from(raw.page_bytes);
            let read = read_whole(io, at, &mut page, is_bad, &mut report);
            match read {
                Err(errno) if !is_bad => return Err(failed(name, "read", (block, Some(number)), errno)),
                // What a bad block holds is nobody's affair, and it need not answer.
                Err(_) => page.fill(0xff),
                Ok(()) => {}
            }
            if is_bad && number == 0 {
                page[raw.page_bytes as usize + raw.mark_at()] = 0;
            }
            out.write_all(&page)
                .map_err(|e| MtdError::unsupported(name, format!("cannot write the dump: {e}")))?;
        }
    }
    Ok(report)
}

#[cfg(target_os = "linux")]
fn read_whole(
    io: &mut impl MtdIo,
    at: u64,
    page: &mut [u8],
    is_bad: bool,
    report: &mut DumpReport,
) -> Result<(), Errno> {
    let page_bytes = io.facts().raw.page_bytes as usize;
    let (data, oob) = page.split_at_mut(page_bytes);
    if !is_bad {
        match io.read(at, OobMode::Place, (&mut *data, &mut *oob)).1 {
            Ok(()) => return Ok(()),
            Err(Errno::UCLEAN) => {
                report.corrected_pages += 1;
                return Ok(());
            }
            Err(Errno::BADMSG) => report.uncorrectable_pages += 1,
            Err(errno) => return Err(errno),
        }
    }
    io.read(at, OobMode::Raw, (data, oob)).1
}

fn require_blocks(name: &str, (first, blocks): (u32, u32), there: u32) -> Result<(), MtdError> {
    if first.checked_add(blocks).is_some_and(|end| end <= there) {
        return Ok(());
    }
    let end = u64::from(first) + u64::from(blocks);
    Err(MtdError::unsupported(name, format!("blocks {first} to {end} were asked for, and it has {there}")))
}

/// Puts a dump onto a device from a block on: each block is erased, each page that holds something is
/// programmed and read back. The driver computes the ECC anew, and the free bytes may lie elsewhere than in
/// the dump.
///
/// # Errors
///
/// [`MtdError::Mismatch`] before anything is erased: pages and blocks of other sizes, another number of free
/// bytes, fewer blocks, or a bad block where the dump holds something. Else a device that fails, with block,
/// page and the system's words.
#[cfg(target_os = "linux")]
pub fn restore(
    dump: &mut RawDump,
    io: &mut impl MtdIo,
    name: &str,
    first: u32,
) -> Result<RestoreReport, MtdError> {
    let blocks = dump.geometry().blocks;
    require_fitting(dump, io, name)?;
    require_blocks(name, (first, blocks), io.facts().blocks)?;
    let raw = io.facts().raw;
    let start = |block: u32| u64::from(first + block) * raw.block_bytes();
    let mut bad = Vec::new();
    for block in 0..blocks {
        let is_bad = io.is_bad(start(block));
        let is_bad = is_bad.map_err(|e| failed(name, "read the mark of", (first + block, None), e))?;
        if is_bad && holds_something(dump, Pbn(block))? {
            let why = format!(
                "{name}: block {} is bad, and the dump holds something there: the dump goes onto no device with that block bad",
                first + block
            );
            return Err(MtdError::Mismatch(why));
        }
        bad.push(is_bad);
    }
    let mut report = RestoreReport::default();
    for (block, is_bad) in (0..blocks).zip(bad) {
        if is_bad {
            report.skipped += 1;
            continue;
        }
        io.erase(start(block)).map_err(|e| failed(name, "erase", (first + block, None), e))?;
        report.blocks += 1;
        if is_marked(dump, block) {
            report.skipped += 1;
            continue;
        }
        report.pages += put_block(dump, io, name, (block, first + block))?;
    }
    Ok(report)
}

#[cfg(target_os = "linux")]
fn require_fitting(dump: &RawDump, io: &impl MtdIo, name: &str) -> Result<(), MtdError> {
    let (facts, raw) = (io.facts(), dump.raw());
    if (facts.raw.page_bytes, facts.raw.pages_per_block) != (raw.page_bytes, raw.pages_per_block) {
        let why = format!("the dump has the geometry {raw}, and {name} has {}", facts.raw);
        return Err(MtdError::Mismatch(why));
    }
    let (used, there) = (dump.layout().free_bytes(), facts.layout.free_bytes());
    // Indexes lay out their tags by the size of the spare area.
    if used != there {
        let why =
            format!("pages of the dump have {used} free out-of-band bytes, and those of {name} have {there}");
        return Err(MtdError::Mismatch(why));
    }
    Ok(())
}

fn is_marked(dump: &mut RawDump, block: u32) -> bool {
    dump.is_bad(Pbn(block)).unwrap_or(true)
}

fn holds_something(dump: &mut RawDump, pbn: Pbn) -> Result<bool, MtdError> {
    if is_marked(dump, pbn.0) {
        return Ok(false);
    }
    for page in 0..dump.geometry().pages_per_block {
        let ppn = dump.geometry().page_at(pbn, page);
        if dump.page(ppn)?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Programs the pages of a block (in the dump, on the device) and reads them back.
#[cfg(target_os = "linux")]
fn put_block(
    dump: &mut RawDump,
    io: &mut impl MtdIo,
    name: &str,
    (from, to): (u32, u32),
) -> Result<u64, MtdError> {
    let raw = io.facts().raw;
    let mut data_again = vec![0; raw.page_bytes as usize];
    let mut free_again = vec![0; dump.layout().free_bytes() as usize];
    let mut pages = 0;
    for page in 0..raw.pages_per_block {
        let ppn = dump.geometry().page_at(Pbn(from), page);
        let Some((data, free)) = dump.page(ppn)? else { continue };
        let at = u64::from(to) * raw.block_bytes() + u64::from(page) * u64::from(raw.page_bytes);
        let place = (to, Some(page));
        io.write(at, OobMode::Auto, (data, free)).map_err(|e| failed(name, "program", place, e))?;
        match io.read(at, OobMode::Auto, (&mut data_again, &mut free_again)).1 {
            Ok(()) | Err(Errno::UCLEAN) => {}
            Err(errno) => return Err(failed(name, "read back", place, errno)),
        }
        if data != data_again || free != free_again {
            let why = format!("block {to} page {page} reads back other than it was programmed");
            return Err(MtdError::unsupported(name, why));
        }
        pages += 1;
    }
    Ok(pages)
}

#[cfg(all(test, target_os = "linux"))]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::{Mtd, Unchanged, model::Model, range};
    use nandex::Shared;
    use nandex::ordered::{OrderedIndex, RecordFormat};
    use nandex_stacks::options::Settings;
    use nandex_stacks::registry::{self, IndexEntry};
    use std::fs;
    use std::path::{Path, PathBuf};

    const SHAPE: &str = "2048+64x16";

    fn mu() -> (&'static IndexEntry, Settings) {
        (registry::index("mu").unwrap(), Settings::new(RecordFormat::new(8, 8)))
    }

    fn assert_whole(index: &mut dyn OrderedIndex) {
        let mut value = [0; 8];
        for key in 0..800u64 {
            assert!(index.get(&key.to_be_bytes(), &mut value).unwrap() && value == key.to_le_bytes());
        }
        assert!(index.check().unwrap().is_sound());
    }

    /// A dump of a device with 800 records, bad blocks and flipped bits.
    fn dumped(folder: &Path) -> (PathBuf, DumpReport) {
        let (entry, settings) = mu();
        let mut model = Model::new(SHAPE, "2+38", 64);
        model.bad = [3, 9].into();
        let chip = Shared::new(Mtd::with_io(model, "mtd0").unwrap());
        let mut index = (entry.format)(Box::new(chip.clone()), &settings).unwrap();
        for key in 0..800u64 {
            index.insert(&key.to_be_bytes(), &key.to_le_bytes()).unwrap();
        }
        drop(index);
        let mut device = chip.lock();
        device.io().flips = [(0, 1), (1, 4), (63 * 16, 9)].into();
        let path = folder.join("d.bin");
        let mut file = fs::File::create(&path).unwrap();
        let report = dump(device.io(), "mtd0", (0, 64), &mut file).unwrap();
        (path, report)
    }

    #[test]
    fn a_dump_is_opened_looked_at_changed_and_put_back() {
        let folder = tempfile::tempdir().unwrap();
        let (path, report) = dumped(folder.path());
        let expected = DumpReport { blocks: 64, bad_blocks: 2, corrected_pages: 2, uncorrectable_pages: 1 };
        assert_eq!(report, expected);
        let (entry, settings) = mu();
        let shape = || (SHAPE.parse().unwrap(), "2+38".parse().unwrap());
        let (raw, layout) = shape();
        let chip = RawDump::open(&path, raw, layout).unwrap();
        assert_whole(&mut *(entry.mount)(Box::new(Unchanged::new(chip)), &settings).unwrap());
        let (raw, layout) = shape();
        let copy = RawDump::edit(&path, raw, layout).unwrap();
        let mut index = (entry.mount)(Box::new(copy), &settings).unwrap();
        index.insert(&9999u64.to_be_bytes(), &[5; 8]).unwrap();
        index.close().unwrap();
        drop(index);
        // Onto a larger device with another code, whose free bytes are scattered, from block 8 on.
        let mut model = Model::new("2048+128x16", "4+20,40+18", 80);
        model.bad = [11, 79].into();
        let chip = Shared::new(Mtd::with_io(model, "mtd1").unwrap());
        let (raw, layout) = shape();
        let mut copy = RawDump::open(&path, raw, layout).unwrap();
        let report = restore(&mut copy, chip.lock().io(), "mtd1", 8).unwrap();
        assert_eq!((report.blocks, report.skipped), (63, 2));
        let part = range(chip, "mtd1", (8, 64)).unwrap();
        let mut index = (entry.mount)(Box::new(part), &settings).unwrap();
        assert_whole(&mut *index);
        assert!(index.get(&9999u64.to_be_bytes(), &mut [0; 8]).unwrap());
    }

    #[test]
    fn a_dump_that_does_not_fit_is_refused_before_anything_is_erased() {
        let folder = tempfile::tempdir().unwrap();
        let (path, _) = dumped(folder.path());
        let open = || RawDump::open(&path, SHAPE.parse().unwrap(), "2+38".parse().unwrap()).unwrap();
        for (raw, free, blocks, word) in [
            ("2048+64x32", "2+38", 64, "has the geometry"),
            ("2048+64x16", "2+34", 64, "have 34"),
            ("2048+64x16", "2+39", 64, "have 39"),
            ("2048+64x16", "2+38", 63, "were asked for"),
        ] {
            let mut model = Model::new(raw, free, blocks);
            let refused = restore(&mut open(), &mut model, "mtd1", 0).unwrap_err().to_string();
            assert!(refused.contains(word), "{refused}");
            assert_eq!(model.asked, [0; 3]);
        }
        let mut model = Model::new(SHAPE, "2+38", 64);
        model.bad = [0, 1, 2].into();
        let refused = restore(&mut open(), &mut model, "mtd1", 0).unwrap_err().to_string();
        assert!(refused.starts_with("mtd1: block ") && refused.contains("is bad"), "{refused}");
        let mut weak = Model::new(SHAPE, "2+38", 64);
        weak.weak_blocks = [2].into();
        let failed = restore(&mut open(), &mut weak, "mtd1", 0).unwrap_err().to_string();
        assert!(failed.starts_with("mtd1: cannot erase block 2: "), "{failed}");
        let mut gone = Model::new(SHAPE, "2+38", 64);
        gone.left = Some(5);
        let failed = dump(&mut gone, "mtd1", (0, 4), &mut Vec::new()).unwrap_err().to_string();
        assert!(failed.contains("cannot read block 0 page 4"), "{failed}");
    }
}
