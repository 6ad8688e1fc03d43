/* Places on a map: 1,000 points go into an R-tree, the power is cut, and a window and the nearest ones are found again. */
#include "arena.h"
#include "ram_chip.h"

#include <stdio.h>

#define TRY(call)                                                                                            \
    do {                                                                                                     \
        int32_t code = (call);                                                                               \
        if (code != NANDEX_OK) {                                                                             \
            fprintf(stderr, "%s: %s: %s\n", #call, nandex_error_name(code), nandex_map_last_message(map));   \
            return 1;                                                                                        \
        }                                                                                                    \
    } while (0)

typedef struct found {
    int count;
    uint64_t ids[8];
} found;

static int32_t collect(void *context, const nandex_box *place, uint64_t id) {
    found *all = (found *)context;
    (void)place;
    if (all->count < 8) all->ids[all->count] = id;
    all->count++;
    return 0;
}

static nandex_box point(int32_t x, int32_t y) {
    nandex_box box;
    box.low_x = box.high_x = x;
    box.low_y = box.high_y = y;
    return box;
}

int main(void) {
    static ram_chip chip;
    nandex_chip functions = ram_chip_new(&chip);
    nandex_map_config config;
    nandex_map *map = NULL;
    memset(&config, 0, sizeof config);
    config.struct_bytes = sizeof config;

    TRY(use_arena());
    TRY(nandex_map_new(&functions, &config, &map, NULL));
    TRY(nandex_map_open(map));
    for (int i = 0; i < 1000; i++) {
        nandex_box place = point(i % 40, i / 40);
        TRY(nandex_map_insert(map, &place, (uint64_t)i));
    }
    TRY(nandex_map_free(map)); /* not closed: as if the power had gone */

    TRY(nandex_map_new(&functions, &config, &map, NULL));
    TRY(nandex_map_mount(map));
    nandex_box window = point(10, 10), place = point(11, 11);
    window.high_x = window.high_y = 12;
    TRY(nandex_map_remove(map, &place, 11 * 40 + 11));
    found inside = {0, {0}}, near = {0, {0}};
    TRY(nandex_map_window(map, &window, collect, &inside));
    TRY(nandex_map_nearest(map, 11, 11, 4, collect, &near));
    TRY(nandex_map_check(map, NULL));
    TRY(nandex_map_close(map));
    TRY(nandex_map_free(map));
    printf("%d places in the window, the nearest of 4 is %llu\n", inside.count, (unsigned long long)near.ids[0]);
    free(chip.bytes);
    return inside.count == 8 && near.count == 4 && near.ids[0] == 10 * 40 + 11 && all_is_back("r-tree") ? 0 : 1;
}
