/* The quick start of docs/c.md. */
#include "ram_chip.h"

int main(void) {
    static ram_chip ram;
    nandex_index *index;
    uint8_t key[8] = {0, 0, 0, 0, 0, 0, 0, 7}, value[8] = {42};
    nandex_chip chip = ram_chip_new(&ram); /* in firmware: your five functions */
    nandex_config config = {.struct_bytes = sizeof config, .index = NANDEX_INDEX_MU,
                            .durability = NANDEX_DURABLE_EVERY_OPERATION, .key_bytes = 8, .value_bytes = 8};
    if (nandex_new(&chip, &config, &index, NULL) != NANDEX_OK) return 1;
    if (nandex_open(index) != NANDEX_OK) return 1; /* mounts, or formats a blank chip */
    if (nandex_put(index, key, 8, value, 8) != NANDEX_OK) return 1;
    if (nandex_get(index, key, 8, value, 8) != NANDEX_OK || value[0] != 42) return 1;
    return nandex_close(index) | nandex_free(index);
}
