/* With -DFIRMWARE: the memory that the library may take, and what happens where it cannot go on. */
#ifndef ARENA_H
#define ARENA_H

#include "nandex.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef FIRMWARE
/* The core library that comes with the compiler can unwind; on a target with panic=abort nothing asks for this. */
void rust_eh_personality(void);
void rust_eh_personality(void) {}

static void on_panic(void *context, const char *message) {
    (void)context;
    fprintf(stderr, "%s\n", message);
    exit(3);
}
#endif

/* Before the first other call. */
static inline int32_t use_arena(void) {
#ifdef FIRMWARE
    static uint8_t arena[512 * 1024];
    int32_t code = nandex_use_arena(arena, sizeof arena);
    return code == NANDEX_OK ? nandex_on_panic(on_panic, NULL) : code;
#else
    return NANDEX_OK;
#endif
}

/* Prints what was taken of the arena at most; at the end all of it is to be back. */
static inline int all_is_back(const char *name) {
#ifdef FIRMWARE
    nandex_memory memory;
    memset(&memory, 0, sizeof memory);
    memory.struct_bytes = sizeof memory;
    if (nandex_get_memory(&memory) != NANDEX_OK) return 0;
    printf("%s: heap peak %lu bytes, left %lu\n", name, (unsigned long)memory.peak_bytes, (unsigned long)memory.used_bytes);
    return memory.used_bytes == 0;
#else
    (void)name;
    return 1;
#endif
}

#endif
