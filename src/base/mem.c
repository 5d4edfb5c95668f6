/* base/mem.c - the allocator: counted, and able to fail on request. Knows no budget. */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS, madvise() */
#endif
#include "base/mem.h"

#include <stdalign.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Each block starts with its size; the header keeps the caller's alignment. */
#define HEADER (alignof(max_align_t) > sizeof(size_t) ? alignof(max_align_t) : sizeof(size_t))

static atomic_size_t live, highwater;
static atomic_long fail_in;

static int should_fail(void)
{
    if (atomic_load_explicit(&fail_in, memory_order_relaxed) == 0)
        return 0;
    return atomic_fetch_sub(&fail_in, 1) == 1;
}

static void account(size_t size)
{
    size_t now = atomic_fetch_add(&live, size) + size;
    size_t top = atomic_load(&highwater);
    while (now > top && !atomic_compare_exchange_weak(&highwater, &top, now)) {
    }
}

void *tg_alloc(size_t size)
{
    char *p;

    if (size > SIZE_MAX - HEADER || should_fail())
        return NULL;
    p = malloc(HEADER + size);
    if (p == NULL)
        return NULL;
    memcpy(p, &size, sizeof size);
    account(size);
    return p + HEADER;
}

void *tg_alloc_array(size_t n, size_t size)
{
    size_t bytes;

    if (__builtin_mul_overflow(n, size, &bytes) && TG_PLANT != 12)
        return NULL;
    return tg_alloc(bytes);
}

void *tg_calloc(size_t n, size_t size)
{
    void *p = tg_alloc_array(n, size);
    if (p != NULL)
        memset(p, 0, n * size);
    return p;
}

void tg_free(void *p)
{
    size_t size;

    if (p == NULL)
        return;
    char *start = (char *)p - HEADER;
    memcpy(&size, start, sizeof size);
    atomic_fetch_sub(&live, size);
    free(start);
}

void *tg_zlib_alloc(void *user, unsigned n, unsigned size)
{
    (void)user;
    return tg_alloc_array(n, size);
}

void tg_zlib_free(void *user, void *p)
{
    (void)user;
    tg_free(p);
}

char *tg_strdup(const char *s)
{
    size_t n = strlen(s) + 1;
    char *p = tg_alloc(n);
    if (p != NULL)
        memcpy(p, s, n);
    return p;
}

size_t tg_mem_live(void)
{
    return atomic_load(&live);
}

size_t tg_mem_highwater(void)
{
    return atomic_load(&highwater);
}

void tg_mem_reset(void)
{
    atomic_store(&highwater, atomic_load(&live));
}

void tg_mem_fail_at(long n)
{
    atomic_store(&fail_in, n);
}

tg_status tg_buf_resize(tg_buf *b, size_t len, tg_error *err)
{
    uint8_t *p = tg_alloc(len == 0 ? 1 : len);
    if (p == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for %zu bytes", len);
    if (b->len > 0)
        memcpy(p, b->data, b->len < len ? b->len : len);
    tg_free(b->data);
    b->data = p;
    b->len = len;
    return TG_OK;
}

void tg_buf_free(tg_buf *b)
{
    tg_free(b->data);
    *b = (tg_buf){0};
}

void tg_buf_move(tg_buf *dst, tg_buf *src)
{
    tg_buf_free(dst);
    *dst = *src;
    *src = (tg_buf){0};
}

static size_t round_up(size_t n, size_t to)
{
    return n > SIZE_MAX - to ? SIZE_MAX : (n + to - 1) / to * to;
}

void tg_touch(void *data, size_t len)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    volatile uint8_t *p = data;

    for (size_t i = 0; i < len; i += page - ((uintptr_t)data + i) % page) {
        uint8_t byte = p[i];
        p[i] = byte;
    }
}

tg_status tg_arena_reserve(tg_arena *a, size_t len, tg_error *err)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = round_up(len == 0 ? 1 : len, page);
    void *p = should_fail() || bytes == SIZE_MAX ? MAP_FAILED
                                                 : mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                                                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED)
        return tg_fail(err, TG_NO_MEMORY, "no memory for %zu bytes", bytes);
#ifdef MADV_HUGEPAGE
    (void)madvise(p, bytes, MADV_HUGEPAGE); /* a hint: small pages are only slower */
#endif
    account(bytes);
    *a = (tg_arena){p, bytes};
    return TG_OK;
}

tg_status tg_arena_map(tg_arena *a, size_t len, tg_error *err)
{
    TG_TRY(tg_arena_reserve(a, len, err));
    tg_touch(a->data, a->len);
    return TG_OK;
}

void tg_arena_unmap(tg_arena *a)
{
    if (a->data == NULL)
        return;
    (void)munmap(a->data, a->len); /* fails only for an address that is not ours */
    atomic_fetch_sub(&live, a->len);
    *a = (tg_arena){0};
}

tg_status tg_stack_map(tg_arena *a, size_t len, tg_error *err)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = round_up(len, page) + page;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS;
#ifdef MAP_STACK
    flags |= MAP_STACK | MAP_NORESERVE;
#endif
    void *p =
        should_fail() ? MAP_FAILED : mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (p == MAP_FAILED)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a stack of %zu bytes", bytes);
#ifdef MADV_NOHUGEPAGE
    (void)madvise(p, bytes, MADV_NOHUGEPAGE); /* a hint: the first touch would take 2 MiB */
#endif
    (void)mprotect(p, page, PROT_NONE); /* where it cannot: no guard, and no harm */
    *a = (tg_arena){p, bytes};
    return TG_OK;
}

void tg_stack_unmap(tg_arena *a)
{
    if (a->data != NULL)
        (void)munmap(a->data, a->len);
    *a = (tg_arena){0};
}

/* Room for n more bytes and the terminator. */
static int text_reserve(tg_text *t, size_t n)
{
    if (t->failed)
        return 0;
    if (n < t->cap - t->len)
        return 1;
    size_t want = t->cap < 256 ? 256 : t->cap;
    while (want <= SIZE_MAX / 4 && want - t->len <= n)
        want *= 2;
    char *p = want - t->len > n ? tg_alloc(want) : NULL;
    if (p == NULL) {
        t->failed = 1;
        return 0;
    }
    if (t->len > 0)
        memcpy(p, t->data, t->len);
    p[t->len] = '\0';
    tg_free(t->data);
    t->data = p;
    t->cap = want;
    return 1;
}

void tg_text_add_n(tg_text *t, const char *s, size_t n)
{
    if (!text_reserve(t, n))
        return;
    memcpy(t->data + t->len, s, n);
    t->len += n;
    t->data[t->len] = '\0';
}

void tg_text_add(tg_text *t, const char *s)
{
    tg_text_add_n(t, s, strlen(s));
}

void tg_text_addf(tg_text *t, const char *fmt, ...)
{
    va_list ap, again;

    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0)
        t->failed = 1;
    else if (text_reserve(t, (size_t)n)) {
        (void)vsnprintf(t->data + t->len, (size_t)n + 1, fmt, again);
        t->len += (size_t)n;
    }
    va_end(again);
}

tg_status tg_text_status(const tg_text *t, tg_error *err)
{
    return t->failed ? tg_fail(err, TG_NO_MEMORY, "no memory for a text of %zu bytes", t->len)
                     : TG_OK;
}

char *tg_text_steal(tg_text *t)
{
    char *p = t->data;
    *t = (tg_text){0};
    return p;
}

void tg_text_free(tg_text *t)
{
    tg_free(t->data);
    *t = (tg_text){0};
}
