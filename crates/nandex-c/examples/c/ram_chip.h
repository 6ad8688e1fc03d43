/* A NAND chip in RAM, for the examples and tests: the rules of a part, and a power switch. */
#ifndef RAM_CHIP_H
#define RAM_CHIP_H

#include "nandex.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE_BYTES = 2048, SPARE_BYTES = 64, PAGES_PER_BLOCK = 64, BLOCKS = 40 };

typedef struct ram_chip {
    uint8_t *bytes;          /* pages with their spare areas */
    bool programmed[BLOCKS * PAGES_PER_BLOCK];
    bool bad[BLOCKS];
    uint64_t operations;     /* programs and erases so far */
    uint64_t cut_at;         /* the power goes at this operation; 0: never */
    uint32_t spare_bytes;    /* that the driver tells */
    nandex_index *reenter;   /* used within a callback, to show what that answers */
    int32_t reentered;
} ram_chip;

enum { RAW_BYTES = PAGE_BYTES + SPARE_BYTES };

static inline uint8_t *ram_page(ram_chip *chip, uint32_t page) { return chip->bytes + (size_t)page * RAW_BYTES; }

static inline bool ram_power_is_off(const ram_chip *chip) { return chip->cut_at != 0 && chip->operations >= chip->cut_at; }

static int32_t ram_read(void *context, uint32_t page, uint8_t *data, size_t data_bytes, uint8_t *spare,
                        size_t spare_bytes) {
    ram_chip *chip = (ram_chip *)context;
    if (ram_power_is_off(chip) || spare_bytes > chip->spare_bytes) return NANDEX_CHIP_GONE;
    if (chip->reenter != NULL) chip->reentered = nandex_sync(chip->reenter);
    memcpy(data, ram_page(chip, page), data_bytes);
    memcpy(spare, ram_page(chip, page) + PAGE_BYTES, spare_bytes);
    return NANDEX_CHIP_OK;
}

static int32_t ram_program(void *context, uint32_t page, const uint8_t *data, size_t data_bytes, const uint8_t *spare,
                           size_t spare_bytes) {
    ram_chip *chip = (ram_chip *)context;
    if (ram_power_is_off(chip) || spare_bytes > chip->spare_bytes) return NANDEX_CHIP_GONE;
    chip->operations++;
    if (chip->programmed[page]) return NANDEX_CHIP_FAILED;
    chip->programmed[page] = true;
    /* A cut leaves half a page. */
    size_t whole = ram_power_is_off(chip) ? data_bytes / 2 : data_bytes;
    memcpy(ram_page(chip, page), data, whole);
    if (ram_power_is_off(chip)) return NANDEX_CHIP_GONE;
    memcpy(ram_page(chip, page) + PAGE_BYTES, spare, spare_bytes);
    return NANDEX_CHIP_OK;
}

static int32_t ram_erase(void *context, uint32_t block) {
    ram_chip *chip = (ram_chip *)context;
    if (ram_power_is_off(chip)) return NANDEX_CHIP_GONE;
    chip->operations++;
    memset(ram_page(chip, block * PAGES_PER_BLOCK), 0xff, (size_t)PAGES_PER_BLOCK * RAW_BYTES);
    memset(&chip->programmed[block * PAGES_PER_BLOCK], 0, PAGES_PER_BLOCK * sizeof(bool));
    return ram_power_is_off(chip) ? NANDEX_CHIP_GONE : NANDEX_CHIP_OK;
}

static int32_t ram_is_bad(void *context, uint32_t block) {
    return ((ram_chip *)context)->bad[block] ? NANDEX_CHIP_BAD : NANDEX_CHIP_OK;
}

static int32_t ram_mark_bad(void *context, uint32_t block) {
    ((ram_chip *)context)->bad[block] = true;
    return NANDEX_CHIP_OK;
}

/* An erased chip, and how Nandex operates it. */
static nandex_chip ram_chip_new(ram_chip *chip) {
    memset(chip, 0, sizeof *chip);
    size_t bytes = (size_t)BLOCKS * PAGES_PER_BLOCK * RAW_BYTES;
    chip->bytes = (uint8_t *)malloc(bytes);
    memset(chip->bytes, 0xff, bytes);
    nandex_chip functions;
    memset(&functions, 0, sizeof functions);
    functions.struct_bytes = sizeof functions;
    functions.context = chip;
    functions.page_bytes = PAGE_BYTES;
    functions.spare_bytes = chip->spare_bytes = SPARE_BYTES;
    functions.pages_per_block = PAGES_PER_BLOCK;
    functions.blocks = BLOCKS;
    functions.read = ram_read;
    functions.program = ram_program;
    functions.erase = ram_erase;
    functions.is_bad = ram_is_bad;
    functions.mark_bad = ram_mark_bad;
    return functions;
}

/* Records of 8 and 8 bytes, every operation durable. */
static inline nandex_config config_of(uint32_t index) {
    nandex_config config;
    memset(&config, 0, sizeof config);
    config.struct_bytes = sizeof config;
    config.index = index;
    config.durability = NANDEX_DURABLE_EVERY_OPERATION;
    config.key_bytes = 8;
    config.value_bytes = 8;
    return config;
}

/* A number as a key: big-endian, so that keys are in the order of the numbers. */
static inline void key_of(uint64_t number, uint8_t key[8]) {
    for (int i = 7; i >= 0; i--, number >>= 8) key[i] = (uint8_t)number;
}

#endif
