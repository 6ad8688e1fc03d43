//! The types that are handed over: the chip, the configuration, figures.
//!
//! Each struct begins with its size as the caller's compiler knows it. Later versions of the library only add
//! fields at the end, so callers compiled against an older header keep working: what they do not have is 0,
//! the default.

use core::ffi::c_void;

/// Version of this interface: the first number changes when old callers no longer work, the last 16 bits when
/// something is added.
pub const NANDEX_ABI_VERSION: u32 = 0x0001_0001;

/// mu-Tree: the whole path in one page, one program for each change. Where a page has fewer than 37 +
/// pages_per_block/8 spare bytes, its data area lends the rest.
pub const NANDEX_INDEX_MU: u32 = 1;
/// Wandering tree: each change programs a page for each level.
pub const NANDEX_INDEX_WANDERING: u32 = 2;
/// VMTree: a table in RAM says where nodes moved; parents are told late.
pub const NANDEX_INDEX_VMTREE: u32 = 3;
/// B+-tree on a page-mapping FTL: 2 bytes of RAM for each page of a chip of at most 65,536 pages, else 4;
/// takes batches.
pub const NANDEX_INDEX_BPLUS: u32 = 4;
/// B+-tree on DFTL: the map is on the chip. Takes batches of as many pages as a block has.
pub const NANDEX_INDEX_BPLUS_DFTL: u32 = 5;
/// SBITS: ascending keys only, appended.
pub const NANDEX_INDEX_SBITS: u32 = 6;
/// plow: a memtable above packed levels, swept round and round.
pub const NANDEX_INDEX_PLOW: u32 = 7;

/// Every change that a call has acknowledged survives a power cut.
pub const NANDEX_DURABLE_EVERY_OPERATION: u32 = 1;
/// Every change acknowledged before the last `nandex_sync` survives a power cut; later changes do in the
/// order they were made, or not.
pub const NANDEX_DURABLE_EVERY_SYNC: u32 = 2;
/// After a power cut the index refuses to mount.
pub const NANDEX_DURABLE_NONE: u32 = 3;

/// A callback of the chip: done.
pub const NANDEX_CHIP_OK: i32 = 0;
/// read: the ECC corrected errors; the data are right. is_bad: the block is bad.
pub const NANDEX_CHIP_CORRECTED: i32 = 1;
/// read: the ECC corrected so many errors that it may soon correct them no longer; the data are right, and
/// the index moves them.
pub const NANDEX_CHIP_WEAK: i32 = 2;
/// is_bad: the block carries a bad-block mark.
pub const NANDEX_CHIP_BAD: i32 = 1;
/// read: more errors than the ECC corrects. No data were read.
pub const NANDEX_CHIP_UNCORRECTABLE: i32 = -1;
/// program, erase: the chip reported a failure; the block will be retired.
pub const NANDEX_CHIP_FAILED: i32 = -2;
/// The chip does not answer (or any other negative number): the operation may or may not have taken place.
/// Mount again later.
pub const NANDEX_CHIP_GONE: i32 = -3;

/// Pages of a block may be programmed in any order.
pub const NANDEX_CHIP_RANDOM_ORDER: u32 = 1;

/// One change of `nandex_apply`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct nandex_change {
    /// The key: as many bytes as a key of the index has.
    pub key: *const u8,
    /// The value: as many bytes as a value of the index has. Null removes the key.
    pub value: *const u8,
}

/// A NAND chip: its shape, and the functions that operate it.
///
/// Every function gets `context`. A page is programmed once between two erases of its block, data and spare
/// area together, pages of a block in ascending order. Buffers may be shorter than the areas: then read gives
/// the first bytes only, and program leaves the rest erased. Byte 0 of the spare area is the bad-block mark
/// and stays 0xFF. A program or an erase must be on the chip, and in the order of the calls, when the
/// function returns, or else when `sync` does.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct nandex_chip {
    /// `sizeof(nandex_chip)`.
    pub struct_bytes: usize,
    /// Handed to each function.
    pub context: *mut c_void,
    /// Bytes of the data area of a page, 64 to 65,536.
    pub page_bytes: u32,
    /// Bytes of the spare area that the caller's driver stores beside them, byte 0 among them.
    pub spare_bytes: u32,
    /// Pages of a block, 2 to 4,096.
    pub pages_per_block: u32,
    /// Blocks, 4 or more.
    pub blocks: u32,
    /// Programs of a page between two erases that the chip allows; 0 for 1.
    pub programs_per_page: u32,
    /// `NANDEX_CHIP_RANDOM_ORDER` or 0.
    pub flags: u32,
    /// Reads a page. An erased page reads as 0xFF.
    pub read: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            page: u32,
            data: *mut u8,
            data_bytes: usize,
            spare: *mut u8,
            spare_bytes: usize,
        ) -> i32,
    >,
    /// Programs a page.
    pub program: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            page: u32,
            data: *const u8,
            data_bytes: usize,
            spare: *const u8,
            spare_bytes: usize,
        ) -> i32,
    >,
    /// Erases a block.
    pub erase: Option<unsafe extern "C" fn(context: *mut c_void, block: u32) -> i32>,
    /// Says whether a block carries a bad-block mark: 0 or `NANDEX_CHIP_BAD`. `NANDEX_CHIP_UNCORRECTABLE`
    /// where the mark cannot be read, which is no mark.
    pub is_bad: Option<unsafe extern "C" fn(context: *mut c_void, block: u32) -> i32>,
    /// Marks a block bad.
    pub mark_bad: Option<unsafe extern "C" fn(context: *mut c_void, block: u32) -> i32>,
    /// Makes all programs and erases before permanent; may be null where they are when the functions return.
    pub sync: Option<unsafe extern "C" fn(context: *mut c_void) -> i32>,
}

/// The configuration of an index. All fields but `ram_bytes` must be the same at every mount.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct nandex_config {
    /// `sizeof(nandex_config)`.
    pub struct_bytes: usize,
    /// One of `NANDEX_INDEX_...`.
    pub index: u32,
    /// One of `NANDEX_DURABLE_...`.
    pub durability: u32,
    /// Bytes of every key, 1 to 255. Keys are in `memcmp` order: store integers big-endian.
    pub key_bytes: u32,
    /// Bytes of every value, 0 to 255.
    pub value_bytes: u32,
    /// Bytes of RAM that the index may take for tables, buffers and caches; 0: no cache, and whatever the
    /// tables need.
    pub ram_bytes: usize,
    /// B+-trees: physical pages beyond the logical ones, in a million of these; 0 for 125,000.
    pub over_provisioning_ppm: u32,
    /// B+-trees: blocks set aside for those that will fail, in a million; 0 for 20,000.
    pub bad_blocks_ppm: u32,
    /// `NANDEX_INDEX_BPLUS`: most pages of a batch, up to 256; 0 for 64.
    pub atomic_pages: u32,
    /// `NANDEX_INDEX_BPLUS_DFTL`: bytes of cached entries of the map; 0 for 1/64 of the map.
    pub mapping_ram_bytes: u32,
}

/// A box in the plane: both corners belong to it. A point has equal corners.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct nandex_box {
    /// The left edge.
    pub low_x: i32,
    /// The lower edge.
    pub low_y: i32,
    /// The right edge, not left of the left one.
    pub high_x: i32,
    /// The upper edge, not below the lower one.
    pub high_y: i32,
}

/// The configuration of a map. All fields must be the same at every mount.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct nandex_map_config {
    /// `sizeof(nandex_map_config)`.
    pub struct_bytes: usize,
    /// Physical pages beyond the logical ones, in a million of these; 0 for 125,000.
    pub over_provisioning_ppm: u32,
    /// Blocks set aside for those that will fail, in a million; 0 for 20,000.
    pub bad_blocks_ppm: u32,
}

/// The statistics of an index.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct nandex_stats {
    /// `sizeof(nandex_stats)`, set by the caller.
    pub struct_bytes: usize,
    /// Bytes of RAM that the index holds: tables, buffers and caches.
    pub ram_bytes: usize,
    /// Levels from leaf to root; of plow, levels on the chip.
    pub height: u32,
    /// 0.
    pub reserved: u32,
    /// Pages that hold live data; 0 where the index does not know.
    pub live_pages: u64,
    /// Victim blocks reclaimed since it was opened.
    pub collections: u64,
    /// Pages read since the handle was made.
    pub page_reads: u64,
    /// Pages programmed since the handle was made.
    pub page_programs: u64,
    /// Blocks erased since the handle was made.
    pub block_erases: u64,
    /// Reads of which the chip said `NANDEX_CHIP_CORRECTED` or `NANDEX_CHIP_WEAK`.
    pub corrected_reads: u64,
}

/// The findings of a check.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct nandex_report {
    /// `sizeof(nandex_report)`, set by the caller.
    pub struct_bytes: usize,
    /// Nodes visited.
    pub nodes: u64,
    /// Records counted.
    pub records: u64,
    /// Broken invariants.
    pub violations: u64,
}

/// The caller's allocator, for firmware that has one.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct nandex_allocator {
    /// `sizeof(nandex_allocator)`.
    pub struct_bytes: usize,
    /// Handed to both functions.
    pub context: *mut c_void,
    /// Gives so many bytes at a multiple of `align` (a power of two, 16 at most here); null when there are
    /// none.
    pub alloc: Option<unsafe extern "C" fn(context: *mut c_void, bytes: usize, align: usize) -> *mut c_void>,
    /// Takes them back; `bytes` and `align` are those of the call that gave them.
    pub free:
        Option<unsafe extern "C" fn(context: *mut c_void, memory: *mut c_void, bytes: usize, align: usize)>,
}

/// How much memory the library has taken.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct nandex_memory {
    /// `sizeof(nandex_memory)`, set by the caller.
    pub struct_bytes: usize,
    /// Bytes in use, without what the allocator itself adds.
    pub used_bytes: usize,
    /// Most bytes that were in use at a time since the memory was handed over.
    pub peak_bytes: usize,
    /// Bytes of the arena that are free; 0 with an allocator of the caller.
    pub free_bytes: usize,
}
