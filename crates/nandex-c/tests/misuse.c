/* What the library answers to callers that are wrong, and what it promises to those that are right. Prints what failed. */
#if defined(__unix__) || defined(__APPLE__)
#define HAS_FORK 1
#include <sys/wait.h>
#include <unistd.h>
#endif

#include "ram_chip.h"

#include <stdio.h>

static int failures;

static void expect(int line, const char *what, int32_t got, int32_t wanted) {
    if (got == wanted) return;
    failures++;
    printf("line %d: %s answered %s, not %s\n", line, what, nandex_error_name(got), nandex_error_name(wanted));
}
#define EXPECT(wanted, call) expect(__LINE__, #call, (call), (wanted))
#define TRUE(condition) expect(__LINE__, #condition, (condition) ? NANDEX_OK : NANDEX_NOT_FOUND, NANDEX_OK)

static void put(nandex_index *index, uint64_t key, uint64_t value, int32_t wanted) {
    uint8_t k[8], v[8];
    key_of(key, k);
    key_of(value, v);
    expect(__LINE__, "put", nandex_put(index, k, 8, v, 8), wanted);
}

static int64_t get(nandex_index *index, uint64_t key) {
    uint8_t k[8], v[8];
    key_of(key, k);
    int32_t code = nandex_get(index, k, 8, v, 8);
    if (code != NANDEX_OK) return code;
    int64_t value = 0;
    for (int i = 0; i < 8; i++) value = value << 8 | v[i];
    return value;
}

static void wrong_arguments(void) {
    static ram_chip ram;
    nandex_chip chip = ram_chip_new(&ram), bad_chip;
    nandex_config config = config_of(NANDEX_INDEX_MU), bad;
    nandex_index *index = (nandex_index *)1;
    const char *why = NULL;
    EXPECT(NANDEX_ERR_NULL, nandex_new(NULL, &config, &index, NULL));
    TRUE(index == NULL);
    EXPECT(NANDEX_ERR_NULL, nandex_new(&chip, NULL, &index, NULL));
    EXPECT(NANDEX_ERR_NULL, nandex_new(&chip, &config, NULL, NULL));
    bad = config, bad.struct_bytes = 8;
    EXPECT(NANDEX_ERR_STRUCT, nandex_new(&chip, &bad, &index, NULL));
    bad = config, bad.key_bytes = 0;
    EXPECT(NANDEX_ERR_CONFIG, nandex_new(&chip, &bad, &index, &why));
    TRUE(why != NULL && strstr(why, "key_bytes") != NULL);
    bad = config, bad.index = 99;
    EXPECT(NANDEX_ERR_CONFIG, nandex_new(&chip, &bad, &index, &why));
    bad_chip = chip, bad_chip.read = NULL;
    EXPECT(NANDEX_ERR_CONFIG, nandex_new(&bad_chip, &config, &index, &why));
    bad_chip = chip, bad_chip.blocks = 1;
    EXPECT(NANDEX_ERR_CONFIG, nandex_new(&bad_chip, &config, &index, &why));
    TRUE(nandex_index_by_name("mu") == NANDEX_INDEX_MU && nandex_index_by_name("no") == 0 && nandex_index_by_name(NULL) == 0);
    TRUE(strcmp(nandex_error_name(1), "unknown") == 0);

    EXPECT(NANDEX_ERR_NULL, nandex_mount(NULL));
    EXPECT(NANDEX_OK, nandex_free(NULL));
    uint64_t no_handle[64] = {0};
    EXPECT(NANDEX_ERR_HANDLE, nandex_mount((nandex_index *)no_handle));
    EXPECT(NANDEX_ERR_HANDLE, nandex_free((nandex_index *)no_handle));
    TRUE(nandex_last_message((nandex_index *)no_handle) == NULL);

    /* A caller of a later version, whose struct has a field more: right while it is 0. */
    struct { nandex_config known; uint64_t more; } later = {config, 0};
    later.known.struct_bytes = sizeof later;
    EXPECT(NANDEX_OK, nandex_new(&chip, &later.known, &index, NULL));
    EXPECT(NANDEX_OK, nandex_free(index));
    later.more = 1;
    EXPECT(NANDEX_ERR_STRUCT, nandex_new(&chip, &later.known, &index, NULL));

    /* A spare area that the mu-Tree's tag does not fit: a page is held to lend it bytes of the data area. */
    size_t needed = 0, lending = 0;
    EXPECT(NANDEX_OK, nandex_ram_needed(&chip, &config, &needed, NULL));
    TRUE(needed > PAGE_BYTES);
    chip.spare_bytes = 8;
    EXPECT(NANDEX_OK, nandex_ram_needed(&chip, &config, &lending, NULL));
    TRUE(lending > needed + PAGE_BYTES / 2);
    config.ram_bytes = PAGE_BYTES / 2;
    EXPECT(NANDEX_ERR_UNSUPPORTED, nandex_ram_needed(&chip, &config, &lending, NULL));
    free(ram.bytes);
}

/* A firmware whose records have other sizes leaves the chip as it is. */
static void other_records(const nandex_chip *chip, nandex_config config) {
    nandex_index *index;
    config.value_bytes += 4;
    EXPECT(NANDEX_OK, nandex_new(chip, &config, &index, NULL));
    EXPECT(NANDEX_ERR_OTHER_RECORD, nandex_mount(index));
    EXPECT(NANDEX_ERR_OTHER_RECORD, nandex_open(index));
    EXPECT(NANDEX_ERR_NOT_BLANK, nandex_format(index, 0));
    EXPECT(NANDEX_OK, nandex_free(index));
}

static void wrong_order(uint32_t kind) {
    static ram_chip ram;
    uint8_t key[8] = {0}, value[8] = {0};
    nandex_chip chip = ram_chip_new(&ram);
    nandex_config config = config_of(kind);
    nandex_index *index;
    EXPECT(NANDEX_OK, nandex_new(&chip, &config, &index, NULL));
    EXPECT(NANDEX_ERR_NOT_OPEN, nandex_put(index, key, 8, value, 8));
    TRUE(strstr(nandex_last_message(index), "mount") != NULL);
    EXPECT(NANDEX_ERR_BLANK, nandex_mount(index));
    EXPECT(NANDEX_ERR_CONFIG, nandex_format(index, 2));
    EXPECT(NANDEX_OK, nandex_format(index, 0));
    EXPECT(NANDEX_ERR_LENGTH, nandex_put(index, key, 7, value, 8));
    EXPECT(NANDEX_ERR_LENGTH, nandex_put(index, key, 8, value, 9));
    EXPECT(NANDEX_ERR_LENGTH, nandex_get(index, key, 8, value, 3));
    EXPECT(NANDEX_ERR_NULL, nandex_put(index, NULL, 8, value, 8));
    EXPECT(NANDEX_NOT_FOUND, nandex_get(index, key, 8, value, 8));
    put(index, 5, 50, NANDEX_OK);
    key_of(5, key);
    EXPECT(NANDEX_ERR_EXISTS, nandex_insert(index, key, 8, value, 8));
    TRUE(get(index, 5) == 50);
    ram.reenter = index;
    for (uint64_t i = 6; i < 400 && ram.reentered == 0; i++) put(index, i, i, NANDEX_OK);
    if (ram.reentered == 0) get(index, 5);
    ram.reenter = NULL;
    TRUE(ram.reentered == NANDEX_ERR_BUSY || ram.reentered == 0);
    EXPECT(NANDEX_OK, nandex_close(index));
    EXPECT(NANDEX_ERR_NOT_OPEN, nandex_get(index, key, 8, value, 8));
    EXPECT(NANDEX_ERR_NOT_BLANK, nandex_format(index, 0));
    other_records(&chip, config);
    EXPECT(NANDEX_OK, nandex_open(index));
    TRUE(get(index, 5) == 50);
    nandex_cursor *cursor;
    EXPECT(NANDEX_OK, nandex_cursor_new(index, &cursor));
    EXPECT(NANDEX_ERR_BUSY, nandex_free(index));
    EXPECT(NANDEX_NOT_FOUND, nandex_cursor_get(cursor, key, 8, value, 8));
    EXPECT(NANDEX_OK, nandex_cursor_free(cursor));
    EXPECT(NANDEX_OK, nandex_free(index));
    free(ram.bytes);
}

static uint64_t at(nandex_cursor *cursor) {
    uint8_t key[8];
    uint64_t number = 0;
    EXPECT(NANDEX_OK, nandex_cursor_get(cursor, key, 8, NULL, 0));
    for (int i = 0; i < 8; i++) number = number << 8 | key[i];
    return number;
}

static int32_t count_up(void *context, const uint8_t *key, const uint8_t *value) {
    (void)key, (void)value;
    return ++*(int *)context == 10;
}

static void cursors(uint32_t kind) {
    static ram_chip ram;
    nandex_chip chip = ram_chip_new(&ram);
    nandex_config config = config_of(kind);
    nandex_index *index;
    nandex_cursor *cursor;
    uint8_t key[8], high[8];
    EXPECT(NANDEX_OK, nandex_new(&chip, &config, &index, NULL));
    EXPECT(NANDEX_OK, nandex_format(index, NANDEX_OVERWRITE));
    EXPECT(NANDEX_OK, nandex_cursor_new(index, &cursor));
    EXPECT(NANDEX_NOT_FOUND, nandex_cursor_next(cursor));
    for (uint64_t i = 0; i < 100; i++) put(index, 2 * i, i, NANDEX_OK);
    for (uint64_t i = 0; i < 100; i++) {
        EXPECT(NANDEX_OK, nandex_cursor_next(cursor));
        TRUE(at(cursor) == 2 * i);
    }
    EXPECT(NANDEX_NOT_FOUND, nandex_cursor_next(cursor));
    for (uint64_t i = 99; i-- > 0;) {
        EXPECT(NANDEX_OK, nandex_cursor_prev(cursor));
        TRUE(at(cursor) == 2 * i);
    }
    EXPECT(NANDEX_NOT_FOUND, nandex_cursor_prev(cursor));
    key_of(101, key);
    EXPECT(NANDEX_OK, nandex_cursor_seek(cursor, key, 8));
    TRUE(at(cursor) == 102);
    EXPECT(NANDEX_ERR_LENGTH, nandex_cursor_seek(cursor, key, 4));
    EXPECT(NANDEX_ERR_LENGTH, nandex_cursor_get(cursor, key, 4, NULL, 0));
    if (kind != NANDEX_INDEX_SBITS) { /* which takes no keys between others and removes none */
        put(index, 103, 1, NANDEX_OK);
        EXPECT(NANDEX_OK, nandex_cursor_next(cursor));
        TRUE(at(cursor) == 103);
        key_of(104, key);
        EXPECT(NANDEX_OK, nandex_remove(index, key, 8));
        EXPECT(NANDEX_NOT_FOUND, nandex_remove(index, key, 8));
        EXPECT(NANDEX_OK, nandex_cursor_next(cursor));
        TRUE(at(cursor) == 106);
    }
    int visited = 0;
    EXPECT(NANDEX_OK, nandex_scan(index, NULL, NULL, count_up, &visited));
    TRUE(visited == 10);
    visited = 0;
    key_of(10, key);
    key_of(20, high);
    EXPECT(NANDEX_OK, nandex_scan(index, key, high, count_up, &visited));
    TRUE(visited == 5);
    EXPECT(NANDEX_OK, nandex_cursor_free(cursor));
    nandex_report report;
    memset(&report, 0, sizeof report);
    report.struct_bytes = sizeof report;
    EXPECT(NANDEX_OK, nandex_check(index, &report));
    TRUE(report.records == 100 && report.violations == 0);
    EXPECT(NANDEX_OK, nandex_free(index));
    free(ram.bytes);
}

/* A batch cut at each of its operations on the chip: all of it or nothing. */
static void batches(uint32_t kind, uint32_t durability) {
    int whole = 0, nothing = 0;
    for (uint64_t cut = 1; whole == 0 && cut < 200; cut++) {
        static ram_chip ram;
        nandex_chip chip = ram_chip_new(&ram);
        nandex_config config = config_of(kind);
        config.durability = durability;
        config.ram_bytes = 200000;
        nandex_index *index;
        EXPECT(NANDEX_OK, nandex_new(&chip, &config, &index, NULL));
        EXPECT(NANDEX_OK, nandex_format(index, NANDEX_OVERWRITE));
        for (uint64_t i = 0; i < 1000; i++) put(index, i, i, NANDEX_OK);
        EXPECT(NANDEX_ERR_BATCH, nandex_batch_commit(index));
        EXPECT(NANDEX_OK, nandex_batch_begin(index));
        EXPECT(NANDEX_ERR_BATCH, nandex_batch_begin(index));
        EXPECT(NANDEX_ERR_BATCH, nandex_sync(index));
        ram.cut_at = ram.operations + cut;
        for (uint64_t i = 0; i < 1000; i += 100) put(index, i, 7777, NANDEX_OK);
        TRUE(get(index, 300) == 7777);
        int32_t committed = nandex_batch_commit(index);
        if (committed == NANDEX_OK) committed = nandex_sync(index);
        EXPECT(NANDEX_OK, nandex_free(index));
        ram.cut_at = 0;
        EXPECT(NANDEX_OK, nandex_new(&chip, &config, &index, NULL));
        EXPECT(NANDEX_OK, nandex_mount(index));
        int changed = 0;
        for (uint64_t i = 0; i < 1000; i++) {
            int64_t value = get(index, i);
            if (i % 100 == 0 && value == 7777) changed++;
            else TRUE(value == (int64_t)i);
        }
        TRUE(changed == 0 || changed == 10);
        TRUE(changed == 10 || committed != NANDEX_OK);
        nothing += changed == 0;
        whole += committed == NANDEX_OK;
        EXPECT(NANDEX_OK, nandex_check(index, NULL));
        EXPECT(NANDEX_OK, nandex_free(index));
        free(ram.bytes);
    }
    TRUE(whole == 1 && nothing >= 1);
}

/* Changes made at once, cut at each operation on the chip, by indexes that have no other batches. */
static void changes_at_once(uint32_t kind) {
    int whole = 0, nothing = 0;
    for (uint64_t cut = 1; whole == 0 && cut < 200; cut++) {
        static ram_chip ram;
        nandex_chip chip = ram_chip_new(&ram);
        nandex_config config = config_of(kind);
        nandex_index *index;
        EXPECT(NANDEX_OK, nandex_new(&chip, &config, &index, NULL));
        EXPECT(NANDEX_OK, nandex_format(index, NANDEX_OVERWRITE));
        for (uint64_t i = 0; i < 300; i++) put(index, i, i, NANDEX_OK);
        uint8_t keys[8][8], values[8][8];
        nandex_change changes[8];
        for (uint64_t i = 0; i < 8; i++) {
            key_of(i * 40, keys[i]);
            key_of(7777, values[i]);
            changes[i] = (nandex_change){ keys[i], i % 4 == 3 ? NULL : values[i] };
        }
        EXPECT(NANDEX_ERR_NULL, nandex_apply(index, NULL, 1, NULL));
        size_t most = 0;
        EXPECT(NANDEX_OK, nandex_apply(index, changes, 0, &most));
        TRUE(most >= 8);
        ram.cut_at = ram.operations + cut;
        int32_t applied = nandex_apply(index, changes, 8, NULL);
        EXPECT(NANDEX_OK, nandex_free(index));
        ram.cut_at = 0;
        EXPECT(NANDEX_OK, nandex_new(&chip, &config, &index, NULL));
        EXPECT(NANDEX_OK, nandex_mount(index));
        int changed = 0;
        for (uint64_t i = 0; i < 8; i++) {
            int64_t value = get(index, i * 40);
            changed += value == (i % 4 == 3 ? NANDEX_NOT_FOUND : 7777);
            TRUE(value == NANDEX_NOT_FOUND || value == 7777 || value == (int64_t)(i * 40));
        }
        TRUE(changed == 0 || changed == 8);
        TRUE(changed == 8 || applied != NANDEX_OK);
        nothing += changed == 0;
        whole += applied == NANDEX_OK;
        uint32_t left = 1;
        EXPECT(NANDEX_OK, nandex_maintain(index, 8, NULL));
        EXPECT(NANDEX_OK, nandex_scrub(index, UINT32_MAX, &left));
        TRUE(left == 0);
        EXPECT(NANDEX_OK, nandex_check(index, NULL));
        EXPECT(NANDEX_OK, nandex_free(index));
        free(ram.bytes);
    }
    TRUE(whole == 1 && nothing >= 1);
}

static void batches_that_end_otherwise(void) {
    static ram_chip ram;
    nandex_chip chip = ram_chip_new(&ram);
    nandex_config config = config_of(NANDEX_INDEX_BPLUS);
    config.atomic_pages = 16;
    nandex_index *index;
    EXPECT(NANDEX_OK, nandex_new(&chip, &config, &index, NULL));
    EXPECT(NANDEX_OK, nandex_format(index, NANDEX_OVERWRITE));
    for (uint64_t i = 0; i < 3000; i++) put(index, 10 * i, 0, NANDEX_OK);
    EXPECT(NANDEX_OK, nandex_batch_begin(index));
    put(index, 20, 1, NANDEX_OK);
    EXPECT(NANDEX_OK, nandex_batch_abandon(index));
    EXPECT(NANDEX_ERR_BATCH, nandex_batch_abandon(index));
    TRUE(get(index, 20) == 0);
    EXPECT(NANDEX_OK, nandex_batch_begin(index));
    uint64_t taken = 0;
    int32_t code = NANDEX_OK;
    for (; code == NANDEX_OK && taken < 3000; taken++) {
        uint8_t key[8], value[8];
        key_of(10 * taken, key);
        key_of(1, value);
        code = nandex_put(index, key, 8, value, 8);
    }
    EXPECT(NANDEX_ERR_BATCH_FULL, code);
    EXPECT(NANDEX_OK, nandex_batch_commit(index));
    for (uint64_t i = 0; i < 3000; i++) TRUE(get(index, 10 * i) == (i < taken - 1));
    EXPECT(NANDEX_OK, nandex_check(index, NULL));
    EXPECT(NANDEX_OK, nandex_free(index));
    config = config_of(NANDEX_INDEX_MU);
    EXPECT(NANDEX_OK, nandex_new(&chip, &config, &index, NULL));
    EXPECT(NANDEX_OK, nandex_format(index, NANDEX_OVERWRITE));
    EXPECT(NANDEX_ERR_UNSUPPORTED, nandex_batch_begin(index));
    TRUE(strstr(nandex_last_message(index), "BPLUS") != NULL);
    EXPECT(NANDEX_OK, nandex_free(index));
    free(ram.bytes);
}

/* The power goes in the middle of inserts: what was acknowledged is there. */
static void cuts(uint32_t kind) {
    for (uint64_t cut = 1; cut <= 400; cut += 57) {
        static ram_chip ram;
        nandex_chip chip = ram_chip_new(&ram);
        nandex_config config = config_of(kind);
        nandex_index *index;
        EXPECT(NANDEX_OK, nandex_new(&chip, &config, &index, NULL));
        EXPECT(NANDEX_OK, nandex_format(index, NANDEX_OVERWRITE));
        ram.cut_at = ram.operations + cut;
        uint64_t acknowledged = 0;
        uint8_t key[8];
        for (;; acknowledged++) {
            key_of(acknowledged, key);
            if (nandex_put(index, key, 8, key, 8) != NANDEX_OK) break;
        }
        EXPECT(NANDEX_OK, nandex_free(index));
        ram.cut_at = 0;
        EXPECT(NANDEX_OK, nandex_new(&chip, &config, &index, NULL));
        EXPECT(NANDEX_OK, nandex_mount(index));
        for (uint64_t i = 0; i < acknowledged; i++) TRUE(get(index, i) == (int64_t)i);
        EXPECT(NANDEX_OK, nandex_check(index, NULL));
        EXPECT(NANDEX_OK, nandex_free(index));
        free(ram.bytes);
    }
}

/* A driver with few spare bytes, or none: data areas lend what an index needs. */
static void few_spare_bytes(uint32_t kind, uint32_t spare_bytes) {
    static ram_chip ram;
    nandex_chip chip = ram_chip_new(&ram);
    nandex_config config = config_of(kind);
    nandex_index *index = NULL;
    chip.spare_bytes = ram.spare_bytes = spare_bytes;
    EXPECT(NANDEX_OK, nandex_new(&chip, &config, &index, NULL));
    EXPECT(NANDEX_OK, nandex_format(index, NANDEX_OVERWRITE));
    for (uint64_t i = 0; i < 500; i++) put(index, i, i * 3, NANDEX_OK);
    EXPECT(NANDEX_OK, nandex_free(index));
    EXPECT(NANDEX_OK, nandex_new(&chip, &config, &index, NULL));
    EXPECT(NANDEX_OK, nandex_mount(index));
    int right = 0;
    for (uint64_t i = 0; i < 500; i++) right += get(index, i) == (int64_t)(i * 3);
    TRUE(right == 500);
    EXPECT(NANDEX_OK, nandex_check(index, NULL));
    EXPECT(NANDEX_OK, nandex_free(index));
    free(ram.bytes);
}

static int32_t count_one(void *context, const nandex_box *place, uint64_t id) {
    (void)place, (void)id;
    return ++*(int *)context == 3;
}

static int32_t use_the_map(void *context, const nandex_box *place, uint64_t id) {
    nandex_map *map = (nandex_map *)context;
    EXPECT(NANDEX_ERR_BUSY, nandex_map_remove(map, place, id));
    EXPECT(NANDEX_ERR_BUSY, nandex_map_free(map));
    return 1;
}

/* Maps: wrong callers, swapped corners, handles of the other kind, callbacks that stop and that use the handle. */
static void maps(void) {
    static ram_chip ram;
    nandex_chip chip = ram_chip_new(&ram);
    nandex_map_config config;
    nandex_map *map = NULL;
    nandex_index *index = NULL;
    nandex_box place = {1, 1, 2, 2}, swapped = {5, 5, 4, 6}, all = {-9, -9, 9, 9};
    nandex_config other = config_of(NANDEX_INDEX_SBITS);
    nandex_report report;
    nandex_stats stats;
    int count = 0;
    memset(&config, 0, sizeof config);
    EXPECT(NANDEX_ERR_STRUCT, nandex_map_new(&chip, &config, &map, NULL));
    config.struct_bytes = sizeof config;
    EXPECT(NANDEX_ERR_NULL, nandex_map_new(&chip, NULL, &map, NULL));
    EXPECT(NANDEX_ERR_NULL, nandex_map_new(&chip, &config, NULL, NULL));
    EXPECT(NANDEX_OK, nandex_map_new(&chip, &config, &map, NULL));
    EXPECT(NANDEX_OK, nandex_new(&chip, &other, &index, NULL));
    EXPECT(NANDEX_ERR_HANDLE, nandex_map_format((nandex_map *)index, NANDEX_OVERWRITE));
    EXPECT(NANDEX_ERR_HANDLE, nandex_format((nandex_index *)map, NANDEX_OVERWRITE));
    EXPECT(NANDEX_OK, nandex_free(index));
    EXPECT(NANDEX_ERR_NOT_OPEN, nandex_map_insert(map, &place, 1));
    EXPECT(NANDEX_ERR_BLANK, nandex_map_mount(map));
    EXPECT(NANDEX_OK, nandex_map_format(map, NANDEX_OVERWRITE));
    EXPECT(NANDEX_ERR_NULL, nandex_map_insert(map, NULL, 1));
    EXPECT(NANDEX_ERR_NULL, nandex_map_insert(NULL, &place, 1));
    EXPECT(NANDEX_ERR_CONFIG, nandex_map_insert(map, &swapped, 1));
    TRUE(strstr(nandex_map_last_message(map), "corner") != NULL);
    for (uint64_t id = 0; id < 9; id++) EXPECT(NANDEX_OK, nandex_map_insert(map, &place, id));
    EXPECT(NANDEX_NOT_FOUND, nandex_map_remove(map, &place, 99));
    EXPECT(NANDEX_ERR_NULL, nandex_map_window(map, &all, NULL, NULL));
    EXPECT(NANDEX_OK, nandex_map_window(map, &all, count_one, &count));
    TRUE(count == 3);
    EXPECT(NANDEX_OK, nandex_map_window(map, &all, use_the_map, map));
    memset(&report, 0, sizeof report), report.struct_bytes = sizeof report;
    EXPECT(NANDEX_OK, nandex_map_check(map, &report));
    TRUE(report.records == 9 && report.violations == 0);
    memset(&stats, 0, sizeof stats), stats.struct_bytes = sizeof stats;
    EXPECT(NANDEX_OK, nandex_map_get_stats(map, &stats));
    TRUE(stats.ram_bytes > 0 && stats.page_programs > 0);
    EXPECT(NANDEX_OK, nandex_map_close(map));
    EXPECT(NANDEX_ERR_NOT_OPEN, nandex_map_check(map, NULL));
    EXPECT(NANDEX_OK, nandex_map_free(map));
    EXPECT(NANDEX_OK, nandex_map_free(NULL));
    free(ram.bytes);
}

/* A child of fork() gets no answer of a handle that its parent made, and can free it. */
static void forked(void) {
#ifdef HAS_FORK
    static ram_chip ram;
    nandex_chip chip = ram_chip_new(&ram);
    nandex_config config = config_of(NANDEX_INDEX_MU);
    nandex_index *index = NULL;
    uint8_t key[8] = {1}, value[8] = {2};
    int status = -1;
    pid_t child;
    EXPECT(NANDEX_OK, nandex_new(&chip, &config, &index, NULL));
    EXPECT(NANDEX_OK, nandex_format(index, NANDEX_OVERWRITE));
    EXPECT(NANDEX_OK, nandex_put(index, key, sizeof key, value, sizeof value));
    child = fork();
    if (child == 0) {
        failures = 0;
        EXPECT(NANDEX_ERR_BUSY, nandex_put(index, key, sizeof key, value, sizeof value));
        EXPECT(NANDEX_ERR_BUSY, nandex_get(index, key, sizeof key, value, sizeof value));
        EXPECT(NANDEX_ERR_BUSY, nandex_mount(index));
        TRUE(strstr(nandex_last_message(index), "fork") != NULL);
        EXPECT(NANDEX_OK, nandex_free(index));
        fflush(stdout);
        _exit(failures != 0);
    }
    TRUE(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    EXPECT(NANDEX_OK, nandex_get(index, key, sizeof key, value, sizeof value));
    EXPECT(NANDEX_OK, nandex_close(index));
    EXPECT(NANDEX_OK, nandex_free(index));
    free(ram.bytes);
#endif
}

int main(void) {
    wrong_arguments();
    forked();
    maps();
    for (uint32_t kind = NANDEX_INDEX_MU; kind <= NANDEX_INDEX_PLOW; kind++) {
        wrong_order(kind);
        cursors(kind);
        few_spare_bytes(kind, 17);
        few_spare_bytes(kind, 0);
        cuts(kind);
    }
    for (uint32_t kind = NANDEX_INDEX_BPLUS; kind <= NANDEX_INDEX_BPLUS_DFTL; kind++) {
        batches(kind, NANDEX_DURABLE_EVERY_OPERATION);
        batches(kind, NANDEX_DURABLE_EVERY_SYNC);
        changes_at_once(kind);
    }
    changes_at_once(NANDEX_INDEX_MU);
    changes_at_once(NANDEX_INDEX_VMTREE);
    changes_at_once(NANDEX_INDEX_PLOW);
    batches_that_end_otherwise();
    printf("%d failures\n", failures);
    return failures != 0;
}
