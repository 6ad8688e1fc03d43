// littlefs behind six functions: a file is opened, read or written whole, and closed.
#include "lfs.h"
#include <stdlib.h>

// What is programmed and erased at a time, and the bytes of the caches, as in Rust.
struct shape {
    uint32_t unit, block, blocks, cache, lookahead;
    int32_t cycles;
};

// The part, in Rust; 0 or a negative error.
extern int peers_flash_read(void *part, uint32_t at, uint8_t *into, uint32_t count);
extern int peers_flash_program(void *part, uint32_t at, const uint8_t *bytes, uint32_t count);
extern int peers_flash_erase(void *part, uint32_t from, uint32_t to);

struct files {
    lfs_t lfs;
    lfs_file_t file;
    struct lfs_config config;
    struct lfs_file_config open;
};

static int of(int error) { return error == 0 ? 0 : LFS_ERR_IO; }

static int read(const struct lfs_config *c, lfs_block_t block, lfs_off_t offset, void *into, lfs_size_t count) {
    return of(peers_flash_read(c->context, block * c->block_size + offset, into, count));
}

static int prog(const struct lfs_config *c, lfs_block_t block, lfs_off_t offset, const void *bytes, lfs_size_t count) {
    return of(peers_flash_program(c->context, block * c->block_size + offset, bytes, count));
}

static int erase(const struct lfs_config *c, lfs_block_t block) {
    return of(peers_flash_erase(c->context, block * c->block_size, (block + 1) * c->block_size));
}

static int sync(const struct lfs_config *c) {
    (void)c;
    return 0;
}

void peers_lfs_free(struct files *f) {
    if (f == NULL) return;
    free(f->config.read_buffer);
    free(f->config.prog_buffer);
    free(f->config.lookahead_buffer);
    free(f->open.buffer);
    free(f);
}

struct files *peers_lfs_new(void *part, struct shape s) {
    struct files *f = calloc(1, sizeof *f);
    if (f == NULL) return NULL;
    f->config = (struct lfs_config){
        .context = part, .read = read, .prog = prog, .erase = erase, .sync = sync,
        .read_size = s.unit, .prog_size = s.unit, .block_size = s.block, .block_count = s.blocks, .block_cycles = s.cycles,
        .cache_size = s.cache, .lookahead_size = s.lookahead,
        .read_buffer = malloc(s.cache), .prog_buffer = malloc(s.cache), .lookahead_buffer = malloc(s.lookahead),
    };
    f->open.buffer = malloc(s.cache);
    if (f->config.read_buffer && f->config.prog_buffer && f->config.lookahead_buffer && f->open.buffer) return f;
    peers_lfs_free(f);
    return NULL;
}

int peers_lfs_format(struct files *f) { return lfs_format(&f->lfs, &f->config); }

int peers_lfs_mount(struct files *f) { return lfs_mount(&f->lfs, &f->config); }

int peers_lfs_mkdir(struct files *f, const char *path) { return lfs_mkdir(&f->lfs, path); }

int peers_lfs_put(struct files *f, const char *path, const uint8_t *value, uint32_t count) {
    int flags = LFS_O_WRONLY | LFS_O_CREAT | LFS_O_TRUNC;
    int error = lfs_file_opencfg(&f->lfs, &f->file, path, flags, &f->open);
    if (error) return error;
    lfs_ssize_t written = lfs_file_write(&f->lfs, &f->file, value, count);
    error = lfs_file_close(&f->lfs, &f->file);
    return written < 0 ? written : error;
}

// The bytes read, or a negative error.
int peers_lfs_get(struct files *f, const char *path, uint8_t *value, uint32_t count) {
    int error = lfs_file_opencfg(&f->lfs, &f->file, path, LFS_O_RDONLY, &f->open);
    if (error) return error;
    lfs_ssize_t found = lfs_file_read(&f->lfs, &f->file, value, count);
    error = lfs_file_close(&f->lfs, &f->file);
    return error ? error : found;
}

// Bytes of RAM: caches and structures.
uint32_t peers_lfs_ram(const struct files *f) {
    return 3 * f->config.cache_size + f->config.lookahead_size + sizeof(lfs_t) + sizeof(lfs_file_t);
}
