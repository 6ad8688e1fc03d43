//! The calls into the kernel, and the only unsafe code: the structures of `mtd/mtd-abi.h` and the requests
//! that take them.
//!
//! The code relies on these promises of the kernel:
//! - K1: a request reads and writes the structure whose size its number has, and otherwise only the buffers
//!   named there.
//! - K2: MEMREAD writes at most `len` bytes to `usr_data` and `ooblen` to `usr_oob`; MEMWRITE only reads
//!   them.
//!
//! So each structure consists of plain numbers in the kernel's layout, checked by its size, and buffers are
//! borrowed for the whole call.

use crate::error::MtdError;
use crate::geometry::RawGeometry;
use crate::io::{Facts, MtdIo, OobMode, ReadStats};
use crate::layout::SpareLayout;
use crate::sysfs::Sysfs;
use nandex_os::{Access, Lock};
use rustix::io::Errno;
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, ioctl, opcode};
use std::ffi::c_void;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// `mtd_info_user`.
#[repr(C)]
#[derive(Default)]
struct InfoUser {
    kind: u8,
    flags: u32,
    size: u32,
    erase_bytes: u32,
    write_bytes: u32,
    oob_bytes: u32,
    padding: u64,
}

/// `erase_info_user64`.
#[repr(C)]
struct EraseInfo {
    start: u64,
    length: u64,
}

/// `mtd_write_req`.
#[repr(C)]
struct WriteRequest {
    start: u64,
    data_bytes: u64,
    oob_bytes: u64,
    data: u64,
    oob: u64,
    mode: u8,
    padding: [u8; 7],
}

/// `mtd_read_req`, of Linux 6.1 and later.
#[repr(C)]
struct ReadRequest {
    start: u64,
    data_bytes: u64,
    oob_bytes: u64,
    data: u64,
    oob: u64,
    mode: u8,
    padding: [u8; 7],
    uncorrectable: u32,
    corrected: u32,
    corrected_most: u32,
}

/// `mtd_ecc_stats`.
#[repr(C)]
#[derive(Default)]
struct EccStats {
    corrected: u32,
    failed: u32,
    bad_blocks: u32,
    bad_table_blocks: u32,
}

/// `nand_ecclayout_user`, which has the free bytes of up to eight places.
#[repr(C)]
struct EccLayout {
    ecc_bytes: u32,
    ecc_places: [u32; 64],
    free_bytes: u32,
    free: [[u32; 2]; 8],
}

const _: () = assert!(size_of::<InfoUser>() == 32 && size_of::<EraseInfo>() == 16);
const _: () = assert!(size_of::<WriteRequest>() == 48 && size_of::<ReadRequest>() == 64);
const _: () = assert!(size_of::<EccStats>() == 16 && size_of::<EccLayout>() == 328);

const MEMGETINFO: Opcode = opcode::read::<InfoUser>(b'M', 1);
const MEMGETBADBLOCK: Opcode = opcode::write::<i64>(b'M', 11);
const MEMSETBADBLOCK: Opcode = opcode::write::<i64>(b'M', 12);
const ECCGETLAYOUT: Opcode = opcode::read::<EccLayout>(b'M', 17);
const ECCGETSTATS: Opcode = opcode::read::<EccStats>(b'M', 18);
const MEMERASE64: Opcode = opcode::write::<EraseInfo>(b'M', 20);
const MEMWRITE: Opcode = opcode::read_write::<WriteRequest>(b'M', 24);
const MEMREAD: Opcode = opcode::read_write::<ReadRequest>(b'M', 26);

/// `mtd_info_user.type` of NAND with cells of one bit, and of more.
const NAND: [u8; 2] = [4, 8];

/// A request with its structure; the answer is the number that the system call returns.
struct Call<'a, const OP: Opcode, T>(&'a mut T);

// SAFETY: the pointer is to a structure that is borrowed for the call, and each request below pairs a number
// with the structure that it is made of (K1).
unsafe impl<const OP: Opcode, T> Ioctl for Call<'_, OP, T> {
    type Output = IoctlOutput;

    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        OP
    }

    fn as_ptr(&mut self) -> *mut c_void {
        std::ptr::from_mut::<T>(self.0).cast()
    }

    unsafe fn output_from_ptr(out: IoctlOutput, _: *mut c_void) -> rustix::io::Result<IoctlOutput> {
        Ok(out)
    }
}

fn call<const OP: Opcode, T>(file: &File, value: &mut T) -> Result<IoctlOutput, Errno> {
    loop {
        // SAFETY: as at `Call`; whoever names buffers in `value` borrows them beyond this.
        match unsafe { ioctl(file, Call::<OP, T>(value)) } {
            Err(Errno::INTR) => {}
            done => return done,
        }
    }
}

/// A character device of MTD, `/dev/mtdN`.
pub struct Device {
    file: File,
    lock: Lock,
    facts: Facts,
}

impl Device {
    /// Opens a NAND device, for reading together with other readers, or alone for reading and writing.
    ///
    /// # Errors
    ///
    /// [`MtdError::InUse`] if another process has the device open. Also a device that is no NAND, and a
    /// kernel before 6.1, which cannot read a page with its spare area and the result of the ECC.
    pub fn open(path: &Path, writable: bool) -> Result<Device, MtdError> {
        let name = path.display().to_string();
        let system = |doing, errno: Errno| MtdError::system(path, doing, &errno.into());
        let lock = Lock::take(path, if writable { Access::Change } else { Access::Look })?;
        let file = OpenOptions::new().read(true).write(writable).open(path);
        let file = file.map_err(|e| MtdError::system(path, "open", &e))?;
        let kind = file.metadata().map_err(|e| MtdError::system(path, "examine", &e))?.file_type();
        if !kind.is_char_device() {
            return Err(MtdError::unsupported(
                &name,
                "is no MTD device: those are character devices, /dev/mtd0",
            ));
        }
        let mut info = InfoUser::default();
        call::<MEMGETINFO, _>(&file, &mut info).map_err(|e| system("ask as an MTD device", e))?;
        if !NAND.contains(&info.kind) {
            return Err(MtdError::unsupported(&name, format!("is MTD of type {}, and no NAND", info.kind)));
        }
        let sysfs = Sysfs::of(path)?;
        let raw = RawGeometry {
            page_bytes: info.write_bytes,
            oob_bytes: info.oob_bytes,
            pages_per_block: info.erase_bytes.checked_div(info.write_bytes).unwrap_or(0),
        };
        // The structure has 32 bits for the size, and parts have more.
        let blocks = sysfs.number("size")?.checked_div(u64::from(info.erase_bytes)).unwrap_or(0);
        let facts = Facts {
            raw,
            blocks: u32::try_from(blocks).unwrap_or(u32::MAX),
            layout: layout(&file, &sysfs, &name)?,
            ecc_strength: sysfs.number("ecc_strength").unwrap_or(0) as u32,
            name: sysfs.text("name").unwrap_or_default(),
        };
        let mut device = Device { file, lock, facts };
        device.require_reads(&name)?;
        Ok(device)
    }

    /// Refuses a kernel without MEMREAD: `pread` hides both corrected and uncorrectable errors.
    fn require_reads(&mut self, name: &str) -> Result<(), MtdError> {
        let mut page = vec![0; self.facts.raw.page_bytes as usize];
        match self.read(0, OobMode::Auto, (&mut page, &mut [])).1 {
            Err(Errno::NOTTY | Errno::OPNOTSUPP) => {
                let why = "this kernel cannot read pages with their spare areas (MEMREAD): Linux 6.1 or later is needed";
                Err(MtdError::unsupported(name, why))
            }
            _ => Ok(()),
        }
    }
}

/// The free bytes according to the driver. The request has room for eight runs. If these do not add up, or
/// the driver does not answer, the free bytes are assumed to follow the mark.
fn layout(file: &File, sysfs: &Sysfs, name: &str) -> Result<SpareLayout, MtdError> {
    let free_bytes = u32::try_from(sysfs.number("oobavail")?).unwrap_or(u32::MAX);
    let mut layout = EccLayout { ecc_bytes: 0, ecc_places: [0; 64], free_bytes: 0, free: [[0; 2]; 8] };
    if call::<ECCGETLAYOUT, _>(file, &mut layout).is_ok() {
        let runs = layout.free.map(|[offset, length]| (offset, length));
        let told = SpareLayout::from_runs(&runs).map_err(|why| MtdError::unsupported(name, why))?;
        if told.free_bytes() == free_bytes {
            return Ok(told);
        }
    }
    Ok(SpareLayout::after_mark(free_bytes))
}

impl Device {
    /// Refuses the child of the process that opened the device, before the device is asked.
    fn require_owner(&self) -> Result<(), Errno> {
        self.lock.require_owner().map_err(|_| Errno::BUSY)
    }
}

fn address<T>(bytes: &[T]) -> u64 {
    bytes.as_ptr() as u64
}

impl MtdIo for Device {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn read(
        &mut self,
        at: u64,
        mode: OobMode,
        (data, oob): (&mut [u8], &mut [u8]),
    ) -> (ReadStats, Result<(), Errno>) {
        if let Err(errno) = self.require_owner() {
            return (ReadStats::default(), Err(errno));
        }
        let mut request = ReadRequest {
            start: at,
            data_bytes: data.len() as u64,
            oob_bytes: oob.len() as u64,
            // Written through by the kernel, so they are borrowed to be written (K2).
            data: data.as_mut_ptr() as u64,
            oob: oob.as_mut_ptr() as u64,
            mode: mode as u8,
            padding: [0; 7],
            uncorrectable: 0,
            corrected: 0,
            corrected_most: 0,
        };
        let done = call::<MEMREAD, _>(&self.file, &mut request).map(drop);
        let stats = ReadStats { corrected: request.corrected, uncorrectable: request.uncorrectable };
        (stats, done)
    }

    fn write(&mut self, at: u64, mode: OobMode, (data, oob): (&[u8], &[u8])) -> Result<(), Errno> {
        self.require_owner()?;
        let mut request = WriteRequest {
            start: at,
            data_bytes: data.len() as u64,
            oob_bytes: oob.len() as u64,
            data: address(data),
            oob: address(oob),
            mode: mode as u8,
            padding: [0; 7],
        };
        call::<MEMWRITE, _>(&self.file, &mut request).map(drop)
    }

    fn erase(&mut self, at: u64) -> Result<(), Errno> {
        self.require_owner()?;
        let mut erase = EraseInfo { start: at, length: self.facts.raw.block_bytes() };
        call::<MEMERASE64, _>(&self.file, &mut erase).map(drop)
    }

    fn is_bad(&mut self, at: u64) -> Result<bool, Errno> {
        let mut place = at.cast_signed();
        call::<MEMGETBADBLOCK, _>(&self.file, &mut place).map(|answer| answer != 0)
    }

    fn mark_bad(&mut self, at: u64) -> Result<(), Errno> {
        self.require_owner()?;
        let mut place = at.cast_signed();
        call::<MEMSETBADBLOCK, _>(&self.file, &mut place).map(drop)
    }

    fn ecc_totals(&mut self) -> Result<ReadStats, Errno> {
        let mut stats = EccStats::default();
        call::<ECCGETSTATS, _>(&self.file, &mut stats)?;
        Ok(ReadStats { corrected: stats.corrected, uncorrectable: stats.failed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_mtd_device_is_refused_with_its_name() {
        for (path, word) in [("/dev/null", "MTD device"), ("/tmp", "/tmp"), ("/none/mtd0", "cannot open")] {
            let refused = Device::open(Path::new(path), false).err().map(|e| e.to_string());
            assert!(refused.as_ref().is_some_and(|text| text.contains(word)), "{path}: {refused:?}");
        }
    }
}
