//! Codes that calls answer: 0 is success, `NANDEX_NOT_FOUND` an answer too, what is below a failure.

/// Done.
pub const NANDEX_OK: i32 = 0;
/// The key, or a record in this direction, is not there; nothing is wrong.
pub const NANDEX_NOT_FOUND: i32 = -1;
/// A pointer that must not be null is.
pub const NANDEX_ERR_NULL: i32 = -2;
/// Not a handle of this library, or one that was freed.
pub const NANDEX_ERR_HANDLE: i32 = -3;
/// The handle is in use: by a call that has not returned (one made within a callback), by open cursors, or by
/// the process that this one was forked from.
pub const NANDEX_ERR_BUSY: i32 = -4;
/// The index was neither formatted nor mounted, or it was closed.
pub const NANDEX_ERR_NOT_OPEN: i32 = -5;
/// A `struct_bytes` names no size that this library knows: set it to `sizeof` of the struct.
pub const NANDEX_ERR_STRUCT: i32 = -6;
/// A field of the configuration or of the chip is out of its bounds; the message names it.
pub const NANDEX_ERR_CONFIG: i32 = -7;
/// A key or value has not the length that the index was configured for.
pub const NANDEX_ERR_LENGTH: i32 = -8;
/// The index cannot do this, or not on this chip or with these settings; the message says what it needs.
pub const NANDEX_ERR_UNSUPPORTED: i32 = -9;
/// The chip is blank: there is nothing to mount, and a format loses nothing.
pub const NANDEX_ERR_BLANK: i32 = -10;
/// No room is left; the operation was not done and nothing was lost.
pub const NANDEX_ERR_FULL: i32 = -11;
/// Too many blocks have failed: the chip is read-only now. The operation was not done and nothing was lost.
pub const NANDEX_ERR_WORN_OUT: i32 = -12;
/// The contents of the chip contradict each other, or cannot be read.
pub const NANDEX_ERR_CORRUPTED: i32 = -13;
/// The chip, or the callbacks, refused or failed.
pub const NANDEX_ERR_CHIP: i32 = -14;
/// An earlier operation failed half-way: mount again to continue.
pub const NANDEX_ERR_INTERRUPTED: i32 = -15;
/// The power was cut and the index was configured to promise nothing after that.
pub const NANDEX_ERR_NOT_CLEANLY_CLOSED: i32 = -16;
/// The index takes ascending keys only.
pub const NANDEX_ERR_NOT_ASCENDING: i32 = -17;
/// `nandex_insert` of a key that is there.
pub const NANDEX_ERR_EXISTS: i32 = -18;
/// The batch takes no more; the operation was not done, and what the batch has can be committed.
pub const NANDEX_ERR_BATCH_FULL: i32 = -19;
/// A batch is open and must not be, or none is.
pub const NANDEX_ERR_BATCH: i32 = -20;
/// The memory handed over is too small, or in use already.
pub const NANDEX_ERR_MEMORY: i32 = -21;
/// A fault of the library was caught: the handle answers nothing else any more, free it.
pub const NANDEX_ERR_PANIC: i32 = -22;
/// A check found broken invariants; the message has the first.
pub const NANDEX_ERR_UNSOUND: i32 = -23;
/// Another index is on the chip, nothing that the library knows, or what a format left that was cut.
pub const NANDEX_ERR_OTHER_KIND: i32 = -24;
/// The records on the chip have keys or values of other sizes.
pub const NANDEX_ERR_OTHER_RECORD: i32 = -25;
/// The index was formatted on a chip of another shape.
pub const NANDEX_ERR_OTHER_CHIP: i32 = -26;
/// The index was formatted with other settings.
pub const NANDEX_ERR_OTHER_SETTINGS: i32 = -27;
/// The index is in a format that came later than this library.
pub const NANDEX_ERR_NEWER: i32 = -28;
/// `nandex_format` of a chip that is not blank. It was not touched.
pub const NANDEX_ERR_NOT_BLANK: i32 = -29;

/// A flag of `nandex_format`: whatever is on the chip is erased.
pub const NANDEX_OVERWRITE: u32 = 1;
