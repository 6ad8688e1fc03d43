//! A dump of a chip, as `nanddump -o -n --bb=dumpbad` writes it, as a chip.
//!
//! ```text
//! page 0 of block 0 | its out-of-band area | page 1 | its out-of-band area | .. | page 0 of block 1 | ..
//! ```
//!
//! A dump tells neither its geometry nor where the free bytes lie; whoever opens it says both. Nothing is
//! corrected: a dump that was taken without `-n`, or by [`crate::transfer::dump`], has been already, and the
//! engine's checksums find what was not. A block is bad whose mark, in its first or second page, has lost
//! more than one bit.
//!
//! A dump that is opened to be written to keeps the ECC bytes of pages that it programs erased, since it does
//! not know the part's code. [`crate::transfer::restore`] puts such a dump onto a device, whose driver then
//! computes them.

use crate::error::{Events, Fault, MtdError};
use crate::geometry::RawGeometry;
use crate::layout::{Packing, SpareLayout};
use nandex::nand::{NandError, ReadOutcome};
use nandex::{Cause, Geometry, Nand, Pbn, Ppn};
use nandex_os::{Access, Lock};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

/// Bits of a mark that a good block has at least: one may have flipped.
const MARK_BITS: u32 = 7;

/// A page's data and its free bytes.
pub(crate) type RawPage<'a> = (&'a [u8], &'a [u8]);

/// A dump as a chip.
pub struct RawDump {
    file: File,
    lock: Lock,
    name: String,
    raw: RawGeometry,
    layout: SpareLayout,
    packing: Packing,
    geometry: Geometry,
    writable: bool,
    bad: Vec<bool>,
    /// A page with its out-of-band area.
    page: Vec<u8>,
    free: Vec<u8>,
    events: Events,
}

impl RawDump {
    /// Opens a dump for reading, together with other readers. Programs and erases are refused;
    /// [`crate::Unchanged`] around the dump keeps them in RAM.
    ///
    /// # Errors
    ///
    /// [`MtdError::InUse`] if another process changes the dump. Also a file that cannot be read, a length
    /// that is no whole number of blocks, or a geometry that the engine does not support.
    pub fn open(path: &Path, raw: RawGeometry, layout: SpareLayout) -> Result<RawDump, MtdError> {
        let lock = Lock::take(path, Access::Look)?;
        let file = File::open(path).map_err(|e| MtdError::system(path, "open", &e))?;
        RawDump::of(file, lock, raw, layout)
    }

    /// Opens a dump for writing, alone.
    ///
    /// # Errors
    ///
    /// As for [`RawDump::open`]; [`MtdError::InUse`] also if another process reads the dump.
    pub fn edit(path: &Path, raw: RawGeometry, layout: SpareLayout) -> Result<RawDump, MtdError> {
        let lock = Lock::take(path, Access::Change)?;
        let file = OpenOptions::new().read(true).write(true).open(path);
        let file = file.map_err(|e| MtdError::system(path, "open for writing", &e))?;
        Ok(RawDump { writable: true, ..RawDump::of(file, lock, raw, layout)? })
    }

    fn of(mut file: File, lock: Lock, raw: RawGeometry, layout: SpareLayout) -> Result<RawDump, MtdError> {
        let path = lock.path().to_path_buf();
        let path = path.as_path();
        let name = path.display().to_string();
        raw.check_layout(&layout, &name)?;
        let packing = Packing { page_bytes: raw.page_bytes, free_bytes: layout.free_bytes() };
        let bytes = file.seek(SeekFrom::End(0)).map_err(|e| MtdError::system(path, "measure", &e))?;
        if !bytes.is_multiple_of(raw.raw_block_bytes()) {
            let why = format!(
                "its {bytes} bytes are no whole number of blocks of {raw}, {} bytes each: was it dumped with -o, and is the geometry right?",
                raw.raw_block_bytes()
            );
            return Err(MtdError::unsupported(&name, why));
        }
        let blocks = u32::try_from(bytes / raw.raw_block_bytes()).unwrap_or(u32::MAX);
        let geometry = raw.engine(packing, blocks, &name)?;
        let mut dump = RawDump {
            file,
            lock,
            name,
            packing,
            geometry,
            writable: false,
            bad: Vec::new(),
            page: vec![0; raw.raw_page_bytes() as usize],
            free: vec![0; layout.free_bytes() as usize],
            events: Events::new(),
            raw,
            layout,
        };
        for block in 0..blocks {
            let is_bad = dump.is_marked(block).map_err(|e| MtdError::system(path, "read", &e))?;
            dump.bad.push(is_bad);
        }
        Ok(dump)
    }

    /// Geometry of the pages and blocks.
    pub fn raw(&self) -> RawGeometry {
        self.raw
    }

    /// The free bytes of its out-of-band areas.
    pub fn layout(&self) -> &SpareLayout {
        &self.layout
    }

    /// A handle to its counts and its last fault.
    pub fn events(&self) -> Events {
        self.events.clone()
    }

    /// Data and free bytes of a page, uncorrected; `None` if the whole page is erased.
    pub(crate) fn page(&mut self, ppn: Ppn) -> Result<Option<RawPage<'_>>, MtdError> {
        self.load(ppn).map_err(|e| MtdError::system(Path::new(&self.name), "read", &e))?;
        let (data, oob) = self.page.split_at(self.raw.page_bytes as usize);
        self.layout.gather(oob, &mut self.free);
        let is_erased = data.iter().chain(&self.free).all(|byte| *byte == 0xff);
        Ok((!is_erased).then_some((data, &self.free)))
    }

    fn is_marked(&mut self, block: u32) -> io::Result<bool> {
        let at = self.raw.page_bytes as usize + self.raw.mark_at();
        for page in 0..2 {
            self.load(self.geometry.page_at(Pbn(block), page))?;
            if self.page[at].count_ones() < MARK_BITS {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn seek(&mut self, ppn: Ppn) -> io::Result<()> {
        self.lock.require_owner().map_err(io::Error::other)?;
        self.file.seek(SeekFrom::Start(u64::from(ppn.0) * self.raw.raw_page_bytes())).map(drop)
    }

    fn load(&mut self, ppn: Ppn) -> io::Result<()> {
        self.seek(ppn)?;
        self.file.read_exact(&mut self.page)
    }

    fn store(&mut self, ppn: Ppn) -> io::Result<()> {
        if !self.writable {
            return Err(io::Error::other("the dump is open for reading only"));
        }
        self.seek(ppn)?;
        self.file.write_all(&self.page)
    }

    /// A failure of the file is no fault of a page.
    fn failed(&self, doing: &'static str, (pbn, page): (Pbn, Option<u32>), error: &io::Error) -> NandError {
        let (errno, why) = (error.raw_os_error(), error.to_string());
        let fault = Fault { device: self.name.clone(), doing, block: pbn.0, page, errno, why };
        self.events.note(|counts| counts.last_fault = Some(fault));
        NandError::Device(errno.unwrap_or(0))
    }

    fn usable(&self, ppn: Ppn, data: usize, spare: usize) -> Result<(Pbn, Option<u32>), NandError> {
        if ppn.0 >= self.geometry.pages() {
            return Err(NandError::PageOutOfRange(ppn));
        }
        if data > self.geometry.page_bytes as usize || spare > self.geometry.spare_bytes as usize {
            return Err(NandError::BufferTooLong(ppn));
        }
        let pbn = self.geometry.block_of(ppn);
        let page = self.geometry.page_in_block(ppn);
        if self.bad[pbn.index()] { Err(NandError::BadBlock(pbn)) } else { Ok((pbn, Some(page))) }
    }
}

impl Nand for RawDump {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn read(
        &mut self,
        ppn: Ppn,
        _: Cause,
        data: &mut [u8],
        spare: &mut [u8],
    ) -> Result<ReadOutcome, NandError> {
        let place = self.usable(ppn, data.len(), spare.len())?;
        self.load(ppn).map_err(|e| self.failed("read", place, &e))?;
        let (page, oob) = self.page.split_at(self.raw.page_bytes as usize);
        self.layout.gather(oob, &mut self.free);
        self.packing.unpack((page, &self.free), data, spare);
        self.events.note(|counts| counts.reads += 1);
        Ok(ReadOutcome::CLEAN)
    }

    fn program(&mut self, ppn: Ppn, _: Cause, data: &[u8], spare: &[u8]) -> Result<(), NandError> {
        let place = self.usable(ppn, data.len(), spare.len())?;
        self.load(ppn).map_err(|e| self.failed("read", place, &e))?;
        if self.page.iter().any(|byte| *byte != 0xff) {
            return Err(NandError::NotErased(ppn));
        }
        let (page, oob) = self.page.split_at_mut(self.raw.page_bytes as usize);
        self.packing.pack((data, spare), page, &mut self.free);
        self.layout.scatter(&self.free, oob);
        self.store(ppn).map_err(|e| self.failed("program", place, &e))?;
        self.events.note(|counts| counts.programs += 1);
        Ok(())
    }

    fn erase(&mut self, pbn: Pbn, _: Cause) -> Result<(), NandError> {
        if self.is_bad(pbn)? {
            return Err(NandError::BadBlock(pbn));
        }
        self.page.fill(0xff);
        for page in 0..self.geometry.pages_per_block {
            let ppn = self.geometry.page_at(pbn, page);
            self.store(ppn).map_err(|e| self.failed("erase", (pbn, None), &e))?;
        }
        self.events.note(|counts| counts.erases += 1);
        Ok(())
    }

    fn is_bad(&mut self, pbn: Pbn) -> Result<bool, NandError> {
        self.bad.get(pbn.index()).copied().ok_or(NandError::BlockOutOfRange(pbn))
    }

    fn mark_bad(&mut self, pbn: Pbn) -> Result<(), NandError> {
        if self.is_bad(pbn)? {
            return Ok(());
        }
        let ppn = self.geometry.page_at(pbn, 0);
        let at = self.raw.page_bytes as usize + self.raw.mark_at();
        let marked = self.load(ppn).and_then(|()| {
            self.page[at] = 0;
            self.store(ppn)
        });
        marked.map_err(|e| self.failed("mark as bad", (pbn, None), &e))?;
        self.bad[pbn.index()] = true;
        self.events.note(|counts| counts.marked_bad += 1);
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::PathBuf;

    const CAUSE: Cause = Cause::Host;

    fn dump(folder: &Path, blocks: usize) -> PathBuf {
        let path = folder.join("d.bin");
        fs::write(&path, vec![0xff; blocks * 4 * (512 + 16)]).unwrap();
        path
    }

    fn raw() -> RawGeometry {
        "512+16x4".parse().unwrap()
    }

    fn edit(path: &Path) -> RawDump {
        RawDump::edit(path, raw(), "0+4,8+8".parse().unwrap()).unwrap()
    }

    fn open(path: &Path) -> RawDump {
        RawDump::open(path, raw(), "0+4,8+8".parse().unwrap()).unwrap()
    }

    #[test]
    fn pages_lie_where_nanddump_has_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = dump(folder.path(), 4);
        let mut chip = edit(&path);
        assert_eq!((chip.geometry().spare_bytes, chip.geometry().blocks), (13, 4));
        let spare: Vec<u8> = (0..13).collect();
        chip.program(Ppn(5), CAUSE, &[0x5a; 512], &spare).unwrap();
        assert_eq!(chip.program(Ppn(5), CAUSE, &[0], &[]), Err(NandError::NotErased(Ppn(5))));
        drop(chip);
        let bytes = fs::read(&path).unwrap();
        let page = &bytes[5 * 528..6 * 528];
        assert_eq!(page[..512], [0x5a; 512]);
        assert_eq!(page[512..], [1, 2, 3, 4, 0xff, 0xff, 0xff, 0xff, 5, 6, 7, 8, 9, 10, 11, 12]);
        let (mut data, mut again) = ([0; 512], [0; 13]);
        open(&path).read(Ppn(5), CAUSE, &mut data, &mut again).unwrap();
        assert_eq!((data, again[0], &again[1..]), ([0x5a; 512], 0xff, &spare[1..]));
        let mut chip = edit(&path);
        chip.erase(Pbn(1), CAUSE).unwrap();
        assert!(fs::read(&path).unwrap().iter().all(|byte| *byte == 0xff));
    }

    #[test]
    fn marks_are_found_in_the_first_two_pages_and_survive_one_flipped_bit() {
        let folder = tempfile::tempdir().unwrap();
        let path = dump(folder.path(), 5);
        edit(&path).mark_bad(Pbn(3)).unwrap();
        let mut bytes = fs::read(&path).unwrap();
        let mark = |block: usize, page: usize| (block * 4 + page) * 528 + 512 + 5;
        (bytes[mark(0, 1)], bytes[mark(1, 2)], bytes[mark(2, 0)]) = (0, 0, 0xfe);
        fs::write(&path, bytes).unwrap();
        let mut chip = open(&path);
        assert_eq!([0, 1, 2, 3, 4].map(|b| chip.is_bad(Pbn(b)).unwrap()), [true, false, false, true, false]);
        assert_eq!(chip.read(Ppn(0), CAUSE, &mut [0], &mut []), Err(NandError::BadBlock(Pbn(0))));
    }

    #[test]
    fn a_dump_to_look_at_is_not_changed_and_what_is_no_dump_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = dump(folder.path(), 4);
        let mut chip = open(&path);
        for refused in
            [chip.program(Ppn(0), CAUSE, &[1], &[]), chip.erase(Pbn(0), CAUSE), chip.mark_bad(Pbn(0))]
        {
            assert!(matches!(refused, Err(NandError::Device(_))), "{refused:?}");
        }
        let fault = chip.events().counts().last_fault.unwrap().to_string();
        assert!(fault.contains("block 0") && fault.contains("reading only"), "{fault}");
        let refused = |raw: &str, layout: &str| {
            let opened = RawDump::open(&path, raw.parse().unwrap(), layout.parse().unwrap());
            opened.err().unwrap().to_string()
        };
        assert!(refused("2048+64x64", "2+38").contains("no whole number of blocks of 2048+64x64"));
        assert!(refused("512+16x16", "0+4").contains("at least 2 blocks"));
        assert!(refused("512+16x4", "8+9").contains("beyond the out-of-band area"));
        assert!(refused("512+16x4", "0+8").contains("bad-block mark"));
        let missing = RawDump::open(&folder.path().join("none"), raw(), SpareLayout::after_mark(2));
        assert!(missing.err().unwrap().to_string().contains("cannot open"));
    }
}
