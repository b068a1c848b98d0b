/* Counts the allocations that the code between two addresses asks for itself. Loaded in front of the C library. */

#include <stddef.h>
#include <stdint.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *memory, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);

static uintptr_t first, last;
static long counted;

void count_from(uintptr_t begin, uintptr_t end) {
    first = begin;
    last = end;
    counted = 0;
}

long count_so_far(void) { return counted; }

static void count(const void *caller) {
    const uintptr_t at = (uintptr_t)caller;
    counted += at >= first && at < last;
}

#define COUNT count(__builtin_return_address(0))

void *malloc(size_t size) {
    COUNT;
    return __libc_malloc(size);
}

void *calloc(size_t count_of, size_t size) {
    COUNT;
    return __libc_calloc(count_of, size);
}

void *realloc(void *memory, size_t size) {
    COUNT;
    return __libc_realloc(memory, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
    COUNT;
    return __libc_memalign(alignment, size);
}

int posix_memalign(void **memory, size_t alignment, size_t size) {
    COUNT;
    *memory = __libc_memalign(alignment, size);
    return *memory == NULL ? 12 : 0;
}

/* What new calls, with its names as compilers write them. */
void *_Znwm(size_t size) {
    COUNT;
    return __libc_malloc(size);
}

void *_Znam(size_t size) {
    COUNT;
    return __libc_malloc(size);
}
