//! littlefs: a file for each key, in directories that are as many as there is room for.

use crate::nor::SECTOR;
use crate::store::{Load, Medium, Opened, Records, Store, Trouble};
use nandex::nand::sim::SimChip;
use nandex::{Cause, Nand, Pbn, Ppn, Shared};
use std::ffi::{CString, c_char, c_int, c_void};
use std::fmt::Write;

/// Files of a directory where there is room: fewer make none faster. A directory is two blocks.
const IN_A_DIRECTORY: u32 = 25;

/// Bytes of each of the caches on NOR: for reads, programs and the open file. On NAND they are a page.
const CACHE: u32 = 256;
const LOOKAHEAD: u32 = 64;
/// Files beyond which nobody waits for a run.
const FILES_MOST: u32 = 20_000;
/// Erases after which metadata moves on.
const CYCLES: i32 = 500;

const NO_ENTRY: c_int = -2;
const NO_SPACE: c_int = -28;

/// What is programmed and erased at a time, and the bytes of the caches.
#[derive(Clone, Copy)]
#[repr(C)]
struct Shape {
    unit: u32,
    block: u32,
    blocks: u32,
    cache: u32,
    lookahead: u32,
    cycles: i32,
}

impl Shape {
    fn of(medium: &Medium) -> Shape {
        let (lookahead, cycles) = (LOOKAHEAD, CYCLES);
        match medium {
            Medium::Nor(part) => {
                let (block, blocks) = (SECTOR as u32, (part.bytes() / SECTOR) as u32);
                Shape { unit: 1, block, blocks, cache: CACHE, lookahead, cycles }
            }
            Medium::Nand(chip) => {
                let of = chip.lock().part().geometry;
                let (unit, block) = (of.page_bytes, of.page_bytes * of.pages_per_block);
                Shape { unit, block, blocks: of.blocks, cache: unit, lookahead, cycles }
            }
        }
    }
}

fn read(medium: &Medium, at: u32, into: &mut [u8]) -> Option<()> {
    match medium {
        Medium::Nor(part) => part.read(at as usize, into).ok(),
        Medium::Nand(chip) => pages(chip, at, into.len(), |chip, ppn, bytes| {
            chip.read(ppn, Cause::Host, &mut into[bytes], &mut []).is_ok()
        }),
    }
}

fn program(medium: &Medium, at: u32, bytes: &[u8]) -> Option<()> {
    match medium {
        Medium::Nor(part) => part.program(at as usize, bytes).ok(),
        Medium::Nand(chip) => pages(chip, at, bytes.len(), |chip, ppn, of| {
            chip.program(ppn, Cause::Host, &bytes[of], &[]).is_ok()
        }),
    }
}

fn erase(medium: &Medium, from: u32, to: u32) -> Option<()> {
    match medium {
        Medium::Nor(part) => part.erase(from as usize, to as usize).ok(),
        Medium::Nand(chip) => {
            let block = Shape::of(medium).block;
            let mut chip = chip.clone();
            (from / block..to / block).try_for_each(|pbn| chip.erase(Pbn(pbn), Cause::Host).ok())
        }
    }
}

/// Goes over the pages of so many bytes, which are whole pages.
fn pages(
    chip: &Shared<SimChip>,
    at: u32,
    count: usize,
    mut each: impl FnMut(&mut Shared<SimChip>, Ppn, std::ops::Range<usize>) -> bool,
) -> Option<()> {
    let mut chip = chip.clone();
    let page = chip.geometry().page_bytes;
    let is_whole = at.is_multiple_of(page) && count.is_multiple_of(page as usize);
    let all = (0..count as u32 / page).all(|i| {
        let from = (i * page) as usize;
        each(&mut chip, Ppn(at / page + i), from..from + page as usize)
    });
    (is_whole && all).then_some(())
}

/// The structures of the C side.
#[repr(C)]
struct Lfs {
    _opaque: [u8; 0],
}

unsafe extern "C" {
    fn peers_lfs_new(part: *mut c_void, shape: Shape) -> *mut Lfs;
    fn peers_lfs_free(files: *mut Lfs);
    fn peers_lfs_format(files: *mut Lfs) -> c_int;
    fn peers_lfs_mount(files: *mut Lfs) -> c_int;
    fn peers_lfs_mkdir(files: *mut Lfs, path: *const c_char) -> c_int;
    fn peers_lfs_put(files: *mut Lfs, path: *const c_char, value: *const u8, count: u32) -> c_int;
    fn peers_lfs_get(files: *mut Lfs, path: *const c_char, value: *mut u8, count: u32) -> c_int;
    fn peers_lfs_ram(files: *const Lfs) -> u32;
}

/// # Safety
///
/// `part` is the one of [`Files`], and `into` has `count` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn peers_flash_read(part: *mut c_void, at: u32, into: *mut u8, count: u32) -> c_int {
    // SAFETY: as the caller promises.
    let (part, into) =
        unsafe { (&*part.cast::<Medium>(), std::slice::from_raw_parts_mut(into, count as usize)) };
    read(part, at, into).map_or(-1, |()| 0)
}

/// # Safety
///
/// `part` is the one of [`Files`], and `bytes` has `count` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn peers_flash_program(part: *mut c_void, at: u32, bytes: *const u8, count: u32) -> c_int {
    // SAFETY: as the caller promises.
    let (part, bytes) =
        unsafe { (&*part.cast::<Medium>(), std::slice::from_raw_parts(bytes, count as usize)) };
    program(part, at, bytes).map_or(-1, |()| 0)
}

/// # Safety
///
/// `part` is the one of [`Files`].
#[unsafe(no_mangle)]
unsafe extern "C" fn peers_flash_erase(part: *mut c_void, from: u32, to: u32) -> c_int {
    // SAFETY: as the caller promises.
    let part = unsafe { &*part.cast::<Medium>() };
    erase(part, from, to).map_or(-1, |()| 0)
}

struct Files {
    lfs: *mut Lfs,
    /// The C side holds its address.
    part: Box<Medium>,
    directories: u32,
}

impl Drop for Files {
    fn drop(&mut self) {
        // SAFETY: made by `peers_lfs_new`, and not used from here on.
        unsafe { peers_lfs_free(self.lfs) }
    }
}

fn done(answer: c_int) -> Result<u32, Trouble> {
    match answer {
        NO_SPACE => Err(Trouble::NoRoom),
        other => u32::try_from(other).map_err(|_| Trouble::Failed(format!("littlefs: error {answer}"))),
    }
}

/// Makes the file system and its directories.
pub fn open(medium: &Medium, load: &Load) -> Opened {
    if load.keys > FILES_MOST {
        return Err(Trouble::NotRun("so many files take hours to make"));
    }
    // A quarter of the blocks stays free for directories that move.
    let most = Shape::of(medium).blocks * 3 / 8;
    let files = Files::new(medium.clone(), load.keys.div_ceil(IN_A_DIRECTORY).min(most))?;
    // SAFETY: the structures are those of `peers_lfs_new`.
    done(unsafe { peers_lfs_format(files.lfs) })?;
    // SAFETY: the same.
    done(unsafe { peers_lfs_mount(files.lfs) })?;
    for directory in 0..files.directories {
        let path = in_c(&format!("/{directory:x}"))?;
        // SAFETY: the same; the text ends with a zero.
        done(unsafe { peers_lfs_mkdir(files.lfs, path.as_ptr()) })?;
    }
    Ok(Box::new(files))
}

fn in_c(text: &str) -> Result<CString, Trouble> {
    CString::new(text).map_err(Trouble::of)
}

impl Files {
    fn new(part: Medium, directories: u32) -> Result<Files, Trouble> {
        let (shape, mut part) = (Shape::of(&part), Box::new(part));
        let place: *mut Medium = &raw mut *part;
        // SAFETY: the part lives as long as the structures do.
        let lfs = unsafe { peers_lfs_new(place.cast(), shape) };
        if lfs.is_null() {
            return Err(Trouble::Failed("no memory".into()));
        }
        Ok(Files { lfs, part, directories })
    }

    /// The file of a key: a directory by a sum of the key's bytes, and a name of six bits a character.
    fn path(&self, key: &[u8]) -> Result<CString, Trouble> {
        const SIGNS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        let sum = key.iter().fold(0u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(*byte)));
        let mut path = String::new();
        let _ = write!(path, "/{:x}/", sum % self.directories);
        let (mut bits, mut count) = (0u32, 0);
        for byte in key.iter().copied().chain([0]) {
            (bits, count) = ((bits << 8) | u32::from(byte), count + 8);
            while count >= 6 {
                count -= 6;
                path.push(char::from(SIGNS[(bits >> count) as usize & 63]));
            }
        }
        in_c(&path)
    }
}

impl Store for Files {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Trouble> {
        let path = self.path(key)?;
        // SAFETY: the structures are those of `peers_lfs_new`; the text ends with a zero, and the value has so
        // many bytes.
        done(unsafe { peers_lfs_put(self.lfs, path.as_ptr(), value.as_ptr(), value.len() as u32) }).map(drop)
    }

    fn get(&mut self, key: &[u8], value: &mut [u8]) -> Result<bool, Trouble> {
        let path = self.path(key)?;
        // SAFETY: as in `put`.
        match unsafe { peers_lfs_get(self.lfs, path.as_ptr(), value.as_mut_ptr(), value.len() as u32) } {
            NO_ENTRY => Ok(false),
            answer => Ok(done(answer)? as usize == value.len()),
        }
    }

    fn range(&mut self, _: &[u8], _: usize) -> Result<Option<Records>, Trouble> {
        Ok(None)
    }

    fn ram_bytes(&self) -> Option<usize> {
        // SAFETY: as in `put`.
        Some(unsafe { peers_lfs_ram(self.lfs) } as usize)
    }

    fn again(self: Box<Self>) -> Opened {
        // Not unmounted: littlefs would write nothing then.
        let files = Files::new((*self.part).clone(), self.directories)?;
        // SAFETY: as in `put`.
        done(unsafe { peers_lfs_mount(files.lfs) })?;
        Ok(Box::new(files))
    }
}
