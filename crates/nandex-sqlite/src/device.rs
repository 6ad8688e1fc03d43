//! Devices by name: a simulated chip, a chip in an image (a file or a block device), or one behind an MTD
//! device.
//!
//! `sim:PART` is a new chip in memory, lost with the process. Any other name is a path. A new file, and a
//! file or block device that begins with zeros, becomes a chip of erased blocks. Any other file must be an
//! image made so, or is refused. An MTD device is formatted if all its blocks are erased.
//!
//! ```text
//! image   a label of one stored page | page 0 of the chip | page 1 | ..      a stored page: data | spare area | mark
//! label   magic 8 | page bytes 4 | pages of a block 4 | blocks 4 | crc 4     (little-endian, the rest zeros)
//! ```
//!
//! Programs go through the page cache. A commit waits for the medium (fdatasync) before its last page and
//! after it. Between two such barriers the system may write in any order; the page-mapping FTL explains why
//! that suffices. Single writes of a large commit are gathered into groups. A device opened without `sync`
//! has no barriers: committed data survives the end of the process, but not a crash of the system.

mod counted;
mod gathering;
mod image;
mod look;
#[cfg(target_os = "linux")]
mod mtd;

use crate::settings::VolumeConfig;
use crate::volume::Volume;
use counted::{Counted, Counts};
pub use counted::{MountProgress, OnProgress};
use gathering::Gathering;
use image::ImageFile;
pub use look::chip_of_image;
use nandex::ftl::page_map::{FtlConfig, PageMapFtl};
use nandex::nand::sim::SimChip;
use nandex::nand::{Differs, catalogue};
use nandex::store::slice::{Slice, divide};
use nandex::store::store_nand::StoreNand;
use nandex::{Cause, Geometry, Lpn, Nand, PageStore, Shared, StoreError};
use nandex_os::{Access, FileOptions, FilePageStore, Lock};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

const MAGIC: &[u8; 8] = b"NDXIMG1\n";

/// Bytes that a file which is to become an image must have zeros in.
const HEAD_BYTES: u64 = 4096;

/// Direct I/O and devices address whole sectors.
const SECTOR: usize = 512;

/// Most pages of a group, as configured in the page-mapping FTL.
const ATOMIC_PAGES: u32 = 256;

/// A device to be opened, and the chip to make if there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// `sim:PART` with a part's name from the catalogue, or a path.
    pub name: String,
    /// Bytes that a new image holds; of a simulated chip its part decides.
    pub bytes: u64,
    /// Bytes of the data area of a page of a new image.
    pub page_bytes: u32,
    /// Pages of a block of a new image.
    pub block_pages: u32,
    /// Whether an image may be made.
    pub create: bool,
    /// Whether a commit is on the medium when it returns.
    pub sync: bool,
    /// Numbers that an existing chip must have.
    pub stated: Stated,
}

/// Numbers stated for a chip. An existing chip with other numbers is refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stated {
    /// Bytes that an image holds.
    pub bytes: Option<u64>,
    /// Bytes of the data area of a page.
    pub page_bytes: Option<u32>,
    /// Pages of a block.
    pub block_pages: Option<u32>,
}

impl Stated {
    /// Refuses an existing chip whose numbers differ from those stated. `file_bytes` is the size of the file,
    /// if the chip is in one.
    fn require(&self, name: &str, geometry: Geometry, file_bytes: Option<u64>) -> Result<(), StoreError> {
        let is = |what: &str, stated: Option<u64>, there: u64| match stated.filter(|stated| *stated != there)
        {
            Some(stated) => {
                let why = format!("{name}: {what}={stated} was given, and what is there has {there}");
                Err(StoreError::Unsupported(why.into()))
            }
            None => Ok(()),
        };
        is("page_bytes", self.page_bytes.map(u64::from), geometry.page_bytes.into())?;
        is("block_pages", self.block_pages.map(u64::from), geometry.pages_per_block.into())?;
        // A new image has whole blocks.
        let block_bytes = u64::from(geometry.page_bytes) * u64::from(geometry.pages_per_block);
        let bytes = self.bytes.filter(|bytes| file_bytes != Some(*bytes));
        let bytes = bytes.map(|bytes| bytes - bytes % block_bytes.max(1));
        is("size", bytes, block_bytes * u64::from(geometry.blocks))
    }
}

impl Device {
    /// A device with the usual choices: a new image would have 64 MiB in pages of 2 KiB and blocks of 64.
    pub fn new(name: impl Into<String>) -> Device {
        let name = name.into();
        let stated = Stated::default();
        Device { name, bytes: 64 << 20, page_bytes: 2048, block_pages: 64, create: true, sync: true, stated }
    }

    /// Whether it is gone with the process.
    pub(crate) fn is_simulated(&self) -> bool {
        self.name.starts_with("sim:")
    }

    /// Refuses stated numbers that differ from those of an open volume's chip.
    pub(crate) fn require(&self, volume: &Volume) -> Result<(), StoreError> {
        volume.chip_geometry().map_or(Ok(()), |geometry| self.stated.require(&self.name, geometry, None))
    }

    /// The volume on the device; `open_telling` says how far its mount is.
    ///
    /// # Errors
    ///
    /// Those of [`Device::open_telling`].
    pub fn open(&self, settings: VolumeConfig) -> Result<Volume, StoreError> {
        self.open_telling(settings, &(Arc::new(|_| {}) as OnProgress))
    }

    /// The volume on the device. The mount of a large chip takes a while after a power cut: `told` hears now
    /// and then how many pages it has read, and once more when it is done.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unsupported`] for a part that is not in the catalogue or a size that no FTL fits;
    /// [`StoreError::NotFormatted`] for a file that is no image; [`StoreError::InUse`] where somebody else
    /// has it open; [`StoreError::Device`] where the system refuses; those of a mount.
    pub fn open_telling(&self, settings: VolumeConfig, told: &OnProgress) -> Result<Volume, StoreError> {
        let ftl = FtlConfig { atomic_pages: ATOMIC_PAGES, ..FtlConfig::default() };
        if let Some(part) = self.name.strip_prefix("sim:") {
            let unknown = || StoreError::Unsupported(format!("no part '{part}' in the catalogue").into());
            let part = catalogue::find(part).ok_or_else(unknown)?;
            let chip =
                SimChip::new(part).map_err(|error| StoreError::Unsupported(error.to_string().into()))?;
            self.stated.require(&self.name, chip.geometry(), None)?;
            let chip = Shared::new(chip);
            let volume = Volume::open(PageMapFtl::format(chip.clone(), &ftl)?, settings)?;
            let volume = volume.on_chip(chip.geometry());
            return Ok(volume.watching(move || chip.lock().counters().into()));
        }
        #[cfg(target_os = "linux")]
        if mtd::is_one(Path::new(&self.name)) {
            return mtd::open(self, ftl, settings, told);
        }
        let (chip, unlabelled) = self.image(told)?;
        let (counts, geometry) = (chip.counts(), chip.geometry());
        let store = match unlabelled {
            // The label comes last: what is unfinished has none, and may be begun again.
            Some((mut head, label)) => {
                let made = PageMapFtl::format(chip, &ftl)?;
                head.write(Lpn(0), Cause::Host, &label)?;
                head.sync()?;
                made
            }
            None => PageMapFtl::mount(chip, &ftl)?,
        };
        let volume = match self.sync {
            true => Volume::open(Gathering::new(store), settings)?,
            false => Volume::open(store, settings)?,
        };
        finish(volume, geometry, counts)
    }

    /// The chip in the image; for a new one the place of its label and the label, too.
    fn image(&self, told: &OnProgress) -> Result<(ImageChip, Option<Unlabelled>), StoreError> {
        let path = Path::new(&self.name);
        if self.create && !path.exists() {
            // Nothing is made of numbers that no chip has.
            self.label(false)?;
        }
        let lock = if self.create { Lock::take_or_make(path) } else { Lock::take(path, Access::Change) }?;
        let metadata = std::fs::metadata(path).map_err(|error| failed(path, "examine", &error))?;
        let is_there = !metadata.is_file() || metadata.len() > 0;
        let old = if is_there { read_label(path)? } else { Some(Head::Zeros) };
        let old = match old {
            Some(Head::Label(label)) => Some(label),
            Some(Head::Zeros) if self.create => None,
            Some(Head::Plain) => {
                return Err(StoreError::other(Differs::Kind, "the file is a database without a chip"));
            }
            _ => return Err(StoreError::other(Differs::Kind, "the file is no image of a chip")),
        };
        let mut label = match old {
            Some(label) => label,
            None => self.label(is_there)?,
        };
        let options = FileOptions { direct: false, ..FileOptions::new(label.stored_bytes()) };
        let store = match is_there {
            true => FilePageStore::open_under(lock, options)?,
            false => FilePageStore::create_under(lock, label.pages()?, options)?,
        };
        if old.is_none() && is_there {
            label.blocks = (store.page_count() - 1) / label.block_pages;
        }
        let file_bytes = (old.is_none() && is_there).then_some(metadata.len());
        self.stated.require(&self.name, label.geometry(), file_bytes)?;
        let stored = label.stored_bytes();
        let (head, chip) = label.chip_in(store, &self.name, self.sync)?;
        let chip = Counted::new(chip, told);
        Ok((chip, old.is_none().then(|| (head, label.encode(stored)))))
    }

    /// Label for a new image, if a chip of this shape is valid. An existing file decides how many blocks it
    /// has.
    fn label(&self, is_there: bool) -> Result<Label, StoreError> {
        let (page_bytes, block_pages) = (self.page_bytes, self.block_pages);
        let block_bytes = (u64::from(page_bytes) * u64::from(block_pages)).max(1);
        let blocks = if is_there { 64 } else { self.bytes / block_bytes };
        let blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
        let label = Label { page_bytes, block_pages, blocks };
        label.geometry().validate().map_err(|error| StoreError::Unsupported(error.to_string().into()))?;
        Ok(label)
    }
}

/// A chip in a file. A power cut of the system may tear its pages, and their marks show it.
type ChipInFile = StoreNand<Slice<ImageFile>>;

/// A chip in a file whose operations are counted.
type ImageChip = Counted<ChipInFile>;

/// Finishes a mount: gives the volume the shape of its chip and its counters.
fn finish(volume: Volume, geometry: Geometry, counts: Arc<Counts>) -> Result<Volume, StoreError> {
    counts.mount_is_done();
    let volume = volume.on_chip(geometry).mounted_in(counts.get().page_reads);
    Ok(volume.watching(move || counts.get()))
}

/// A slice of the file where the label of a new image goes, and the label.
type Unlabelled = (Slice<ImageFile>, Vec<u8>);

/// The kind of file by its first bytes.
enum Head {
    Label(Label),
    Zeros,
    /// An ordinary SQLite database in a file.
    Plain,
}

/// Label of an image: the shape of its chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Label {
    page_bytes: u32,
    block_pages: u32,
    blocks: u32,
}

impl Label {
    /// Bytes that a page takes with spare area and mark: whole sectors.
    fn stored_bytes(self) -> usize {
        (self.page_bytes as usize + 1).next_multiple_of(SECTOR)
    }

    /// The shape of the chip.
    fn geometry(self) -> Geometry {
        let spare_bytes = (self.stored_bytes() - self.page_bytes as usize - 1) as u32;
        Geometry::new(self.page_bytes, spare_bytes, self.block_pages, self.blocks)
    }

    /// Divides a file into the page of the label and the chip behind it.
    fn chip_in(
        self,
        file: FilePageStore,
        name: &str,
        syncs: bool,
    ) -> Result<(Slice<ImageFile>, ChipInFile), StoreError> {
        let (there, all) = (file.page_count(), self.pages()?);
        if there < all {
            let why = format!(
                "{name} is shorter than its label says: it has {there} pages of {} bytes, of {all}",
                self.stored_bytes()
            );
            return Err(StoreError::Unsupported(why.into()));
        }
        let mut slices = divide(ImageFile::new(file, syncs), &[1, all - 1])?.into_iter();
        let (Some(head), Some(body)) = (slices.next(), slices.next()) else {
            return Err(StoreError::Unsupported("an image of no pages".into()));
        };
        Ok((head, self.chip(body)?))
    }

    /// The chip in pages that have room for data, spare area and mark.
    fn chip<S: PageStore>(self, pages: S) -> Result<StoreNand<S>, StoreError> {
        Ok(StoreNand::new(pages, self.block_pages, self.geometry().spare_bytes)?.waiting())
    }

    /// Pages of the image file: those of the chip, and one for the label.
    fn pages(self) -> Result<u32, StoreError> {
        let pages = u64::from(self.blocks) * u64::from(self.block_pages) + 1;
        u32::try_from(pages)
            .map_err(|_| StoreError::Unsupported(format!("{pages} pages are too many for one chip").into()))
    }

    fn encode(self, bytes: usize) -> Vec<u8> {
        let mut page = Vec::from(MAGIC.as_slice());
        let numbers = [self.page_bytes, self.block_pages, self.blocks];
        page.extend(numbers.into_iter().flat_map(|number| number.to_le_bytes()));
        page.extend(crc32fast::hash(&page).to_le_bytes());
        page.resize(bytes, 0);
        page
    }

    fn decode(bytes: &[u8]) -> Option<Label> {
        let number = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let is_good = bytes.get(..8)? == MAGIC && crc32fast::hash(bytes.get(..20)?) == number(20)?;
        is_good.then_some(Label { page_bytes: number(8)?, block_pages: number(12)?, blocks: number(16)? })
    }
}

fn failed(path: &Path, doing: &str, error: &std::io::Error) -> StoreError {
    StoreError::Device(format!("{}: cannot {doing}: {error}", path.display()))
}

/// The kind of file by its first bytes; `None` for anything else.
fn read_label(path: &Path) -> Result<Option<Head>, StoreError> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(HEAD_BYTES).read_to_end(&mut bytes));
    read.map_err(|error| failed(path, "read", &error))?;
    let zeros = !bytes.is_empty() && bytes.iter().all(|&byte| byte == 0);
    let plain = bytes.starts_with(b"SQLite format 3\0");
    let other = if plain { Some(Head::Plain) } else { zeros.then_some(Head::Zeros) };
    Ok(Label::decode(&bytes).map(Head::Label).or(other))
}

#[cfg(test)]
#[cfg(feature = "bundled")]
mod power;
#[cfg(test)]
#[cfg(feature = "bundled")]
mod reorder;
#[cfg(test)]
mod tests {
    use super::*;

    fn small(path: &Path) -> Device {
        Device { bytes: 4 << 20, ..Device::new(path.to_string_lossy()) }
    }

    #[test]
    fn an_image_is_found_again_and_has_one_user() {
        let folder = tempfile::tempdir().unwrap();
        let device = small(&folder.path().join("chip"));
        let settings = VolumeConfig::default();
        assert!(Device { create: false, ..device.clone() }.open(settings).is_err());
        let volume = device.open(settings).unwrap();
        assert_eq!((volume.page_bytes(), volume.group_pages_max()), (2048, 128));
        let refused = device.open(settings).unwrap_err();
        assert!(matches!(&refused, StoreError::InUse(why) if why.contains("chip is in use")), "{refused}");
        drop(volume);
        // Its label decides, whatever a new image would have.
        let other = Device { page_bytes: 4096, create: false, ..device };
        let heard = Arc::new(std::sync::Mutex::new(None));
        let told: OnProgress = {
            let heard = Arc::clone(&heard);
            Arc::new(move |progress| *heard.lock().unwrap() = Some(progress))
        };
        let volume = other.open_telling(settings, &told).unwrap();
        assert_eq!(volume.page_bytes(), 2048);
        let done = heard.lock().unwrap().take().unwrap();
        assert!(done.is_done && done.pages_read > 0 && done.chip_pages == 2048, "{done:?}");
        assert_eq!(volume.stats().mount_page_reads, Some(done.pages_read));
    }

    #[test]
    fn a_file_that_is_no_image_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("letter");
        std::fs::write(&path, b"Dear Sir").unwrap();
        let refused = small(&path).open(VolumeConfig::default()).unwrap_err();
        assert!(matches!(refused, StoreError::NotFormatted(_)), "{refused}");
        assert_eq!(std::fs::read(&path).unwrap(), b"Dear Sir");
    }

    #[test]
    fn what_begins_with_zeros_becomes_a_chip_of_its_size() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("zeros");
        File::create(&path).unwrap().set_len(6 << 20).unwrap();
        let settings = VolumeConfig::default();
        assert!(Device { create: false, ..small(&path) }.open(settings).is_err());
        drop(small(&path).open(settings).unwrap());
        let again = Device { create: false, ..small(&path) }.open(settings).unwrap();
        assert!((1500..2400).contains(&again.free_pages()), "{} free pages", again.free_pages());
        // Nothing is made of numbers that no chip has.
        let none = folder.path().join("none");
        for device in
            [Device { block_pages: 0, ..small(&none) }, Device { page_bytes: u32::MAX, ..small(&none) }]
        {
            assert!(device.open(settings).is_err());
            assert!(!none.exists());
        }
    }

    #[test]
    fn a_part_is_of_the_catalogue() {
        assert!(Device::new("sim:abacus").open(VolumeConfig::default()).is_err());
        let volume = Device::new("sim:mlc-64m").open(VolumeConfig::default());
        assert!(volume.is_ok_and(|volume| volume.stats().chip.is_some()));
    }
}
