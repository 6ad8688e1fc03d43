/* The quick start on a chip that holds records, where the bus answers nothing at one of the first reads: nothing on
 * the chip may change. Prints what failed. */
#include "ram_chip.h"

#include <stdio.h>

static ram_chip ram;
static nandex_chip functions;
static uint64_t reads, gone_at;

static int32_t read_or_gone(void *context, uint32_t page, uint8_t *data, size_t data_bytes, uint8_t *spare,
                            size_t spare_bytes) {
    if (++reads == gone_at) return NANDEX_CHIP_GONE;
    return ram_read(context, page, data, data_bytes, spare, spare_bytes);
}

static nandex_chip chip_with_records(ram_chip *unused) {
    (void)unused;
    return functions;
}

#define main quick_start
#define ram_chip_new chip_with_records
#include "quick.c"
#undef ram_chip_new
#undef main

enum { RECORDS = 200 };

static void value_of(uint64_t number, uint8_t value[8]) { key_of(number * 3 + 1, value); }

static bool fill(void) {
    nandex_index *index;
    nandex_config config = config_of(NANDEX_INDEX_MU);
    uint8_t key[8], value[8];
    if (nandex_new(&functions, &config, &index, NULL) != NANDEX_OK || nandex_open(index) != NANDEX_OK) return false;
    for (uint64_t i = 100; i < 100 + RECORDS; i++) {
        key_of(i, key), value_of(i, value);
        if (nandex_put(index, key, 8, value, 8) != NANDEX_OK) return false;
    }
    return nandex_close(index) == NANDEX_OK && nandex_free(index) == NANDEX_OK;
}

static int records_left(void) {
    nandex_index *index;
    nandex_config config = config_of(NANDEX_INDEX_MU);
    uint8_t key[8], value[8], found[8];
    int left = 0;
    if (nandex_new(&functions, &config, &index, NULL) != NANDEX_OK) return -1;
    if (nandex_mount(index) == NANDEX_OK) {
        for (uint64_t i = 100; i < 100 + RECORDS; i++) {
            key_of(i, key), value_of(i, value);
            left += nandex_get(index, key, 8, found, 8) == NANDEX_OK && memcmp(found, value, 8) == 0;
        }
    }
    nandex_free(index);
    return left;
}

int main(void) {
    size_t bytes = (size_t)BLOCKS * PAGES_PER_BLOCK * RAW_BYTES;
    uint64_t refused = 0;
    functions = ram_chip_new(&ram);
    functions.read = read_or_gone;
    if (!fill()) return printf("no records to begin with\n"), 1;
    uint8_t *before = (uint8_t *)malloc(bytes);
    memcpy(before, ram.bytes, bytes);
    for (uint64_t read = 1; read <= 12; read++) {
        reads = 0, gone_at = read;
        int code = quick_start();
        bool happened = reads >= gone_at;
        gone_at = 0;
        if (code == 0 && !happened) break;
        refused += code != 0;
        if (code != 0 && memcmp(before, ram.bytes, bytes) != 0) {
            return printf("bus gone at read %d: the chip was changed, %d of %d records left\n", (int)read, records_left(), RECORDS), 1;
        }
        int left = records_left();
        if (left != RECORDS) return printf("bus gone at read %d: %d of %d records left\n", (int)read, left, RECORDS), 1;
        memcpy(before, ram.bytes, bytes);
    }
    if (refused == 0) return printf("the bus was never gone\n"), 1;
    printf("%d starts refused, %d records left\n", (int)refused, records_left());
    return 0;
}
