/* What a C program needs on a Cortex-M4 under QEMU: vectors, memory, and the debugger's calls for words and the end. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

extern uint8_t data_start[], data_end[], data_load[], bss_start[], bss_end[], stack_top[], heap_start[], heap_end[];
int main(int count, char **words);
void start(void);
int _write(int file, const char *bytes, int count);
void *_sbrk(ptrdiff_t more);
void _exit(int code);
void abort(void);
void exit(int code);

enum { SYS_WRITE0 = 0x04, SYS_GET_CMDLINE = 0x15, SYS_EXIT_EXTENDED = 0x20, EXITED = 0x20026 };

static int debugger(int call, const void *with) {
    register int r0 __asm__("r0") = call;
    register const void *r1 __asm__("r1") = with;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}

int _write(int file, const char *bytes, int count) {
    (void)file;
    for (int at = 0; at < count; at += 63) {
        char some[64] = {0};
        memcpy(some, bytes + at, (size_t)(count - at < 63 ? count - at : 63));
        debugger(SYS_WRITE0, some);
    }
    return count;
}

void *_sbrk(ptrdiff_t more) {
    static uint8_t *end = heap_start;
    if (more > heap_end - end) return (void *)-1;
    end += more;
    return end - more;
}

void _exit(int code) {
    const uint32_t why[2] = {EXITED, (uint32_t)code};
    debugger(SYS_EXIT_EXTENDED, why);
    for (;;) {
    }
}

/* Faults end the program: a test must not hang. */
static void fault(void) { _exit(70); }

void start(void) {
    memcpy(data_start, data_load, (size_t)(data_end - data_start));
    memset(bss_start, 0, (size_t)(bss_end - bss_start));
    static char line[80];
    const struct { char *text; uint32_t bytes; } room = {line, sizeof line};
    char *words[3] = {line, NULL, NULL};
    int count = 1;
    if (debugger(SYS_GET_CMDLINE, &room) == 0)
        for (char *space = strchr(line, ' '); space != NULL && count < 2; space = strchr(space, ' ')) {
            *space++ = 0;
            words[count++] = space;
        }
    exit(main(count, words));
}

__attribute__((section(".vectors"), used)) static const void *const vectors[16] = {
    stack_top, (const void *)start, (const void *)fault, (const void *)fault,
    (const void *)fault, (const void *)fault, (const void *)fault};
