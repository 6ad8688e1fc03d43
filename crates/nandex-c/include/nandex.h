/* Nandex: ordered indexes for flash memory. The interface for C and C++; docs/c.md explains it.

   Every function that answers int32_t answers a NANDEX_... code: 0 is success, NANDEX_NOT_FOUND no failure. Lengths and sizes are
   bytes. A handle, with its cursors, is used by one thread at a time, whichever. In a build for firmware all calls are made one
   at a time, unless the allocator handed over may be called by several threads. Made from the sources; do not edit. */

#ifndef NANDEX_H
#define NANDEX_H

#include <stddef.h>
#include <stdint.h>

/**
 * Done.
 */
#define NANDEX_OK 0

/**
 * The key, or a record in this direction, is not there; nothing is wrong.
 */
#define NANDEX_NOT_FOUND -1

/**
 * A pointer that must not be null is.
 */
#define NANDEX_ERR_NULL -2

/**
 * Not a handle of this library, or one that was freed.
 */
#define NANDEX_ERR_HANDLE -3

/**
 * The handle is in use: by a call that has not returned (one made within a callback), by open cursors, or by
 * the process that this one was forked from.
 */
#define NANDEX_ERR_BUSY -4

/**
 * The index was neither formatted nor mounted, or it was closed.
 */
#define NANDEX_ERR_NOT_OPEN -5

/**
 * A `struct_bytes` names no size that this library knows: set it to `sizeof` of the struct.
 */
#define NANDEX_ERR_STRUCT -6

/**
 * A field of the configuration or of the chip is out of its bounds; the message names it.
 */
#define NANDEX_ERR_CONFIG -7

/**
 * A key or value has not the length that the index was configured for.
 */
#define NANDEX_ERR_LENGTH -8

/**
 * The index cannot do this, or not on this chip or with these settings; the message says what it needs.
 */
#define NANDEX_ERR_UNSUPPORTED -9

/**
 * The chip is blank: there is nothing to mount, and a format loses nothing.
 */
#define NANDEX_ERR_BLANK -10

/**
 * No room is left; the operation was not done and nothing was lost.
 */
#define NANDEX_ERR_FULL -11

/**
 * Too many blocks have failed: the chip is read-only now. The operation was not done and nothing was lost.
 */
#define NANDEX_ERR_WORN_OUT -12

/**
 * The contents of the chip contradict each other, or cannot be read.
 */
#define NANDEX_ERR_CORRUPTED -13

/**
 * The chip, or the callbacks, refused or failed.
 */
#define NANDEX_ERR_CHIP -14

/**
 * An earlier operation failed half-way: mount again to continue.
 */
#define NANDEX_ERR_INTERRUPTED -15

/**
 * The power was cut and the index was configured to promise nothing after that.
 */
#define NANDEX_ERR_NOT_CLEANLY_CLOSED -16

/**
 * The index takes ascending keys only.
 */
#define NANDEX_ERR_NOT_ASCENDING -17

/**
 * `nandex_insert` of a key that is there.
 */
#define NANDEX_ERR_EXISTS -18

/**
 * The batch takes no more; the operation was not done, and what the batch has can be committed.
 */
#define NANDEX_ERR_BATCH_FULL -19

/**
 * A batch is open and must not be, or none is.
 */
#define NANDEX_ERR_BATCH -20

/**
 * The memory handed over is too small, or in use already.
 */
#define NANDEX_ERR_MEMORY -21

/**
 * A fault of the library was caught: the handle answers nothing else any more, free it.
 */
#define NANDEX_ERR_PANIC -22

/**
 * A check found broken invariants; the message has the first.
 */
#define NANDEX_ERR_UNSOUND -23

/**
 * Another index is on the chip, nothing that the library knows, or what a format left that was cut.
 */
#define NANDEX_ERR_OTHER_KIND -24

/**
 * The records on the chip have keys or values of other sizes.
 */
#define NANDEX_ERR_OTHER_RECORD -25

/**
 * The index was formatted on a chip of another shape.
 */
#define NANDEX_ERR_OTHER_CHIP -26

/**
 * The index was formatted with other settings.
 */
#define NANDEX_ERR_OTHER_SETTINGS -27

/**
 * The index is in a format that came later than this library.
 */
#define NANDEX_ERR_NEWER -28

/**
 * `nandex_format` of a chip that is not blank. It was not touched.
 */
#define NANDEX_ERR_NOT_BLANK -29

/**
 * A flag of `nandex_format`: whatever is on the chip is erased.
 */
#define NANDEX_OVERWRITE 1

/**
 * Version of this interface: the first number changes when old callers no longer work, the last 16 bits when
 * something is added.
 */
#define NANDEX_ABI_VERSION 65537

/**
 * mu-Tree: the whole path in one page, one program for each change. Where a page has fewer than 37 +
 * pages_per_block/8 spare bytes, its data area lends the rest.
 */
#define NANDEX_INDEX_MU 1

/**
 * Wandering tree: each change programs a page for each level.
 */
#define NANDEX_INDEX_WANDERING 2

/**
 * VMTree: a table in RAM says where nodes moved; parents are told late.
 */
#define NANDEX_INDEX_VMTREE 3

/**
 * B+-tree on a page-mapping FTL: 2 bytes of RAM for each page of a chip of at most 65,536 pages, else 4;
 * takes batches.
 */
#define NANDEX_INDEX_BPLUS 4

/**
 * B+-tree on DFTL: the map is on the chip. Takes batches of as many pages as a block has.
 */
#define NANDEX_INDEX_BPLUS_DFTL 5

/**
 * SBITS: ascending keys only, appended.
 */
#define NANDEX_INDEX_SBITS 6

/**
 * plow: a memtable above packed levels, swept round and round.
 */
#define NANDEX_INDEX_PLOW 7

/**
 * Every change that a call has acknowledged survives a power cut.
 */
#define NANDEX_DURABLE_EVERY_OPERATION 1

/**
 * Every change acknowledged before the last `nandex_sync` survives a power cut; later changes do in the
 * order they were made, or not.
 */
#define NANDEX_DURABLE_EVERY_SYNC 2

/**
 * After a power cut the index refuses to mount.
 */
#define NANDEX_DURABLE_NONE 3

/**
 * A callback of the chip: done.
 */
#define NANDEX_CHIP_OK 0

/**
 * read: the ECC corrected errors; the data are right. is_bad: the block is bad.
 */
#define NANDEX_CHIP_CORRECTED 1

/**
 * read: the ECC corrected so many errors that it may soon correct them no longer; the data are right, and
 * the index moves them.
 */
#define NANDEX_CHIP_WEAK 2

/**
 * is_bad: the block carries a bad-block mark.
 */
#define NANDEX_CHIP_BAD 1

/**
 * read: more errors than the ECC corrects. No data were read.
 */
#define NANDEX_CHIP_UNCORRECTABLE -1

/**
 * program, erase: the chip reported a failure; the block will be retired.
 */
#define NANDEX_CHIP_FAILED -2

/**
 * The chip does not answer (or any other negative number): the operation may or may not have taken place.
 * Mount again later.
 */
#define NANDEX_CHIP_GONE -3

/**
 * Pages of a block may be programmed in any order.
 */
#define NANDEX_CHIP_RANDOM_ORDER 1

/**
 * A place in an index. It belongs to the handle it was made from and follows its thread rule.
 */
typedef struct nandex_cursor nandex_cursor;

/**
 * An index on its chip. One thread at a time may use it; which one does not matter.
 */
typedef struct nandex_index nandex_index;

/**
 * An R-tree on its chip, below it the page-mapping FTL: every change that a call has acknowledged survives a
 * power cut. One thread at a time may use it; which one does not matter.
 */
typedef struct nandex_map nandex_map;

/**
 * The caller's allocator, for firmware that has one.
 */
typedef struct nandex_allocator {
  /**
   * `sizeof(nandex_allocator)`.
   */
  size_t struct_bytes;
  /**
   * Handed to both functions.
   */
  void *context;
  /**
   * Gives so many bytes at a multiple of `align` (a power of two, 16 at most here); null when there are
   * none.
   */
  void *(*alloc)(void *context, size_t bytes, size_t align);
  /**
   * Takes them back; `bytes` and `align` are those of the call that gave them.
   */
  void (*free)(void *context, void *memory, size_t bytes, size_t align);
} nandex_allocator;

/**
 * How much memory the library has taken.
 */
typedef struct nandex_memory {
  /**
   * `sizeof(nandex_memory)`, set by the caller.
   */
  size_t struct_bytes;
  /**
   * Bytes in use, without what the allocator itself adds.
   */
  size_t used_bytes;
  /**
   * Most bytes that were in use at a time since the memory was handed over.
   */
  size_t peak_bytes;
  /**
   * Bytes of the arena that are free; 0 with an allocator of the caller.
   */
  size_t free_bytes;
} nandex_memory;

/**
 * Called when the library finds a fault of its own, or no memory is left, in a build without an operating
 * system: `message` says what, and where. It must not return, and not call the library; a reset is the usual
 * end.
 */
typedef void (*nandex_panic_hook)(void *context, const char *message);

/**
 * A NAND chip: its shape, and the functions that operate it.
 *
 * Every function gets `context`. A page is programmed once between two erases of its block, data and spare
 * area together, pages of a block in ascending order. Buffers may be shorter than the areas: then read gives
 * the first bytes only, and program leaves the rest erased. Byte 0 of the spare area is the bad-block mark
 * and stays 0xFF. A program or an erase must be on the chip, and in the order of the calls, when the
 * function returns, or else when `sync` does.
 */
typedef struct nandex_chip {
  /**
   * `sizeof(nandex_chip)`.
   */
  size_t struct_bytes;
  /**
   * Handed to each function.
   */
  void *context;
  /**
   * Bytes of the data area of a page, 64 to 65,536.
   */
  uint32_t page_bytes;
  /**
   * Bytes of the spare area that the caller's driver stores beside them, byte 0 among them.
   */
  uint32_t spare_bytes;
  /**
   * Pages of a block, 2 to 4,096.
   */
  uint32_t pages_per_block;
  /**
   * Blocks, 4 or more.
   */
  uint32_t blocks;
  /**
   * Programs of a page between two erases that the chip allows; 0 for 1.
   */
  uint32_t programs_per_page;
  /**
   * `NANDEX_CHIP_RANDOM_ORDER` or 0.
   */
  uint32_t flags;
  /**
   * Reads a page. An erased page reads as 0xFF.
   */
  int32_t (*read)(void *context,
                  uint32_t page,
                  uint8_t *data,
                  size_t data_bytes,
                  uint8_t *spare,
                  size_t spare_bytes);
  /**
   * Programs a page.
   */
  int32_t (*program)(void *context,
                     uint32_t page,
                     const uint8_t *data,
                     size_t data_bytes,
                     const uint8_t *spare,
                     size_t spare_bytes);
  /**
   * Erases a block.
   */
  int32_t (*erase)(void *context, uint32_t block);
  /**
   * Says whether a block carries a bad-block mark: 0 or `NANDEX_CHIP_BAD`. `NANDEX_CHIP_UNCORRECTABLE`
   * where the mark cannot be read, which is no mark.
   */
  int32_t (*is_bad)(void *context, uint32_t block);
  /**
   * Marks a block bad.
   */
  int32_t (*mark_bad)(void *context, uint32_t block);
  /**
   * Makes all programs and erases before permanent; may be null where they are when the functions return.
   */
  int32_t (*sync)(void *context);
} nandex_chip;

/**
 * The configuration of an index. All fields but `ram_bytes` must be the same at every mount.
 */
typedef struct nandex_config {
  /**
   * `sizeof(nandex_config)`.
   */
  size_t struct_bytes;
  /**
   * One of `NANDEX_INDEX_...`.
   */
  uint32_t index;
  /**
   * One of `NANDEX_DURABLE_...`.
   */
  uint32_t durability;
  /**
   * Bytes of every key, 1 to 255. Keys are in `memcmp` order: store integers big-endian.
   */
  uint32_t key_bytes;
  /**
   * Bytes of every value, 0 to 255.
   */
  uint32_t value_bytes;
  /**
   * Bytes of RAM that the index may take for tables, buffers and caches; 0: no cache, and whatever the
   * tables need.
   */
  size_t ram_bytes;
  /**
   * B+-trees: physical pages beyond the logical ones, in a million of these; 0 for 125,000.
   */
  uint32_t over_provisioning_ppm;
  /**
   * B+-trees: blocks set aside for those that will fail, in a million; 0 for 20,000.
   */
  uint32_t bad_blocks_ppm;
  /**
   * `NANDEX_INDEX_BPLUS`: most pages of a batch, up to 256; 0 for 64.
   */
  uint32_t atomic_pages;
  /**
   * `NANDEX_INDEX_BPLUS_DFTL`: bytes of cached entries of the map; 0 for 1/64 of the map.
   */
  uint32_t mapping_ram_bytes;
} nandex_config;

/**
 * One change of `nandex_apply`.
 */
typedef struct nandex_change {
  /**
   * The key: as many bytes as a key of the index has.
   */
  const uint8_t *key;
  /**
   * The value: as many bytes as a value of the index has. Null removes the key.
   */
  const uint8_t *value;
} nandex_change;

/**
 * The statistics of an index.
 */
typedef struct nandex_stats {
  /**
   * `sizeof(nandex_stats)`, set by the caller.
   */
  size_t struct_bytes;
  /**
   * Bytes of RAM that the index holds: tables, buffers and caches.
   */
  size_t ram_bytes;
  /**
   * Levels from leaf to root; of plow, levels on the chip.
   */
  uint32_t height;
  /**
   * 0.
   */
  uint32_t reserved;
  /**
   * Pages that hold live data; 0 where the index does not know.
   */
  uint64_t live_pages;
  /**
   * Victim blocks reclaimed since it was opened.
   */
  uint64_t collections;
  /**
   * Pages read since the handle was made.
   */
  uint64_t page_reads;
  /**
   * Pages programmed since the handle was made.
   */
  uint64_t page_programs;
  /**
   * Blocks erased since the handle was made.
   */
  uint64_t block_erases;
  /**
   * Reads of which the chip said `NANDEX_CHIP_CORRECTED` or `NANDEX_CHIP_WEAK`.
   */
  uint64_t corrected_reads;
} nandex_stats;

/**
 * The findings of a check.
 */
typedef struct nandex_report {
  /**
   * `sizeof(nandex_report)`, set by the caller.
   */
  size_t struct_bytes;
  /**
   * Nodes visited.
   */
  uint64_t nodes;
  /**
   * Records counted.
   */
  uint64_t records;
  /**
   * Broken invariants.
   */
  uint64_t violations;
} nandex_report;

/**
 * Called for each record of a scan: 0 to go on, anything else to stop.
 */
typedef int32_t (*nandex_visit)(void *context, const uint8_t *key, const uint8_t *value);

/**
 * The configuration of a map. All fields must be the same at every mount.
 */
typedef struct nandex_map_config {
  /**
   * `sizeof(nandex_map_config)`.
   */
  size_t struct_bytes;
  /**
   * Physical pages beyond the logical ones, in a million of these; 0 for 125,000.
   */
  uint32_t over_provisioning_ppm;
  /**
   * Blocks set aside for those that will fail, in a million; 0 for 20,000.
   */
  uint32_t bad_blocks_ppm;
} nandex_map_config;

/**
 * A box in the plane: both corners belong to it. A point has equal corners.
 */
typedef struct nandex_box {
  /**
   * The left edge.
   */
  int32_t low_x;
  /**
   * The lower edge.
   */
  int32_t low_y;
  /**
   * The right edge, not left of the left one.
   */
  int32_t high_x;
  /**
   * The upper edge, not below the lower one.
   */
  int32_t high_y;
} nandex_box;

/**
 * Called for each box that was found: 0 to go on, anything else to stop. It must not use the handle.
 */
typedef int32_t (*nandex_visit_box)(void *context, const struct nandex_box *place, uint64_t id);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Gives the library its memory, before anything else: a block of the caller's that is its own from now on.
 * Nothing is taken from elsewhere. NANDEX_ERR_MEMORY if it is smaller than 1,024 bytes, or if memory handed
 * over before is in use.
 *
 * `memory` points to so many bytes, which nothing else uses while the library does.
 */
int32_t nandex_use_arena(void *memory,
                         size_t bytes);

/**
 * Lets the library take its memory from an allocator, in place of an arena. NANDEX_ERR_MEMORY if memory
 * handed over before is in use.
 *
 * `allocator` is null or points to what its type says; its functions do what they say.
 */
int32_t nandex_use_allocator(const struct nandex_allocator *allocator);

/**
 * Writes how much memory is in use to `*memory`, whose `struct_bytes` the caller set.
 *
 * `memory` is null or points to what its type says.
 */
int32_t nandex_get_memory(struct nandex_memory *memory);

/**
 * Sets what is called when the library cannot go on; null for an endless loop, the default.
 *
 * `hook` is null or a function that does what its type says.
 */
int32_t nandex_on_panic(nandex_panic_hook hook, void *context);

/**
 * Version of the interface of the library that is linked: compare its upper 16 bits with those of
 * `NANDEX_ABI_VERSION`.
 */
uint32_t nandex_abi_version(void);

/**
 * Name of a code, such as "NANDEX_ERR_FULL"; "unknown" for a number that is no code. Never null.
 */
const char *nandex_error_name(int32_t code);

/**
 * The number of an index (`NANDEX_INDEX_...`) by its name: "mu", "wandering", "vmtree", "bplus",
 * "bplus-dftl", "sbits" or "plow". 0 for null or another name.
 *
 * `name` is null or a C string.
 */
uint32_t nandex_index_by_name(const char *name);

/**
 * Makes a handle for an index on a chip; the chip is not touched yet. `nandex_format` or `nandex_mount`
 * comes next.
 *
 * Both structs are copied; `chip->context` must live as long as the handle. `why` may be null: else, where a
 * field is wrong, it gets a static text that names it. Answers NANDEX_ERR_NULL, NANDEX_ERR_STRUCT or
 * NANDEX_ERR_CONFIG, and then `*index` is null.
 *
 * Each pointer is null or points to what its type says.
 */
int32_t nandex_new(const struct nandex_chip *chip,
                   const struct nandex_config *config,
                   struct nandex_index **index,
                   const char **why);

/**
 * Frees a handle, without closing: like a power cut for what was not synced. Null is ignored. Answers
 * NANDEX_ERR_BUSY, and frees nothing, while cursors are open or within a callback.
 *
 * `index` is null or a handle, and not used any more.
 */
int32_t nandex_free(struct nandex_index *index);

/**
 * Bytes of RAM that an index takes once it is formatted, found by formatting it on a chip that keeps
 * nothing: no callback is called, but as much memory is taken meanwhile. On the page-mapping FTL a mount
 * after a power cut takes more for a moment: 12 bytes for each page programmed since the last checkpoint.
 *
 * Each pointer is null or points to what its type says.
 */
int32_t nandex_ram_needed(const struct nandex_chip *chip,
                          const struct nandex_config *config,
                          size_t *ram_bytes,
                          const char **why);

/**
 * Finds the index on the chip again, as `nandex_mount`, or makes an empty one on a chip that is blank. No
 * other chip is changed: the answer says what is there. The first call of every start.
 *
 * `index` is null or a handle.
 */
int32_t nandex_open(struct nandex_index *index);

/**
 * Makes an empty index on a chip: a blank one, or with the flag NANDEX_OVERWRITE any, which is erased. Else
 * NANDEX_ERR_NOT_BLANK; NANDEX_ERR_CONFIG for another flag. What was open in this handle is dropped.
 *
 * `index` is null or a handle.
 */
int32_t nandex_format(struct nandex_index *index,
                      uint32_t flags);

/**
 * Finds the index on the chip again, after a close or after a power cut. What was open in this handle is
 * dropped.
 *
 * `index` is null or a handle.
 */
int32_t nandex_mount(struct nandex_index *index);

/**
 * Inserts a record, or gives an existing key a new value.
 *
 * `index` is null or a handle; the other pointers are null or point to as many bytes as is said.
 */
int32_t nandex_put(struct nandex_index *index,
                   const uint8_t *key,
                   size_t key_bytes,
                   const uint8_t *value,
                   size_t value_bytes);

/**
 * Inserts a record whose key is not there yet; NANDEX_ERR_EXISTS if it is.
 *
 * As for `nandex_put`.
 */
int32_t nandex_insert(struct nandex_index *index,
                      const uint8_t *key,
                      size_t key_bytes,
                      const uint8_t *value,
                      size_t value_bytes);

/**
 * Copies the value of a key to `value`; NANDEX_NOT_FOUND, and `value` is as it was, if the key is not there.
 *
 * As for `nandex_put`; `value` is writable.
 */
int32_t nandex_get(struct nandex_index *index,
                   const uint8_t *key,
                   size_t key_bytes,
                   uint8_t *value,
                   size_t value_bytes);

/**
 * Removes a key; NANDEX_NOT_FOUND if it is not there.
 *
 * As for `nandex_put`.
 */
int32_t nandex_remove(struct nandex_index *index, const uint8_t *key, size_t key_bytes);

/**
 * Makes everything acknowledged survive a power cut.
 *
 * `index` is null or a handle.
 */
int32_t nandex_sync(struct nandex_index *index);

/**
 * Syncs and leaves the chip so that the next mount is cheapest. The handle stays, and can mount again.
 *
 * `index` is null or a handle.
 */
int32_t nandex_close(struct nandex_index *index);

/**
 * Makes several changes, in their order, as one operation, of which a power cut leaves all or nothing. Takes
 * the RAM that the index needs for it, and no more afterwards. `most` is null or gets the most changes that
 * the index takes at once: 1 where it cannot make several as one, SIZE_MAX where only the pages count that
 * they write. NANDEX_ERR_BATCH_FULL, and nothing is done, if they are too many.
 *
 * `index` is null or a handle, `changes` null or as many changes as is said, whose pointers are keys and
 * values; `most` is null or writable.
 */
int32_t nandex_apply(struct nandex_index *index,
                     const struct nandex_change *changes,
                     size_t count,
                     size_t *most);

/**
 * Does work that later operations would do: collects garbage, merges, erases, moves what became hard to
 * read. About `budget` pages are read or programmed, a block at a time at least. `left` is null or gets the
 * pages of such work that are left, about; 0 where nothing is worth doing.
 *
 * `index` is null or a handle, `left` null or writable.
 */
int32_t nandex_maintain(struct nandex_index *index,
                        uint32_t budget,
                        uint32_t *left);

/**
 * Looks for pages that become hard to read, before their records are asked for, and moves them: reads up to
 * `budget` pages from where the last call ended. `left` is null or gets the pages left of the round; 0 at
 * its end. It takes a chip whose `read` answers NANDEX_CHIP_WEAK.
 *
 * As for `nandex_maintain`.
 */
int32_t nandex_scrub(struct nandex_index *index,
                     uint32_t budget,
                     uint32_t *left);

/**
 * Opens a batch: puts, inserts and removes up to `nandex_batch_commit` are one operation, of which a power
 * cut leaves all or nothing. Gets and cursors see them. Syncs first. Only the B+-trees have these
 * batches, as large as `config.atomic_pages` (on DFTL: a block); `nandex_apply` takes changes of others too.
 *
 * `index` is null or a handle.
 */
int32_t nandex_batch_begin(struct nandex_index *index);

/**
 * Writes the batch; as durable then as any operation of the index. On a failure nothing of it was done.
 *
 * `index` is null or a handle.
 */
int32_t nandex_batch_commit(struct nandex_index *index);

/**
 * Drops the batch: the index is as it was before it.
 *
 * `index` is null or a handle.
 */
int32_t nandex_batch_abandon(struct nandex_index *index);

/**
 * Writes what the index tells about itself to `*stats`, whose `struct_bytes` the caller set. Nothing is read
 * for it.
 *
 * Each pointer is null or points to what its type says.
 */
int32_t nandex_get_stats(struct nandex_index *index,
                         struct nandex_stats *stats);

/**
 * Walks the whole index and checks its invariants; NANDEX_ERR_UNSOUND if some are broken. `report` may be
 * null, else its `struct_bytes` was set by the caller.
 *
 * Each pointer is null or points to what its type says.
 */
int32_t nandex_check(struct nandex_index *index,
                     struct nandex_report *report);

/**
 * Words of the last failure of this handle, until its next call; empty if there was none, null within a
 * callback or for what is no handle.
 *
 * `index` is null or a handle.
 */
const char *nandex_last_message(const struct nandex_index *index);

/**
 * Visits the records with keys from `low` (included) to `high` (excluded) in ascending order; a null bound
 * is none. The callback must not use the handle; a cursor allows that. Both bounds have as many bytes as a
 * key.
 *
 * `index` is null or a handle; the bounds are null or point to as many bytes as a key has.
 */
int32_t nandex_scan(struct nandex_index *index,
                    const uint8_t *low,
                    const uint8_t *high,
                    nandex_visit visit,
                    void *context);

/**
 * Makes a cursor that stands on no record: `nandex_cursor_next` goes to the first one, `nandex_cursor_prev`
 * to the last.
 *
 * `index` is null or a handle, `made` null or a place for a pointer.
 */
int32_t nandex_cursor_new(struct nandex_index *index,
                          struct nandex_cursor **made);

/**
 * Frees a cursor. Null is ignored.
 *
 * `at` is null or a cursor, and not used any more.
 */
int32_t nandex_cursor_free(struct nandex_cursor *at);

/**
 * Goes to the record with this key or, where it is not there, the next greater one. NANDEX_NOT_FOUND, and
 * the cursor stays, if there is none.
 *
 * `at` is null or a cursor, `key` null or as many bytes as is said.
 */
int32_t nandex_cursor_seek(struct nandex_cursor *at,
                           const uint8_t *key,
                           size_t key_bytes);

/**
 * Goes to the next greater record, whatever was inserted or removed since; from nowhere to the first one.
 * NANDEX_NOT_FOUND, and the cursor stays, if there is none.
 *
 * `at` is null or a cursor.
 */
int32_t nandex_cursor_next(struct nandex_cursor *at);

/**
 * Goes to the next smaller record; from nowhere to the last one. NANDEX_NOT_FOUND, and the cursor stays, if
 * there is none.
 *
 * `at` is null or a cursor.
 */
int32_t nandex_cursor_prev(struct nandex_cursor *at);

/**
 * Copies the record that the cursor stands on, as it was when the cursor fetched it (a few records at a
 * time). A null pointer with length 0 skips that part. NANDEX_NOT_FOUND if it stands on none.
 *
 * `at` is null or a cursor, the other pointers null or as many writable bytes as is said.
 */
int32_t nandex_cursor_get(struct nandex_cursor *at,
                          uint8_t *key,
                          size_t key_bytes,
                          uint8_t *value,
                          size_t value_bytes);

/**
 * Makes a handle for a map on a chip; the chip is not touched yet. `nandex_map_format` or `nandex_map_mount`
 * comes next. Structs and answers are as for `nandex_new`.
 *
 * Each pointer is null or points to what its type says.
 */
int32_t nandex_map_new(const struct nandex_chip *chip,
                       const struct nandex_map_config *config,
                       struct nandex_map **map,
                       const char **why);

/**
 * Frees a handle, without closing. Null is ignored. Answers NANDEX_ERR_BUSY, and frees nothing, within a
 * callback.
 *
 * `map` is null or a handle, and not used any more.
 */
int32_t nandex_map_free(struct nandex_map *map);

/**
 * Finds the map on the chip again, or makes an empty one on a chip that is blank, as `nandex_open`.
 *
 * `map` is null or a handle.
 */
int32_t nandex_map_open(struct nandex_map *map);

/**
 * Makes an empty map on a chip: a blank one, or with the flag NANDEX_OVERWRITE any, which is erased. Else
 * NANDEX_ERR_NOT_BLANK; NANDEX_ERR_CONFIG for another flag. What was open in this handle is dropped.
 *
 * `map` is null or a handle.
 */
int32_t nandex_map_format(struct nandex_map *map,
                          uint32_t flags);

/**
 * Finds the map on the chip again, after a close or after a power cut. What was open in this handle is
 * dropped.
 *
 * `map` is null or a handle.
 */
int32_t nandex_map_mount(struct nandex_map *map);

/**
 * Enters a box with an identifier. The same may be there several times.
 *
 * `map` is null or a handle; `place` is null or points to a box.
 */
int32_t nandex_map_insert(struct nandex_map *map, const struct nandex_box *place, uint64_t id);

/**
 * Takes a box with its identifier out, one of them if it is there several times; NANDEX_NOT_FOUND if it is
 * not there.
 *
 * `map` is null or a handle; `place` is null or points to a box.
 */
int32_t nandex_map_remove(struct nandex_map *map,
                          const struct nandex_box *place,
                          uint64_t id);

/**
 * Visits every box that meets the window, edges included, in no certain order.
 *
 * `map` is null or a handle; `window` is null or points to a box.
 */
int32_t nandex_map_window(struct nandex_map *map,
                          const struct nandex_box *window,
                          nandex_visit_box visit,
                          void *context);

/**
 * Visits the `count` boxes nearest to a point, nearest first.
 *
 * `map` is null or a handle.
 */
int32_t nandex_map_nearest(struct nandex_map *map,
                           int32_t x,
                           int32_t y,
                           size_t count,
                           nandex_visit_box visit,
                           void *context);

/**
 * Syncs and closes; the handle can mount again, and that mount is quickest.
 *
 * `map` is null or a handle.
 */
int32_t nandex_map_close(struct nandex_map *map);

/**
 * Walks the whole map and checks its invariants; as `nandex_check`.
 *
 * Each pointer is null or points to what its type says.
 */
int32_t nandex_map_check(struct nandex_map *map, struct nandex_report *report);

/**
 * Writes what the map tells about itself to `*stats`, whose `struct_bytes` the caller set; as
 * `nandex_get_stats`.
 *
 * Each pointer is null or points to what its type says.
 */
int32_t nandex_map_get_stats(struct nandex_map *map, struct nandex_stats *stats);

/**
 * Words of the last failure of this handle, until its next call; as `nandex_last_message`.
 *
 * `map` is null or a handle.
 */
const char *nandex_map_last_message(const struct nandex_map *map);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* NANDEX_H */
