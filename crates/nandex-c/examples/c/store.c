/* Inserts 2,000 records into an index on a chip in RAM, drops the handle as a power cut would, mounts, and verifies them.
   With -DFIRMWARE it gives the library an arena and prints what it took of it. Usage: store [index] */
#include "arena.h"
#include "ram_chip.h"

#include <stdio.h>

#define TRY(call)                                                                                      \
    do {                                                                                               \
        int32_t code = (call);                                                                         \
        if (code != NANDEX_OK) {                                                                       \
            fprintf(stderr, "%s: %s: %s\n", #call, nandex_error_name(code), nandex_last_message(index)); \
            return 1;                                                                                  \
        }                                                                                              \
    } while (0)

enum { RECORDS = 2000 };

int main(int count, char **words) {
    static ram_chip chip;
    nandex_index *index = NULL;
    if (nandex_abi_version() >> 16 != NANDEX_ABI_VERSION >> 16) return 2;
    TRY(use_arena());
    const char *name = count > 1 ? words[1] : "mu";
    nandex_chip functions = ram_chip_new(&chip);
    nandex_config config = config_of(nandex_index_by_name(name));
    TRY(nandex_new(&functions, &config, &index, NULL));
    TRY(nandex_open(index));
    for (uint64_t i = 0; i < RECORDS; i++) {
        uint8_t key[8], value[8];
        /* SBITS takes ascending keys; for all others the order is scattered. */
        key_of(config.index == NANDEX_INDEX_SBITS ? i : i * 7919 % RECORDS, key);
        key_of(i, value);
        TRY(nandex_put(index, key, 8, value, 8));
    }
    TRY(nandex_free(index));

    TRY(nandex_new(&functions, &config, &index, NULL));
    TRY(nandex_mount(index));
    int right = 0;
    for (uint64_t i = 0; i < RECORDS; i++) {
        uint8_t key[8], value[8], expected[8];
        key_of(config.index == NANDEX_INDEX_SBITS ? i : i * 7919 % RECORDS, key);
        key_of(i, expected);
        TRY(nandex_get(index, key, 8, value, 8));
        right += memcmp(value, expected, 8) == 0;
    }
    nandex_stats stats;
    memset(&stats, 0, sizeof stats);
    stats.struct_bytes = sizeof stats;
    TRY(nandex_get_stats(index, &stats));
    TRY(nandex_check(index, NULL));
    TRY(nandex_close(index));
    TRY(nandex_free(index));
    printf("%s: %d of %d records after the mount, index holds %lu bytes\n", name, right, RECORDS,
           (unsigned long)stats.ram_bytes);
    free(chip.bytes);
    return right == RECORDS && all_is_back(name) ? 0 : 1;
}
