/* base/mem.h - the only file whose code calls malloc() or maps anonymous memory.
 *
 * Counts live bytes, so a test can hold the high-water mark against the
 * budget, and can make the n-th allocation fail, so a test can walk every
 * out-of-memory path (tests/check.h, CHECK_EVERY_ALLOC). */
#ifndef TG_BASE_MEM_H
#define TG_BASE_MEM_H

#include "base/auto.h"
#include "base/error.h"
#include "tidegate/memory.h"

#include <stddef.h>
#include <stdint.h>

size_t tg_mem_live(void);      /* bytes now held, arenas included */
size_t tg_mem_highwater(void); /* most bytes held since tg_mem_reset() */
void tg_mem_reset(void);
void tg_mem_fail_at(long n); /* n-th next allocation fails; 0 turns it off */

/* TG_AUTO(tg_mem_ptr) p = tg_alloc(n): freed at the end of the scope. */
typedef void *tg_mem_ptr;
static inline void tg_mem_ptr_auto(tg_mem_ptr *p)
{
    tg_free(*p);
}
/* TG_AUTO(tg_str) s = tg_strdup(x). */
typedef char *tg_str;
static inline void tg_str_auto(tg_str *s)
{
    tg_free(*s);
}

/* Owned bytes. {0} is an empty buffer. */
typedef struct tg_buf {
    uint8_t *data;
    size_t len;
} tg_buf;

TG_MUST_USE tg_status tg_buf_resize(tg_buf *b, size_t len, tg_error *err);
void tg_buf_free(tg_buf *b); /* b becomes empty */
void tg_buf_move(tg_buf *dst, tg_buf *src);

static inline void tg_buf_auto(tg_buf *b)
{
    tg_buf_free(b);
}

/* Borrowed bytes, only to read: whoever owns them keeps them. data is not NULL,
 * also where len is 0. */
typedef struct tg_bytes {
    const uint8_t *data;
    size_t len;
} tg_bytes;

/* One block of page-aligned memory for slabs, on huge pages where there are
 * any. Touched whole at once, so that no page fault comes later; by tg_arena_reserve() its
 * owner touches it. {0} is empty. */
typedef struct tg_arena {
    uint8_t *data; /* page-aligned */
    size_t len;    /* a multiple of the page size */
} tg_arena;

TG_MUST_USE tg_status tg_arena_map(tg_arena *a, size_t len, tg_error *err);
TG_MUST_USE tg_status tg_arena_reserve(tg_arena *a, size_t len, tg_error *err);
/* Touch the pages of a block that nobody else writes to meanwhile; its bytes stay. */
void tg_touch(void *data, size_t len);
void tg_arena_unmap(tg_arena *a); /* a becomes empty */
static inline void tg_arena_auto(tg_arena *a)
{
    tg_arena_unmap(a);
}

/* Room for a thread's stack: address space whose pages are taken as they are touched, one at a
 * time (never huge pages), behind a page that faults. Not counted. Freed by tg_stack_unmap().
 */
TG_MUST_USE tg_status tg_stack_map(tg_arena *a, size_t len, tg_error *err);
void tg_stack_unmap(tg_arena *a); /* a becomes empty */

/* Text that grows. {0} is an empty one; data is always terminated once anything
 * was added. A failed allocation latches: later calls do nothing, and
 * tg_text_status() says so, so that a document is written without a check a line. */
typedef struct tg_text {
    char *data;
    size_t len, cap;
    int failed;
} tg_text;

void tg_text_add(tg_text *t, const char *s);
void tg_text_add_n(tg_text *t, const char *s, size_t n);
TG_PRINTF(2, 3)
void tg_text_addf(tg_text *t, const char *fmt, ...);
TG_MUST_USE tg_status tg_text_status(const tg_text *t, tg_error *err);
char *tg_text_steal(tg_text *t); /* the caller's, tg_free(); t becomes empty */
void tg_text_free(tg_text *t);
static inline void tg_text_auto(tg_text *t)
{
    tg_text_free(t);
}

/* tg_alloc_array() and tg_free() as zlib wants them (zalloc, zfree): its states count, too. */
void *tg_zlib_alloc(void *user, unsigned n, unsigned size);
void tg_zlib_free(void *user, void *p);

#endif
